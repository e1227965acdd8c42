"""Follows the logs of ovs-vswitchd and ovn-controller, and reports what they say about stalls.

Logs come third after the probe and /proc: they may be late, rotated, unreadable or not there at all. Nothing that was
written before the agent started is told again, and no flood of lines makes this thread fall behind or hog a CPU: it
reads a bounded amount per turn, and skips, visibly, what is too far behind.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ctctl.model.capability import Capability, Probe
from ctctl.model.daemon import Daemon
from ctctl.model.events import Event, Probed
from ctctl.model.instant import Instant
from ctctl.model.stalls import LogRead
from ctctl.sources.source import Clock, Report
from ctctl.wire.vswitchd_log import VswitchdLog

TURN_S: Final = 0.25
BYTES_PER_TURN: Final = 1024 * 1024
"""4 MiB, or some 40,000 lines, a second; a daemon at its busiest writes a tenth of that."""

MAX_BACKLOG_BYTES: Final = 8 * BYTES_PER_TURN
COARSEST_TIME_S: Final = 1.0
"""A console log gives whole seconds: what it logged just now may seem that old."""

REPORT_S: Final = 1.0
IDLE_REPORT_S: Final = 5.0
_REMEMBERED_BYTES: Final = 256


class FollowedLog:
    """One log file, by its path. Never waits: `turn` reads what there is, up to `BYTES_PER_TURN`.

    Rotation by renaming: the old file is read to its end, and left once the daemon writes to the new one. Rotation by
    copying and truncating: the file is shorter than what has been read, or no longer ends there with the same bytes.
    """

    def __init__(self, daemon: Daemon, path: Path, started: Instant) -> None:
        self._daemon = daemon
        self._path = path
        self._log = VswitchdLog(daemon, not_before_wall_s=started.wall_s - COARSEST_TIME_S)
        self._descriptor: int | None = None
        self._offset = 0
        self._tail = b""  # the last bytes read, to recognise the file by
        self._modified_ns = 0
        self._is_new_file = False  # whether the file at the path holds news only
        self._read: Instant | None = None
        self._skipped_bytes = 0
        self._why_not = ""
        self._reported: LogRead | None = None
        self._reported_boot_s = float("-inf")
        self._reported_why_not: str | None = None

    def turn(self, now: Instant) -> list[Event]:
        """Read on; return what was found, and now and then how far it is read."""
        events: list[Event] = []
        budget = BYTES_PER_TURN
        try:
            while budget > 0 and (data := self._next(budget)):
                budget -= len(data)
                events += self._log.feed(data, now)
        except OSError as e:  # a file system that went away under an open file
            self.close()
            self._why_not = f"cannot read {self._path}: {e.strerror}"
        if budget > 0 and self._descriptor is not None:
            self._read = now
        return events + self._progress(now)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def _next(self, limit: int) -> bytes:
        """The next bytes, of this file or its successor; none when there are none yet."""
        if self._descriptor is None and not self._open():
            return b""
        data = self._more(limit)
        if data or not self._has_successor():
            return data
        # The daemon has moved on by now: whatever is still here was written before, and is all there will be.
        data = self._more(limit)
        if not data:
            self.close()
            self._log.cut()
            if self._open():
                data = self._more(limit)
        return data

    def _open(self) -> bool:
        try:
            # Without O_NONBLOCK a named pipe would hold this thread up.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            self._is_new_file = True
            self._why_not = f"there is no {self._path}; name the log, or mount the directory it is in"
            return False
        except OSError as e:
            self._why_not = (
                f"cannot read {self._path} as uid {os.geteuid()}: {e.strerror}; "
                "add the group that owns it, or grant DAC_READ_SEARCH"
            )
            return False
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            self._why_not = f"{self._path} is not a file; name the one that the daemon's output ends up in"
            return False
        self._descriptor = descriptor
        self._offset = 0 if self._is_new_file else found.st_size
        self._tail = b""
        self._modified_ns = 0
        self._is_new_file = True
        self._why_not = ""
        return True

    def _more(self, limit: int) -> bytes:
        descriptor = self._descriptor
        if descriptor is None:
            return b""
        found = os.fstat(descriptor)
        size = found.st_size
        if size == self._offset and found.st_mtime_ns == self._modified_ns:
            return b""
        self._modified_ns = found.st_mtime_ns
        if size < self._offset or not self._is_unchanged(descriptor):
            self._go_to(0)
        if size - self._offset > MAX_BACKLOG_BYTES:
            self._skipped_bytes += size - limit - self._offset
            self._go_to(size - limit)
        data = os.pread(descriptor, limit, self._offset)
        self._offset += len(data)
        self._tail = (self._tail + data)[-_REMEMBERED_BYTES:]
        return data

    def _go_to(self, offset: int) -> None:
        self._offset = offset
        self._tail = b""
        self._log.cut()

    def _is_unchanged(self, descriptor: int) -> bool:
        return os.pread(descriptor, len(self._tail), self._offset - len(self._tail)) == self._tail

    def _has_successor(self) -> bool:
        """Claims that another file stands at the path, and that the daemon has begun to write to it."""
        try:
            at_path = self._path.stat()
        except OSError:
            return False
        if self._descriptor is None or at_path.st_size == 0:
            return False
        return not os.path.samestat(at_path, os.fstat(self._descriptor))

    def _progress(self, now: Instant) -> list[Event]:
        progress = LogRead(
            self._daemon, self._log.lines, self._read, self._log.suppressed, self._skipped_bytes, self._why_not
        )
        since_s = now.boot_s - self._reported_boot_s
        has_news = self._reported is None or (progress.lines, progress.why_not) != (
            self._reported.lines,
            self._reported.why_not,
        )
        if since_s < (REPORT_S if has_news else IDLE_REPORT_S):
            return []
        self._reported, self._reported_boot_s = progress, now.boot_s
        events: list[Event] = [progress]
        if self._daemon is Daemon.VSWITCHD and self._reported_why_not != self._why_not:
            self._reported_why_not = self._why_not
            why = self._why_not or f"following {self._path}"
            events.append(Probed((Probe(Capability.OVS_LOG, not self._why_not, why),)))
        return events


class LogFollower:
    """The source `log`: reports `RcuBlocked`, `LongPoll`, and `LogRead` every few seconds; `Probed` for `ovs_log`.

    A log that cannot be read is a report, never an exception, and is tried again every turn.
    """

    name = "log"

    def __init__(self, paths: Mapping[Daemon, Path], report: Report, clock: Clock) -> None:
        started = clock()
        self._logs = [FollowedLog(daemon, path, started) for daemon, path in paths.items()]
        self._report = report
        self._clock = clock
        self._is_stopped = threading.Event()

    def run(self) -> None:
        """Follow until `stop`."""
        try:
            while not self._is_stopped.is_set():
                for log in self._logs:
                    for event in log.turn(self._clock()):
                        self._report(event)
                self._is_stopped.wait(TURN_S)
        finally:
            for log in self._logs:
                log.close()

    def stop(self) -> None:
        """Make `run` return within a turn."""
        self._is_stopped.set()
