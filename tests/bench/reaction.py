"""From a zone's key becoming visible to its flush being sent: 100 routers, created one after the other, mode `always`.

Two clocks: what the agent says of itself (key seen by its monitor → sent), and what an independent observer of the
local database saw (key seen by the observer → sent), which includes everything on the agent's way to seeing it.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import ovs.db.idl
import ovs.poller

from tests.lab.agent import LabAgent
from tests.lab.debian import ovn_tree
from tests.lab.namespace import Namespace
from tests.lab.ovn import Ovn

SETTINGS = {
    "flush": {"triggers": {"router_created": "always"}, "budget_per_minute": 10_000, "mass_change": 10_000},
}
TARGET_S = 0.1
HEADS = ("median", "p90", "p99", "max")
PAGE = Path(__file__).resolve().parents[2] / "docs/reference/reaction.md"


class Observer:
    """A monitor of its own on the local database: when each zone number first appeared, on the wall clock."""

    def __init__(self, ovn: Ovn) -> None:
        helper = ovs.db.idl.SchemaHelper(str(ovn.tree / "schema/vswitch.ovsschema"))
        helper.register_columns("Bridge", ["external_ids"])
        self._idl = ovs.db.idl.Idl(ovn.ovs_db, helper)
        self._should_end = threading.Event()
        self.seen: dict[int, float] = {}
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End watching."""
        self._should_end.set()
        self._thread.join()
        self._idl.close()

    def _watch(self) -> None:
        number = -1
        while not self._should_end.is_set():
            self._idl.run()
            if self._idl.change_seqno != number:
                number, now = self._idl.change_seqno, time.time()
                for row in self._idl.tables["Bridge"].rows.values():
                    for key, value in row.external_ids.items():
                        if key.startswith("ct-zone-"):
                            self.seen.setdefault(int(value), now)
            poller = ovs.poller.Poller()
            self._idl.wait(poller)
            poller.timer_wait(100)
            poller.block()


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all is not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def figures(values: Sequence[float]) -> tuple[float, float, float, float]:
    """Median, p90, p99 and maximum."""
    return statistics.median(values), percentile(values, 0.9), percentile(values, 0.99), max(values)


def page(routers: int, series: Mapping[str, Sequence[float]]) -> str:
    """The page of the reference."""
    lines = [
        "# Reaction",
        "",
        f"{routers} routers created one after the other, mode `always`, on a private OVN 25.03; written by",
        f"`python -m tests.bench.reaction --write` on {time.strftime('%Y-%m-%d', time.gmtime())},",
        f"Linux {platform.release()}, {os.cpu_count()} cores. Milliseconds.",
        "",
        "| " + " | ".join(("", *HEADS)) + " |",
        "|---" * 5 + "|",
    ]
    lines += [
        f"| {name} | " + " | ".join(f"{1000 * figure:.1f}" for figure in figures(values)) + " |"
        for name, values in series.items()
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure and print; exits with 1 when a zone was not flushed exactly once, never for being slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routers", type=int, default=100)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--suite", default="trixie")
    arguments = parser.parse_args()
    with Namespace() as namespace, Ovn(namespace, ovn_tree(arguments.suite)) as ovn:
        ovn.add_switch()
        observer = Observer(ovn)
        with LabAgent(namespace, ovn, SETTINGS) as agent:
            for number in range(arguments.routers):
                ovn.add_router(f"r{number}")
            wanted = {zone for number in range(arguments.routers) for zone in ovn.router_zones(f"r{number}")}
            agent.wait_for_event("verdict", count=arguments.routers, timeout_s=60)
            flushes = agent.events("flush")
        observer.stop()
    zones = [int(flush["zone"]) for flush in flushes]
    series = {
        "key seen by the agent → flush sent": [flush["reaction_s"] for flush in flushes],
        "key seen by an observer → flush sent": [f["sent"] - observer.seen[f["zone"]] for f in flushes],
        "the flush itself, in the kernel": [flush["duration_s"] for flush in flushes],
    }
    print(f"{arguments.routers} routers, {len(wanted)} zones, {len(zones)} flushes; milliseconds")
    print(" " * 42 + "".join(f"{head:>10}" for head in HEADS))
    for name, values in series.items():
        print(f"{name:42}" + "".join(f"{1000 * figure:10.1f}" for figure in figures(values)))
    if arguments.write:
        PAGE.write_text(page(arguments.routers, series))
        print(f"wrote {PAGE}")
    late = sum(1 for value in series["key seen by the agent → flush sent"] if value > TARGET_S)
    print(f"later than {1000 * TARGET_S:.0f} ms: {late} of {len(flushes)}")
    return 0 if sorted(zones) == sorted(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
