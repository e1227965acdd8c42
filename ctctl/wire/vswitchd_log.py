"""The lines about stalls in a log of ovs-vswitchd or ovn-controller: bytes in, facts out. Opens and follows no file.

Two lines matter, both WARN, both from 1 s on (lib/ovs-rcu.c, lib/timeval.c):

    2026-11-30T14:26:35.123Z|00001|ovs_rcu(urcu2)|WARN|blocked 1008 ms waiting for main to quiesce
    2026-11-30T14:26:45.710Z|00044|timeval|WARN|Unreasonably long 10587ms poll interval (1515ms user, 9050ms system)

In parentheses after the module stands the thread that logs, none for main. Whatever writes the log may put something
before (`ovs|00001|…` in syslog, a container runtime's time and stream) or after (a JSON log's closing fields). The
first module and level in a line are vlog's own; the same words further on are part of some message and prove nothing.
"""

from __future__ import annotations

import calendar
import re
from typing import Final

from ctctl.model.daemon import Daemon
from ctctl.model.instant import Instant
from ctctl.model.stalls import LongPoll, RcuBlocked

MAX_LINE_BYTES: Final = 64 * 1024
"""A longer line is passed over. Lines about stalls have about 100 bytes."""

_HEADER: Final = re.compile(rb"(?:^|[| ])([a-z][a-z0-9_]*)(?:\(([^()|\s]{1,32})\))?\|(?:EMER|ERR|WARN|INFO|DBG)\|")
_BLOCKED: Final = re.compile(rb"blocked ([0-9]{1,10}) ms waiting for ([!-~]{1,32}) to quiesce")
_POLL: Final = re.compile(
    rb"Unreasonably long ([0-9]{1,10}) ?ms poll interval \(([0-9]{1,10}) ?ms user, ([0-9]{1,10}) ?ms system\)"
)
_DROPPED: Final = re.compile(rb"Dropped ([0-9]{1,10}) log messages in last [0-9]+ seconds")
_MARKS: Final = (b" to quiesce", b"poll interval", b"Dropped ")
_TIME: Final = re.compile(
    rb"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})"
)


class VswitchdLog:
    """One daemon's log, in pieces of any size.

    `lines`: complete lines so far. `suppressed`: messages that the daemon says it has not logged, because they came
    too fast.
    """

    def __init__(self, daemon: Daemon, not_before_wall_s: float) -> None:
        """`not_before_wall_s`: what was logged earlier, in Unix time, is old news and told by no fact."""
        self.lines = 0
        self.suppressed = 0
        self._daemon = daemon
        self._not_before_wall_s = not_before_wall_s
        self._rest = b""
        self._is_within_giant = False

    def feed(self, data: bytes, now: Instant) -> list[RcuBlocked | LongPoll]:
        """Take the next bytes; return what the lines they complete say about stalls, oldest first."""
        text, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if newline:
            self.lines += text.count(b"\n") + 1
            if self._is_within_giant:
                text = text.partition(b"\n")[2]
            self._is_within_giant = False
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest, self._is_within_giant = b"", True
        return self._read(text, now)

    def cut(self) -> None:
        """What comes next does not continue what came last: another file, or a gap."""
        self._rest = b""
        self._is_within_giant = False

    def _read(self, text: bytes, now: Instant) -> list[RcuBlocked | LongPoll]:
        if not any(mark in text for mark in _MARKS):  # nearly always, and at the speed of memory
            return []
        lines = (line for line in text.split(b"\n") if any(mark in line for mark in _MARKS))
        return [fact for line in lines if len(line) <= MAX_LINE_BYTES and (fact := self._fact(line, now)) is not None]

    def _fact(self, line: bytes, now: Instant) -> RcuBlocked | LongPoll | None:
        header = _HEADER.search(line)
        if header is None:
            return None
        module, thread = header[1], header[2]
        if (dropped := _DROPPED.match(line, header.end())) is not None:
            self.suppressed += int(dropped[1])
            return None
        at = _instant(line, header.start(), now)
        if at.wall_s < self._not_before_wall_s:
            return None
        if module == b"ovs_rcu" and (blocked := _BLOCKED.match(line, header.end())) is not None:
            return RcuBlocked(self._daemon, blocked[2].decode(), int(blocked[1]) / 1000, at)
        if module == b"timeval" and (poll := _POLL.match(line, header.end())) is not None:
            duration_s, user_s, system_s = (int(ms) / 1000 for ms in poll.groups())
            name = "main" if thread is None else thread.decode(errors="replace")
            return LongPoll(self._daemon, name, duration_s, user_s, system_s, at)
        return None


def _instant(line: bytes, header_start: int, now: Instant) -> Instant:
    """When the line was logged: the daemon's own time, or a runtime's where only that one has fractions of a second.

    The present where there is none with a zone (a classic syslog line has not even a year), or one that lies ahead.
    """
    times = list(_TIME.finditer(line))
    times.sort(key=lambda time: (time[7] is None, time.end() > header_start, -time.start()))
    wall_s = _wall_s(times[0]) if times else None
    if wall_s is None or wall_s >= now.wall_s:
        return now
    return Instant(now.boot_s - (now.wall_s - wall_s), wall_s)


def _wall_s(time: re.Match[bytes]) -> float | None:
    year, month, day, hour, minute, second = (int(number) for number in time.groups()[:6])
    try:
        whole_s = calendar.timegm((year, month, day, hour, minute, second))
    except ValueError:  # no such month
        return None
    zone = time[8].replace(b":", b"")
    offset_s = 0 if zone == b"Z" else (int(zone[1:3]) * 3600 + int(zone[3:5]) * 60) * (-1 if zone[:1] == b"-" else 1)
    return whole_s - offset_s + (0.0 if time[7] is None else float(time[7]))
