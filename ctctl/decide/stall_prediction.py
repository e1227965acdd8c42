"""What creating one logical router would cost vswitchd's main thread, before it happens.

OVN flushes every zone it assigns through vswitchd, on its main thread. Open vSwitch ≥ 3.4 on Linux ≥ 6.8 asks the
kernel to delete one zone's entries, which walks the table once; any other reads the whole table into the daemon to
find them. Either way the cost is that of the table, not of the zone: an empty zone costs the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Final, assert_never

from ctctl.model.ovs import DatapathType
from ctctl.model.stalls import FlushPath

DEFAULT_ZONES_PER_ROUTER: Final = 4.0
"""A router's own two zones, and two of the switch that becomes local with it."""

_FILTER_SINCE_OVS: Final = (3, 4)
_FILTER_SINCE_LINUX: Final = (6, 8)


def predicted_router_stall_s(dump_s: float, flush_s: float, zones_per_router: float, path: FlushPath) -> float:
    """Seconds that vswitchd's main thread stands still while one router's zones are flushed.

    `dump_s`: reading the whole table once. `flush_s`: one zone's flush by the kernel's filter. Both as measured here
    and now; on a busy machine vswitchd takes as much longer as ctctl did.
    """
    match path:
        case FlushPath.KERNEL_FILTER:
            return zones_per_router * flush_s
        case FlushPath.TABLE_DUMP:
            return zones_per_router * dump_s
        case _:
            assert_never(path)


def predictions(dump_s: float, flush_s: float, zones_per_router: float) -> Mapping[FlushPath, float]:
    """The same for both paths: what is, and what an upgrade would make of it."""
    return {path: predicted_router_stall_s(dump_s, flush_s, zones_per_router, path) for path in FlushPath}


def path_in_use(ovs_version: str | None, kernel_release: str, datapath: DatapathType) -> FlushPath | None:
    """How this vswitchd flushes a zone: it compares uname itself. None when unknown, and for a userspace datapath."""
    if datapath is not DatapathType.KERNEL or ovs_version is None:
        return None
    ovs, linux = leading_numbers(ovs_version), leading_numbers(kernel_release)
    if ovs is None or linux is None:
        return None
    return (
        FlushPath.KERNEL_FILTER if ovs >= _FILTER_SINCE_OVS and linux >= _FILTER_SINCE_LINUX else FlushPath.TABLE_DUMP
    )


def leading_numbers(version: str) -> tuple[int, int] | None:
    """The first two numbers of a version, for comparison: 6.10 is later than 6.8. None when it has none."""
    match = re.match(r"([0-9]+)\.([0-9]+)", version)
    return None if match is None else (int(match[1]), int(match[2]))


def zones_per_router(zones_assigned: Iterable[float]) -> float:
    """The median over the routers created here so far of how many zones each brought, else four."""
    numbers = list(zones_assigned)
    return float(median(numbers)) if numbers else DEFAULT_ZONES_PER_ROUTER
