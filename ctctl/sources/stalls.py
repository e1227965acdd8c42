"""Probes the main loops of ovs-vswitchd and ovn-controller, and reports a stall while it lasts.

One thread, one persistent connection to each daemon and at most one question outstanding on each: what a daemon
answers late it has to answer late only once. A probe is never given up and never doubled; the time-out of the
settings declares a stall, nothing else. The rising age of an unanswered probe is not reported: whoever reads the
last `DaemonView` subtracts `unanswered_since` from the present. /proc tells meanwhile what the thread is doing.
"""

from __future__ import annotations

import math
import os
import select
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ctctl.clients.daemon_files import ControlSocket, control_sockets
from ctctl.clients.proc import MainThread, find_main_thread
from ctctl.clients.unixctl import BacklogFullError, ConnectionLostError, UnixctlConnection, connect_first
from ctctl.errors import ProtocolError, UnavailableError
from ctctl.model.daemon import Daemon, DaemonView, ThreadSample
from ctctl.model.events import DaemonSeen
from ctctl.model.instant import Instant
from ctctl.sources.source import Clock, Report
from ctctl.wire.unixctl import CommandFailedError, parse_counter, parse_version


@dataclass(frozen=True, slots=True)
class StallSettings:
    """How the main loops of ovs-vswitchd and ovn-controller are probed."""

    interval_s: float = 0.5
    """Time between two probes of a main loop, and after which an unanswered one is reported."""

    timeout_s: float = 1.0
    """Time after which an unanswered probe is a stall episode; vswitchd itself warns from 1 s on."""

    def __post_init__(self) -> None:
        if self.interval_s <= 0 or self.timeout_s <= 0:
            raise ValueError("interval and timeout must be more than 0")


_VERSION: Final[tuple[str, tuple[str, ...]]] = ("version", ())
_COUNTER: Final[tuple[str, tuple[str, ...]]] = ("coverage/read-counter", ("long_poll_interval",))

ABSENCE_S: Final = 5.0
"""A prober that was itself stopped or suspended for longer than this has nothing to say about others meanwhile."""

COUNTER_EVERY: Final = 20
"""Every so many probes ask for the counter of long poll intervals instead of the version: the same round trip."""


