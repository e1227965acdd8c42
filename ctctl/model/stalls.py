"""Main-loop stalls of the daemons, as numbers since the agent started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ctctl.model.daemon import Daemon
from ctctl.model.histogram import Histogram
from ctctl.model.instant import Instant


class DaemonThread(StrEnum):
    """Label values of `thread`: kinds of threads, never their numbers."""

    MAIN = "main"
    HANDLER = "handler"
    REVALIDATOR = "revalidator"
    PMD = "pmd"
    OTHER = "other"


class CpuMode(StrEnum):
    """Label values of `mode`: where the CPU time of a long poll interval went."""

    USER = "user"
    SYSTEM = "system"


class FlushPath(StrEnum):
    """Label values of `path`: how vswitchd flushes one zone, which decides how long its main loop stands still."""

    KERNEL_FILTER = "kernel_filter"
    TABLE_DUMP = "table_dump"


@dataclass(frozen=True, slots=True)
class StallTallies:
    """What probes and logs told about stalls; keys that can occur are present from the start, at 0.

    `near_router_change`: episodes that overlapped the assignment of a router's zones, a correlation and no cause.
    `predicted_router_stall_s`: seconds that creating one router would block vswitchd, per path, and `path_in_use`
    the one this vswitchd takes (None while unknown). `log_read`: when a daemon's log was last read to its end.
    """

    episodes: Mapping[tuple[Daemon, DaemonThread], int] = field(default_factory=dict)
    rcu_stall_seconds: Mapping[DaemonThread, Histogram] = field(default_factory=dict)
    long_poll_seconds: Mapping[tuple[Daemon, DaemonThread], Histogram] = field(default_factory=dict)
    long_poll_cpu_s: Mapping[tuple[Daemon, CpuMode], float] = field(default_factory=dict)
    coverage_long_poll_intervals: Mapping[Daemon, int] = field(default_factory=dict)
    near_router_change: int | None = None
    predicted_router_stall_s: Mapping[FlushPath, float] = field(default_factory=dict)
    path_in_use: FlushPath | None = None
    log_lines: Mapping[Daemon, int] = field(default_factory=dict)
    log_read: Mapping[Daemon, Instant] = field(default_factory=dict)
