"""Proof that stalls are seen, foretold and traced: vswitchd really blocked by its own flushes, on real kernels.

`python3 -m tests.bench.stall` boots each kernel in QEMU, runs `stall_scene` on it, judges what it tells, keeps the
scraped series and the console under `build/bench-stall/`, and prints a table. Seconds inside a virtual machine without
hardware help are 5 to 15 times too long; the ratios are what counts. Exit code 1 when a claim does not hold.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.lab.debian import cache_directory, ovn_tree
from tests.metrics.prometheus_tree import prometheus
from tests.qemu import machine
from tests.qemu.kernels import kernel

OUT: Final = Path("build/bench-stall")
TIMEOUT_S: Final = 1500.0
MEMORY_MIB: Final = 4096
AGREEMENT: Final = 0.10
"""How far the agent's own measure of a stall may be from vswitchd's."""

PREDICTION_FACTOR: Final = 2.0
PUBLISHED: Final = "published for Open vSwitch 3.4: 500k entries in 500 zones, 4.2 s → 0.32 s a flush (ratio 13)"


@dataclass(frozen=True, slots=True)
class Scene:
    """A kernel series of `tests.qemu.kernels` and a Debian release of `tests.lab.debian`."""

    kernel: str
    suite: str

    @property
    def name(self) -> str:
        """For files and tables."""
        return f"linux-{self.kernel}-{self.suite}"


SCENES: Final = (Scene("6.1", "bookworm"), Scene("6.12", "bookworm"), Scene("6.12", "trixie"))


def play(scene: Scene, entries: int, zones: int, out: Path) -> dict[str, Any]:
    """Boot, run, and keep everything; what the scene told.

    Raises:
        RuntimeError: the scene did not come to its end; the console says why.
    """
    ovn_tree(scene.suite)
    argv = [sys.executable, "-m", "tests.bench.stall_scene", scene.suite, str(entries), str(zones), str(prometheus())]
    console = out / f"{scene.name}.console"
    try:
        done = machine.run(kernel(scene.kernel), argv, timeout_s=TIMEOUT_S, memory_mib=MEMORY_MIB)
        console.write_text(done.console)
    except subprocess.TimeoutExpired as error:
        console.write_bytes(error.stdout or b"")
        raise RuntimeError(f"{scene.name}: not over after {TIMEOUT_S:g} s, see {console}") from error
    told = [line for line in done.console.splitlines() if line.startswith("RESULT ")]
    if done.status != 0 or len(told) != 1:
        raise RuntimeError(f"{scene.name}: ended with {done.status}, see {console}")
    result: dict[str, Any] = json.loads(told[0].removeprefix("RESULT "))
    (out / f"{scene.name}.json").write_text(json.dumps(result, indent=1))
    return result


def faults(result: Mapping[str, Any]) -> list[str]:
    """Which claims do not hold."""
    found = []
    predicted_s = result["predicted_s"][result["path"]]
    for setup in result["setups"]:
        router, probed_s, logged_s = setup["router"], setup["probed_s"], setup["logged_s"]
        if logged_s and abs(probed_s - logged_s) > AGREEMENT * logged_s:
            found.append(f"{router}: probes waited {probed_s} s, vswitchd logged {logged_s} s")
        if result["path"] == "table_dump":
            if not logged_s:
                found.append(f"{router}: vswitchd was not blocked")
            if not any(f"routers_in_setup={router}" in line for line in setup["told"]):
                found.append(f"{router}: no stall names it: {setup['told']}")
            if setup["seen_s"] < logged_s / 2:
                found.append(f"{router}: Prometheus saw {setup['seen_s']} s of {logged_s} s")
    first = result["setups"][0]
    stall_s = first["logged_s"] or first["probed_s"]
    if not 1 / PREDICTION_FACTOR <= predicted_s / stall_s <= PREDICTION_FACTOR:
        found.append(f"foretold {predicted_s} s, came {stall_s} s")
    return found


def row(scene: Scene, result: Mapping[str, Any]) -> str:
    """One line of the table."""
    first = result["setups"][0]
    cells = [
        result["kernel"],
        scene.suite,
        result["path"],
        f"{result['entries']:,}",
        f"{result['predicted_s'][result['path']]:.2f}",
        f"{first['logged_s']:.2f}" if first["logged_s"] else "under 1",
        f"{first['probed_s']:.2f}",
        f"{first['seen_s']:.2f}",
        f"{result['vswitchd_flush_s']:.2f}",
        f"{result['talk']['longest_silence_s']:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


HEADER: Final = """\
| kernel | OVN of | vswitchd flushes by | entries | foretold s | logged s | probed s | scraped max s | one zone s | longest silence s |
|---|---|---|---:|---:|---:|---:|---:|---:|---:|"""  # noqa: E501 (a table's head is one line)


def main() -> int:
    """Play the scenes that were asked for, print the table and what does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scene", choices=[scene.name for scene in SCENES], action="append")
    parser.add_argument("--entries", type=int, default=150_000)
    parser.add_argument("--zones", type=int, default=500)
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    why = machine.why_unavailable()
    if why is not None:
        print(f"cannot run: {why}")
        return 1
    asked.out.mkdir(parents=True, exist_ok=True)
    cache_directory().mkdir(parents=True, exist_ok=True)
    rows, failed = [], []
    for scene in SCENES:
        if asked.scene and scene.name not in asked.scene:
            continue
        print(f"{scene.name} …", flush=True)
        try:
            result = play(scene, asked.entries, asked.zones, asked.out)
        except RuntimeError as error:
            failed.append(str(error))
            continue
        rows.append(row(scene, result))
        failed += [f"{scene.name}: {fault}" for fault in faults(result)]
    print("\n".join([HEADER, *rows, "", PUBLISHED, *failed]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
