"""What a scrape of a very large node costs: 65,000 mapped zones, 20,000 of them those of 10,000 routers.

CPU time of building and encoding the exposition, with the default limit on zone series and without any; then memory
over 10,000 routers that come and go, one scrape for each hundred.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ctctl.metrics.collectors import MetricsSettings, SnapshotCollector, build_registry
from ctctl.metrics.exposition import Exposer, Format
from ctctl.model.ids import ZoneId
from ctctl.model.snapshot import Snapshot
from ctctl.model.zone import Zone, ZoneKind
from tests.metrics.snapshots import NOW, busy_snapshot, count_of, router_zones, table_stats

ZONES, ROUTERS, CHURNED, AT_ONCE = 65_000, 10_000, 10_000, 100
TARGET_MS = 300.0


def large_node() -> Snapshot:
    """Every zone mapped and holding entries."""
    zones = [zone for n in range(ROUTERS) for zone in router_zones(1 + 2 * n, f"neutron-{n:032x}")]
    zones += [Zone(ZoneId(n), ZoneKind.PORT, f"port-{n:032x}", f"p{n}") for n in range(2 * ROUTERS + 1, ZONES + 1)]
    return replace(busy_snapshot(), zones=tuple(zones), count=count_of({n: 1 + n % 997 for n in range(1, ZONES + 1)}))


def exposer(snapshot: Callable[[], Snapshot], limit: int) -> Exposer:
    settings = MetricsSettings(max_zone_series=limit)
    return Exposer(build_registry(SnapshotCollector(snapshot, table_stats, lambda: NOW, settings)))


def cost(limit: int, wanted: Format, *, is_gzip: bool, rounds: int) -> tuple[list[float], int]:
    """CPU milliseconds of each scrape, and the bytes of one."""
    node = large_node()
    made = exposer(lambda: node, limit)
    took, size = [], 0
    for _ in range(rounds):
        began = time.process_time()
        size = len(made._make(wanted, is_gzip=is_gzip).body)
        took.append(1000 * (time.process_time() - began))
    return took, size


def resident_mib() -> float:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096 / 2**20


def churn(made: Exposer, state: list[Snapshot], begin: int, routers: int) -> None:
    """Routers with new names and numbers, a hundred alive at a time, each hundred scraped once."""
    for first in range(begin, begin + routers, AT_ONCE):
        alive = range(first, first + AT_ONCE)
        zones = tuple(zone for n in alive for zone in router_zones(1 + 2 * n % 60_000, f"churn-{n:032x}"))
        state[0] = replace(busy_snapshot(), zones=zones, count=count_of({z.zone: 5 for z in zones}))
        made._make(Format.TEXT, is_gzip=True)


def main() -> int:
    """Measure and print; exits with 1 when memory grew with the routers, never for being slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    print(f"a scrape of {ZONES} mapped zones, {ROUTERS} routers; CPU milliseconds, {rounds} rounds")
    print(" " * 44 + "".join(f"{head:>10}" for head in ("median", "max", "KiB")))
    for limit, name in ((512, "default limit of 512"), (ZONES, "no limit")):
        for wanted, is_gzip in ((Format.TEXT, False), (Format.TEXT, True), (Format.OPENMETRICS, True)):
            took, size = cost(limit, wanted, is_gzip=is_gzip, rounds=rounds if limit == 512 else min(rounds, 2))
            label = f"{name}, {wanted.name.lower()}{', gzip' if is_gzip else ''}"
            print(f"{label:<44}{statistics.median(took):>10.1f}{max(took):>10.1f}{size / 1024:>10.0f}")
    print(f"target with the default limit: {TARGET_MS:.0f} ms")

    state = [busy_snapshot()]
    made = exposer(lambda: state[0], 512)
    # Once around first: caches of the interpreter and the allocator fill up.
    churn(made, state, 0, 1_000)
    tracemalloc.start()
    gc.collect()
    before, before_mib = tracemalloc.get_traced_memory()[0], resident_mib()
    churn(made, state, 1_000, CHURNED)
    state[0] = busy_snapshot()
    made._make(Format.TEXT, is_gzip=True)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    print(f"{CHURNED} routers came and went, {CHURNED // AT_ONCE} scrapes: {grown / 1024:+.0f} KiB allocated")
    print(f"resident before and after: {before_mib:.0f} and {resident_mib():.0f} MiB")
    return 0 if grown < 256 * 1024 else 1


if __name__ == "__main__":
    sys.exit(main())
