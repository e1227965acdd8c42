"""Stalls of the daemons' threads: what was logged about them, the episodes made of it, and their sums."""

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
    `log_suppressed`: messages a daemon says it dropped; `log_skipped_bytes`: log passed over unread under a flood.
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
    log_suppressed: Mapping[Daemon, int] = field(default_factory=dict)
    log_skipped_bytes: Mapping[Daemon, int] = field(default_factory=dict)


class Occupation(StrEnum):
    """What a stalled thread was doing: busy with work of its own, or kept from doing it.

    `kernel_work`: CPU time spent inside system calls, as a flush is. `user_work`: CPU time of its own code.
    `starved`: ready to run, and waiting for a CPU. `blocked`: asleep or waiting for a device, a lock or memory.
    `stopped`: by a signal or a debugger. `off_cpu`: used little CPU time, and nothing tells why.
    """

    KERNEL_WORK = "kernel_work"
    USER_WORK = "user_work"
    STARVED = "starved"
    BLOCKED = "blocked"
    STOPPED = "stopped"
    OFF_CPU = "off_cpu"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RcuBlocked:
    """A thread logged "blocked N ms waiting for `thread_name` to quiesce": that one has held it up so far.

    `blocked_s` is a lower bound. It starts at 1 s and doubles within one wait; the end of the wait is not logged.
    `at`: when it was logged. `thread_name`: as the daemon calls it, e.g. "main" or "revalidator9".
    """

    daemon: Daemon
    thread_name: str
    blocked_s: float
    at: Instant


@dataclass(frozen=True, slots=True)
class LongPoll:
    """A thread logged "Unreasonably long Nms poll interval": the exact time, once it was over, from 1 s on.

    `user_s`, `system_s`: CPU time that the thread used in it; far less than `duration_s` means it was kept waiting.
    """

    daemon: Daemon
    thread_name: str
    duration_s: float
    user_s: float
    system_s: float
    at: Instant


@dataclass(frozen=True, slots=True)
class LogRead:
    """How far a daemon's log has been followed; numbers are sums since the agent started.

    `read`: when its end was last reached, None while it never was. `suppressed`: messages the daemon says it did not
    log ("Dropped n log messages"). `skipped_bytes`: passed over unread because the log grew faster than it is read.
    `why_not`: one line with path and remedy when the log cannot be read, "" when it can.
    """

    daemon: Daemon
    lines: int
    read: Instant | None
    suppressed: int = 0
    skipped_bytes: int = 0
    why_not: str = ""


StallFact = RcuBlocked | LongPoll | LogRead


@dataclass(frozen=True, slots=True)
class StallEpisode:
    """One stall of one thread, joined from everything that told of it.

    `ended`: None while it lasts. `duration_s`: the daemon's own exact figure where it logged one (`is_exact`), else
    the age of the probe, else the lower bound of the waiting threads. `user_s`, `system_s`: the thread's CPU time in
    it, None where nothing told. `rcu_blocked_s`: the longest wait of another thread for this one, 0 for none.
    `routers`: those being set up meanwhile; a correlation, no cause.
    """

    daemon: Daemon
    thread: DaemonThread
    started: Instant
    ended: Instant | None
    duration_s: float
    is_exact: bool
    occupation: Occupation
    user_s: float | None = None
    system_s: float | None = None
    rcu_blocked_s: float = 0.0
    routers: tuple[str, ...] = ()
