"""From a zone's key becoming visible to its flush being sent: 100 routers, created one after the other, mode `always`.

Two clocks: what the agent says of itself (key seen by its monitor → sent), and what an independent observer of the
local database saw (key seen by the observer → sent), which includes everything on the agent's way to seeing it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Sequence

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


def row(name: str, values: Sequence[float]) -> str:
    """One line of the table, in milliseconds."""
    figures = (statistics.median(values), percentile(values, 0.9), percentile(values, 0.99), max(values))
    return f"{name:42}" + "".join(f"{1000 * figure:10.1f}" for figure in figures)


def main() -> int:
    """Measure and print; exits with 1 when a zone was not flushed exactly once, never for being slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routers", type=int, default=100)
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
    print(f"{arguments.routers} routers, {len(wanted)} zones, {len(zones)} flushes; milliseconds")
    print(" " * 42 + "".join(f"{head:>10}" for head in ("median", "p90", "p99", "max")))
    print(row("key seen by the agent → flush sent", [flush["reaction_s"] for flush in flushes]))
    print(row("key seen by an observer → flush sent", [f["sent"] - observer.seen[f["zone"]] for f in flushes]))
    print(row("the flush itself, in the kernel", [flush["duration_s"] for flush in flushes]))
    late = sum(1 for flush in flushes if flush["reaction_s"] > TARGET_S)
    print(f"later than {1000 * TARGET_S:.0f} ms: {late} of {len(flushes)}")
    return 0 if sorted(zones) == sorted(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
