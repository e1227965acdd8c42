"""ovs-vswitchd and ovn-controller as seen from outside: up, answering, and for how long not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ctctl.model.instant import Instant


class Daemon(StrEnum):
    """Label values of `daemon`."""

    VSWITCHD = "ovs-vswitchd"
    OVN_CONTROLLER = "ovn-controller"


class ThreadState(StrEnum):
    """What the kernel's scheduler says a thread is doing (`/proc/PID/task/TID/stat`, field 3)."""

    RUNNING = "running"
    SLEEPING = "sleeping"
    UNINTERRUPTIBLE = "uninterruptible"
    STOPPED = "stopped"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ThreadSample:
    """One thread's scheduling state and the time it has used since it began.

    `state`: running means on a CPU or waiting for one. `user_s`, `system_s`: CPU time, in steps of a clock tick
    (10 ms). `waiting_s`: time spent runnable without a CPU, None where the kernel does not account it.
    """

    at: Instant
    state: ThreadState
    user_s: float
    system_s: float
    waiting_s: float | None = None


@dataclass(frozen=True, slots=True)
class DaemonView:
    """The probe's knowledge of one daemon.

    `unanswered_since`: when the probe now outstanding was sent, None while none is. `is_up`: its control socket
    accepts connections (a stalled daemon is up). `last_round_trip_s`: of the last answered probe. `version`: as the
    daemon itself says, e.g. "3.1.0". `why_down`: one line with path and remedy when it is not up.
    `answers`: probes answered so far; when it has grown, `last_round_trip_s` is a new observation.
    `thread_when_asked`, `thread`: the main thread when the probe was sent and as last seen, only of a probe that is
    or was answered late, None also where /proc cannot be read. `long_poll_intervals`: the daemon's coverage counter
    of that name since it started, None without (Open vSwitch < 3.3).
    """

    daemon: Daemon
    is_up: bool
    unanswered_since: Instant | None = None
    last_round_trip_s: float | None = None
    version: str | None = None
    socket_path: str | None = None
    why_down: str = ""
    answers: int = 0
    thread: ThreadSample | None = None
    thread_when_asked: ThreadSample | None = None
    long_poll_intervals: int | None = None
