"""What /proc says about a thread, as text: `stat`, `schedstat` and the pids in `status`. Reads no file."""

from __future__ import annotations

from ctctl.errors import ProtocolError
from ctctl.model.daemon import ThreadState

_STATES = {
    "R": ThreadState.RUNNING,
    "S": ThreadState.SLEEPING,
    "I": ThreadState.SLEEPING,
    "D": ThreadState.UNINTERRUPTIBLE,
    "T": ThreadState.STOPPED,
    "t": ThreadState.STOPPED,
}

# Places after the command's closing parenthesis, proc(5): state is field 3, utime 14, stime 15; Linux 3.5 has 52.
_STATE, _USER_TICKS, _SYSTEM_TICKS, _FIELDS = 0, 11, 12, 50


def parse_stat(text: str) -> tuple[str, ThreadState, int, int]:
    """Command name, state, and user and system time in clock ticks, out of `/proc/PID/task/TID/stat`.

    The name may contain anything, parentheses and spaces included.

    Raises:
        ProtocolError: cut short, or not such a line.
    """
    head, _, tail = text.rpartition(") ")
    pid, _, name = head.partition(" (")
    fields = tail.split(" ")
    if not pid.isdigit() or len(fields) < _FIELDS or not text.endswith("\n"):
        raise ProtocolError(f"not a line of /proc/PID/stat: {text!r:.80}")
    ticks = fields[_USER_TICKS], fields[_SYSTEM_TICKS]
    if not all(t.isascii() and t.isdigit() for t in ticks):
        raise ProtocolError(f"no CPU times in /proc/PID/stat: {text!r:.80}")
    return name, _STATES.get(fields[_STATE], ThreadState.OTHER), int(ticks[0]), int(ticks[1])


def parse_schedstat(text: str) -> int | None:
    """Nanoseconds spent waiting for a CPU, out of `/proc/PID/task/TID/schedstat`; None where the kernel keeps none.

    Without CONFIG_SCHED_INFO the file is three zeros.

    Raises:
        ProtocolError: cut short, or not such a line.
    """
    fields = text.split(" ")
    if len(fields) != 3 or not text.endswith("\n") or not all(f.strip().isdigit() for f in fields):  # noqa: PLR2004
        raise ProtocolError(f"not a line of /proc/PID/schedstat: {text!r:.80}")
    run_ns, waiting_ns, slices = (int(f) for f in fields)
    return waiting_ns if run_ns or waiting_ns or slices else None


def parse_innermost_pid(status: str) -> int | None:
    """The pid that a process has for itself, out of `/proc/PID/status`: the last of NSpid. None without that line."""
    for line in status.split("\n"):
        if line.startswith("NSpid:"):
            pids = line.removeprefix("NSpid:").split()
            return int(pids[-1]) if pids and pids[-1].isdigit() else None
    return None
