"""Measures the kernel backend beside what else could be used, in one run, and writes `docs/reference/performance.md`.

    python -m tests.bench.kernel            tables of 100k, 500k and 1M entries, at most seven minutes
    python -m tests.bench.kernel --quick    one table of 20k, to see that everything runs; writes nothing

Everything happens in private network namespaces, one per table, on this machine's kernel. What is compared runs
interleaved in one process, so that a busy moment hits all alike, and medians are shown. What takes long is measured
once and marked so. `nf_conntrack_max` is raised for the run and restored.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Final

from tests.bench import kernel_entries, kernel_report
from tests.bench.kernel_measure import FLOOR, Series, measure, receive_only
from tests.lab.entries import table_limit
from tests.lab.namespace import Namespace, why_unavailable

ROUNDS: Final = {100_000: 7, 500_000: 5, 1_000_000: 5}
QUICK: Final = {20_000: 3}
PYROUTE2_ENTRIES: Final = 20_000
PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "performance.md"


def pyroute2_beside_floor() -> tuple[float, float]:
    """Seconds per entry that pyroute2's dump takes, and the floor's, in a table small enough to wait for."""
    from pyroute2 import NFCTSocket

    kernel_entries.fill(PYROUTE2_ENTRIES)
    series = Series(PYROUTE2_ENTRIES)
    for _ in range(3):
        series.time(FLOOR, receive_only, per=PYROUTE2_ENTRIES)
    begun = time.perf_counter()
    with NFCTSocket() as opened:
        entries = sum(1 for _ in opened.dump())
    return (time.perf_counter() - begun) / entries, series.median(FLOOR)


def main(argv: list[str]) -> int:
    """Measure, print, and write the page unless only trying out."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kernel")
    parser.add_argument("--quick", action="store_true", help="one small table; writes nothing")
    parser.add_argument("--entries", type=int, nargs="+", choices=sorted(ROUNDS), help="measure these sizes only")
    arguments = parser.parse_args(argv)
    is_quick = arguments.quick
    sizes = {entries: ROUNDS[entries] for entries in arguments.entries or ROUNDS}
    if why := why_unavailable():
        print(f"cannot measure here: {why}", file=sys.stderr)
        return 1
    begun = time.monotonic()
    all_series = []
    with table_limit(1_200_000):
        for entries, rounds in (QUICK if is_quick else sizes).items():
            with Namespace() as namespace:
                print(f"measuring a table of {entries:,} entries …", flush=True)
                all_series.append(namespace.call(measure, entries, rounds))
        with Namespace() as namespace:
            pyroute2 = namespace.call(pyroute2_beside_floor)
    page = kernel_report.page(all_series, pyroute2)
    print(page)
    print(f"took {time.monotonic() - begun:.0f} s")
    if not is_quick:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page, encoding="utf-8")
        print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
