"""Reads what a daemon's main thread is doing from /proc, the host's where ctctl runs in a container.

Nothing here needs a privilege, but `hidepid`, or a /proc of another PID namespace, may hide the daemon: then there is
no sample, and that is no error.
"""

from __future__ import annotations

import os
from pathlib import Path

from ctctl.errors import ProtocolError
from ctctl.model.daemon import ThreadSample
from ctctl.model.instant import Instant
from ctctl.wire.procfs import parse_innermost_pid, parse_schedstat, parse_stat

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class MainThread:
    """The main thread of one process, once it has been found."""

    def __init__(self, procfs: Path, pid: int) -> None:
        self.pid = pid
        self._stat = procfs / str(pid) / "task" / str(pid) / "stat"
        self._schedstat = self._stat.with_name("schedstat")

    def sample(self, at: Instant) -> ThreadSample | None:
        """What it is doing now, None when it has ended or is hidden."""
        try:
            _, state, user_ticks, system_ticks = parse_stat(_read(self._stat))
        except (OSError, ProtocolError):
            return None
        return ThreadSample(
            at=at,
            state=state,
            user_s=user_ticks / _TICKS_PER_S,
            system_s=system_ticks / _TICKS_PER_S,
            waiting_s=self._waiting_s(),
        )

    def _waiting_s(self) -> float | None:
        try:
            waiting_ns = parse_schedstat(_read(self._schedstat))
        except (OSError, ProtocolError):  # a kernel without CONFIG_SCHEDSTATS has no such file
            return None
        return None if waiting_ns is None else waiting_ns / 1e9


def find_main_thread(procfs: Path, command: str, own_pid: int, peer_pid: int | None = None) -> MainThread | None:
    """The one process called `command` whose pid, in its own PID namespace, is `own_pid`.

    `peer_pid`: what the kernel says it is here, where a connection could be asked; with another PID namespace's
    `procfs` that is some other process, or nobody. None when there is none to be seen, or several (containers often
    start with the same pid): then nobody can tell which of them the pidfile means.
    """
    if peer_pid is not None and _is(procfs, peer_pid, command, own_pid):
        return MainThread(procfs, peer_pid)
    try:
        pids = [int(entry.name) for entry in procfs.iterdir() if entry.name.isdigit()]
    except OSError:
        return None
    found = [pid for pid in pids if _is(procfs, pid, command, own_pid)]
    return MainThread(procfs, found[0]) if len(found) == 1 else None


def _is(procfs: Path, pid: int, command: str, own_pid: int) -> bool:
    try:
        if _read(procfs / str(pid) / "comm") != f"{command[:_COMM_CHARS]}\n":
            return False
        return parse_innermost_pid(_read(procfs / str(pid) / "status")) == own_pid
    except OSError:  # it has just ended, or is hidden
        return False


_COMM_CHARS = 15
"""The kernel keeps no more of a name (TASK_COMM_LEN, with its final zero)."""


def _read(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")