class MainLoopProbe:
    """The probe of one daemon. Never waits: `turn` does what is due, `due_boot_s` says when to call it again."""

    def __init__(self, daemon: Daemon, rundir: Path, interval_s: float, procfs: Path) -> None:
        self._rundir = rundir
        self._interval_s = interval_s
        self._procfs = procfs
        self._thread: MainThread | None = None
        self._thread_when_asked: ThreadSample | None = None
        self._question = _VERSION
        self._questions = 0  # on this connection; the first is the version
        self._has_counter = True
        self._view = DaemonView(daemon=daemon, is_up=False)
        self._connection: UnixctlConnection | None = None
        self._candidates: tuple[ControlSocket, ...] = ()
        self._asked: Instant | None = None
        self._due_boot_s = float("-inf")
        self._connect_not_before_boot_s = float("-inf")

    @property
    def due_boot_s(self) -> float:
        """CLOCK_BOOTTIME seconds at which `turn` has something to do even if nothing arrives."""
        return self._due_boot_s

    def fileno(self) -> int | None:
        """What to poll for input meanwhile, None while there is no connection."""
        return None if self._connection is None else self._connection.fileno()

    def turn(self, now: Instant) -> DaemonView | None:
        """Take what has arrived, do what is due; return the view if it says something new."""
        before = self._view
        if self._asked is not None and now.boot_s - self._due_boot_s > ABSENCE_S:
            self._asked = now
        if self._connection is not None:
            self._receive(self._connection, now)
        is_due = now.boot_s >= self._due_boot_s
        if is_due:
            self._due_boot_s = now.boot_s + self._interval_s
            if self._is_replaced():
                self._start_over()
            if self._connection is None:
                self._connect(now)
            elif self._asked is None:
                self._ask(self._connection, now)
            else:
                self._show_waiting(self._asked, now)
        is_waiting = is_due and self._view.unanswered_since is not None
        return self._view if is_waiting or self._view != before else None

    def close(self) -> None:
        """Drop the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _receive(self, connection: UnixctlConnection, now: Instant) -> None:
        try:
            text = connection.receive()
        except CommandFailedError:  # an answer all the same
            text = ""
        except (ConnectionLostError, ProtocolError):
            self._start_over()
            return
        if text is not None and self._asked is not None:
            self._learn(text)
            self._show_answered(self._asked, now)

    def _learn(self, text: str) -> None:
        if self._question == _VERSION:
            self._view = replace(self._view, version=parse_version(text))
            return
        try:
            self._view = replace(self._view, long_poll_intervals=parse_counter(text))
        except ProtocolError:  # Open vSwitch < 3.3 has no such counter
            self._has_counter = False

    def _show_answered(self, asked: Instant, now: Instant) -> None:
        round_trip_s = now.since(asked)
        has_waited = round_trip_s >= self._interval_s
        self._view = replace(
            self._view,
            is_up=True,
            unanswered_since=None,
            last_round_trip_s=round_trip_s,
            why_down="",
            answers=self._view.answers + 1,
            thread=self._sample(now) if has_waited else None,
            thread_when_asked=self._thread_when_asked if has_waited else None,
        )
        self._due_boot_s = max(now.boot_s, asked.boot_s + self._interval_s)
        self._asked = None

    def _show_waiting(self, asked: Instant, now: Instant) -> None:
        self._view = replace(
            self._view,
            is_up=True,
            unanswered_since=asked,
            why_down="",
            thread=self._sample(now),
            thread_when_asked=self._thread_when_asked,
        )

    def _sample(self, now: Instant) -> ThreadSample | None:
        return None if self._thread is None else self._thread.sample(now)

    def _start_over(self) -> None:
        """The daemon ended or was replaced: what it has not answered it never will."""
        self.close()
        self._asked = None
        self._thread = None
        self._view = replace(self._view, unanswered_since=None, thread=None, thread_when_asked=None)
        # At once, but not in a circle with a daemon that accepts and closes.
        self._due_boot_s = self._connect_not_before_boot_s

    def _is_replaced(self) -> bool:
        """Claims that a control socket has appeared that was not there when this connection was made.

        A connection outlives its file: as long as no other takes its place, the daemon is the same.
        """
        if self._connection is None:
            return False
        try:
            first = control_sockets(self._rundir, self._view.daemon)[0]
        except UnavailableError:
            return False
        return first not in self._candidates

    def _connect(self, now: Instant) -> None:
        self._connect_not_before_boot_s = now.boot_s + self._interval_s
        try:
            self._candidates = control_sockets(self._rundir, self._view.daemon)
            self._connection, found = connect_first(self._candidates)
        except BacklogFullError:
            # Up and stuck. It will be asked as soon as it accepts; the wait has begun now.
            self._identify(self._candidates[0])
            self._begin_waiting(now)
            self._show_waiting(self._asked or now, now)
        except UnavailableError as e:
            self._asked = None
            self._view = replace(
                self._view,
                is_up=False,
                unanswered_since=None,
                version=None,
                socket_path=None,
                why_down=str(e),
                long_poll_intervals=None,
            )
        else:
            self._identify(found)
            self._ask(self._connection, now)

    def _ask(self, connection: UnixctlConnection, now: Instant) -> None:
        self._question = _COUNTER if self._has_counter and self._questions % COUNTER_EVERY == 1 else _VERSION
        self._questions += 1
        try:
            connection.ask(*self._question)
        except ConnectionLostError:
            self._start_over()
            return
        self._begin_waiting(now)

    def _identify(self, found: ControlSocket) -> None:
        path = str(found.path)
        if self._thread is None:
            peer_pid = None if self._connection is None else self._connection.peer_pid
            self._thread = find_main_thread(self._procfs, self._view.daemon, found.pid, peer_pid)
        self._questions = 0
        self._has_counter = True
        self._view = replace(self._view, is_up=True, socket_path=path, why_down="")

    def _begin_waiting(self, now: Instant) -> None:
        if self._asked is None:
            self._asked = now
            self._thread_when_asked = self._sample(now)


class MainLoopProber:
    """The source `stalls`: reports `DaemonSeen` for both daemons.

    After every answer, about every interval while a probe older than that is unanswered, and when a daemon goes down
    or the reason changes. A daemon that cannot be asked is a report, never an exception.
    """

    name = "stalls"

    def __init__(
        self,
        settings: StallSettings,
        ovs_rundir: Path,
        ovn_rundir: Path,
        report: Report,
        clock: Clock,
        procfs: Path = Path("/proc"),
    ) -> None:
        self._probes = (
            MainLoopProbe(Daemon.VSWITCHD, ovs_rundir, settings.interval_s, procfs),
            MainLoopProbe(Daemon.OVN_CONTROLLER, ovn_rundir, settings.interval_s, procfs),
        )
        self._report = report
        self._clock = clock
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_stopped = False

    def run(self) -> None:
        """Probe until `stop`."""
        try:
            while not self._is_stopped:
                now = self._clock()
                for probe in self._probes:
                    view = probe.turn(now)
                    if view is not None:
                        self._report(DaemonSeen(view))
                self._wait(now)
        finally:
            for probe in self._probes:
                probe.close()

    def stop(self) -> None:
        """Make `run` return at once."""
        self._is_stopped = True
        os.eventfd_write(self._wake, 1)

    def _wait(self, now: Instant) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        for probe in self._probes:
            descriptor = probe.fileno()
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        due_in_s = min(probe.due_boot_s for probe in self._probes) - now.boot_s
        poll.poll(max(0, math.ceil(due_in_s * 1000)))
