"""Reads ovn-controller's own list of zones while a router is being set up, to see when its numbers were allocated.

A number is in that list from the moment it is chosen; its key on the bridge follows when vswitchd has flushed the
zone. What lies between is what a router waits for. Nothing is asked while no router is being set up.
"""

from __future__ import annotations

import select
import threading
from pathlib import Path
from typing import Final

from ctctl.clients.daemon_files import control_sockets
from ctctl.clients.unixctl import UnixctlConnection, connect_first
from ctctl.errors import ProtocolError, UnavailableError
from ctctl.model.daemon import Daemon
from ctctl.model.events import ZonesListed
from ctctl.sources.source import Clock, Report
from ctctl.wire.unixctl import CommandFailedError, parse_ct_zone_list

INTERVAL_S: Final = 0.1
SHARE: Final = 0.05
"""Of its main loop's time ovn-controller spends at most this much on answering."""

_LOOK_S: Final = 0.5
"""How long at most an unanswered question keeps this thread from noticing that it is stopped."""


class ZoneListSource:
    """The source `zone-list`: reports `ZonesListed` about every 100 ms while it is told to watch."""

    name = "zone-list"

    def __init__(self, ovn_rundir: Path, report: Report, clock: Clock) -> None:
        self._rundir = ovn_rundir
        self._report = report
        self._clock = clock
        self._changed = threading.Condition()
        self._is_watching = False
        self._is_stopped = False
        self._connection: UnixctlConnection | None = None

    def watch(self, *, is_wanted: bool) -> None:
        """Begin or cease to ask. Cheap, from any thread, as often as wanted."""
        with self._changed:
            self._is_watching = is_wanted
            self._changed.notify()

    def run(self) -> None:
        """Ask while wanted, until `stop`. An ovn-controller that cannot be asked is the stall prober's to report."""
        try:
            while self._wait_until_wanted():
                began = self._clock()
                self._ask()
                took_s = self._clock().since(began)
                self._pause(max(INTERVAL_S, took_s / SHARE - took_s))
        finally:
            self._close()

    def stop(self) -> None:
        """Make `run` return within half a second."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()

    def _wait_until_wanted(self) -> bool:
        with self._changed:
            if not self._is_watching:
                self._close()
            self._changed.wait_for(lambda: self._is_watching or self._is_stopped)
            return not self._is_stopped

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped, timeout=seconds)

    def _ask(self) -> None:
        try:
            if self._connection is None:
                self._connection, _ = connect_first(control_sockets(self._rundir, Daemon.OVN_CONTROLLER))
            self._connection.ask("ct-zone-list")
            text = self._answer(self._connection)
            if text is not None:
                self._report(ZonesListed(parse_ct_zone_list(text), self._clock()))
        except CommandFailedError:
            self.watch(is_wanted=False)  # this ovn-controller has no such command
        except (UnavailableError, ProtocolError):
            self._close()

    def _answer(self, connection: UnixctlConnection) -> str | None:
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        while (text := connection.receive()) is None:
            poll.poll(_LOOK_S * 1000)
            if self._is_stopped:
                return None
        return text

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
