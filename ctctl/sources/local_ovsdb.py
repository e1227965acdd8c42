"""The local Open_vSwitch database as a source: zone keys, bridges, ports and how this chassis is set up.

Level-triggered: after any change the whole view is built anew and reported if it differs. Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ctctl.clients.ovsdb_follower import OvsdbFollower, Remotes, Wanted
from ctctl.clients.ovsdb_remote import parse_remotes
from ctctl.clients.ovsdb_session import Content, Timing
from ctctl.errors import UnavailableError
from ctctl.model.events import DatabaseConfirmed, DatabaseLost, LocalViewRead
from ctctl.model.instant import Instant
from ctctl.model.ovn import OvnDatabase
from ctctl.model.ovs import LocalView
from ctctl.sources.source import Clock, Report
from ctctl.sources.trouble_log import TroubleLog
from ctctl.wire.local_view import LOCAL_SELECTS, local_view

TIMING = Timing(ask_interval_s=1.0, answer_timeout_s=5.0, longest_pause_s=2.0)
WANTED = Wanted("Open_vSwitch", LOCAL_SELECTS)


@dataclass(frozen=True, slots=True)
class OvsSettings:
    """Where Open vSwitch is on this host (`ovs:`)."""

    db: str = "unix:/var/run/openvswitch/db.sock"
    """Address of the local OVSDB server."""

    rundir: str = "/var/run/openvswitch"
    """Where ovs-vswitchd keeps its pid file and control socket."""

    log: str = "/var/log/openvswitch/ovs-vswitchd.log"
    """ovs-vswitchd's log file; its directory must be visible, because the file is replaced at rotation."""

    bridge: str | None = None
    """The integration bridge; by default what the database says (`ovn-bridge`), else br-int."""


class LocalOvsdbSource:
    """Reports `LocalViewRead`, `DatabaseConfirmed` about once a second, and `DatabaseLost`."""

    def __init__(self, settings: OvsSettings, report: Report, clock: Clock) -> None:
        self._settings = settings
        self._report = report
        self._trouble = TroubleLog(__name__, OvnDatabase.LOCAL)
        self._last: LocalView | None = None
        self._follower = OvsdbFollower(WANTED, self._find_remotes, self, clock, TIMING)

    @property
    def name(self) -> str:
        """The thread's name."""
        return "local-ovsdb"

    @property
    def faults(self) -> int:
        """How often the OVSDB library failed, each of which cost a connection."""
        return self._follower.faults

    def run(self) -> None:
        """Follow the database until `stop` is called."""
        self._follower.run()

    def stop(self) -> None:
        """Make `run` return within a second."""
        self._follower.stop()

    def content_read(self, content: Content) -> None:
        """The follower has new rows."""
        view = local_view(
            content.tables, bridge=self._settings.bridge, confirmed=content.confirmed, session=content.session
        )
        last = self._last
        if last is None or replace(last, confirmed=view.confirmed) != view:
            self._last = view
            self._report(LocalViewRead(view))
        self._trouble.confirmed(content.confirmed)

    def content_confirmed(self, at: Instant) -> None:
        """The follower knows that the last rows held at `at`."""
        self._report(DatabaseConfirmed(OvnDatabase.LOCAL, at))
        self._trouble.confirmed(at)

    def connection_lost(self, why: str, *, is_configured: bool) -> None:
        """The follower knows nothing any more."""
        self._report(DatabaseLost(OvnDatabase.LOCAL, why, is_configured))
        self._trouble.lost(why, is_configured=is_configured)

    def _find_remotes(self) -> Remotes:
        try:
            return Remotes(parse_remotes(self._settings.db))
        except UnavailableError as e:
            return Remotes((), f"ovs.db: {e}")
