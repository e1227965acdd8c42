"""An OVN database as a source: the Southbound one (datapaths and the routers behind them) or the Northbound one.

One instance per database. Level-triggered: every report is the whole state. Reads only; asks a central server for the
same tables, columns and (absent) conditions on every node, so that the server serialises its answer once for all.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from ctctl.clients.ovsdb_follower import OvsdbFollower, Remotes, Wanted
from ctctl.clients.ovsdb_remote import TlsFiles, parse_remotes
from ctctl.clients.ovsdb_session import Content, Timing
from ctctl.errors import UnavailableError
from ctctl.model.events import DatabaseConfirmed, DatabaseLost, OvnViewRead
from ctctl.model.instant import Instant
from ctctl.model.ovn import OvnDatabase, OvnView
from ctctl.sources.source import Clock, Report
from ctctl.sources.trouble_log import TroubleLog
from ctctl.wire.ovn_view import (
    NORTHBOUND_SELECTS,
    SOUTHBOUND_OPTIONAL,
    SOUTHBOUND_SELECTS,
    SouthboundViews,
    northbound_view,
)

ANSWER_TIMEOUT_S: Final = 8.0
LONGEST_PAUSE_S: Final = 8.0
SOUTHBOUND = Wanted("OVN_Southbound", SOUTHBOUND_SELECTS, SOUTHBOUND_OPTIONAL)
NORTHBOUND = Wanted("OVN_Northbound", NORTHBOUND_SELECTS)


class DatabaseChoice(StrEnum):
    """Which OVN databases to read (`ovn.database`)."""

    AUTO = "auto"
    SOUTHBOUND = "southbound"
    NORTHBOUND = "northbound"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """PEM files for `ssl:` addresses (`ovn.tls`); read anew for each connection, so they may be rotated."""

    key: str = ""
    """Private key of this client."""

    certificate: str = ""
    """Certificate of this client."""

    ca: str = ""
    """Certificates that the server's must be signed by."""


@dataclass(frozen=True, slots=True)
class OvnSettings:
    """Where OVN is, and which of its databases to read (`ovn:`)."""

    rundir: str = "/var/run/ovn"
    """Where OVN's daemons keep their sockets: ovnsb_db.sock, ovnnb_db.sock, ovn-controller.<pid>.ctl."""

    log: str = "/var/log/ovn/ovn-controller.log"
    """ovn-controller's log file; its directory must be visible, because the file is replaced at rotation."""

    database: DatabaseChoice = DatabaseChoice.AUTO
    """auto: the Southbound one, and the Northbound one in addition where it has a socket on this node or an address."""

    remote: str | None = None
    """Address of the Southbound database; by default what ovn-controller uses (`ovn-remote` in the local database)."""

    northbound: str | None = None
    """Address of the Northbound database; by default its socket in `rundir`, where there is one."""

    probe_interval_s: float = 5.0
    """Time between two signs of life asked of an OVN database; each wakes the server, so give big fleets more."""

    tls: TlsSettings = field(default_factory=TlsSettings)
    """For `ssl:` addresses."""

    def __post_init__(self) -> None:
        if self.probe_interval_s < 1.0:
            raise ValueError("probe_interval must be 1s or more")


class OvnSource:
    """Reports `OvnViewRead`, `DatabaseConfirmed` once per probe interval, and `DatabaseLost`.

    Raises:
        ValueError: `database` is the local one, which is another source's.
    """

    def __init__(self, database: OvnDatabase, settings: OvnSettings, report: Report, clock: Clock) -> None:
        if database is OvnDatabase.LOCAL:
            raise ValueError("OvnSource reads OVN's databases only")
        self._database = database
        self._settings = settings
        self._report = report
        self._trouble = TroubleLog(__name__, database)
        self._lock = threading.Lock()
        self._found_remote: str | None = None
        self._has_had_socket = False
        self._last: OvnView | None = None
        self._build = SouthboundViews().view if database is OvnDatabase.SOUTHBOUND else northbound_view
        self._is_southbound = database is OvnDatabase.SOUTHBOUND
        self._follower = OvsdbFollower(
            SOUTHBOUND if self._is_southbound else NORTHBOUND,
            self._find_remotes,
            self,
            clock,
            Timing(settings.probe_interval_s, ANSWER_TIMEOUT_S, LONGEST_PAUSE_S),
            _tls_files(settings.tls),
        )

    @property
    def name(self) -> str:
        """The thread's name."""
        return "southbound" if self._is_southbound else "northbound"

    @property
    def faults(self) -> int:
        """How often the OVSDB library failed, each of which cost a connection."""
        return self._follower.faults

    def set_remote(self, remote: str | None) -> None:
        """Take the Southbound address from the local database (`LocalView.ovn_remote`); a configured one wins.

        May be called from any thread, as often as wanted; only a change has an effect.
        """
        with self._lock:
            if remote == self._found_remote:
                return
            self._found_remote = remote
        self._follower.wake()

    def run(self) -> None:
        """Follow the database until `stop` is called."""
        self._follower.run()

    def stop(self) -> None:
        """Make `run` return within a second."""
        self._follower.stop()

    def content_read(self, content: Content) -> None:
        """The follower has new rows."""
        view = self._build(content.tables, confirmed=content.confirmed, session=content.session)
        last = self._last
        if last is None or replace(last, confirmed=view.confirmed) != view:
            self._last = view
            self._report(OvnViewRead(view))
        self._trouble.confirmed(content.confirmed)

    def content_confirmed(self, at: Instant) -> None:
        """The follower knows that the last rows held at `at`."""
        self._report(DatabaseConfirmed(self._database, at))
        self._trouble.confirmed(at)

    def connection_lost(self, why: str, *, is_configured: bool) -> None:
        """The follower knows nothing any more."""
        self._report(DatabaseLost(self._database, why, is_configured))
        self._trouble.lost(why, is_configured=is_configured)

    def _find_remotes(self) -> Remotes:
        other = DatabaseChoice.NORTHBOUND if self._is_southbound else DatabaseChoice.SOUTHBOUND
        if self._settings.database in (DatabaseChoice.NONE, other):
            return Remotes((), f"ovn.database is {self._settings.database.value}", is_configured=False)
        address = self._southbound_address() if self._is_southbound else self._northbound_address()
        if isinstance(address, Remotes):
            return address
        try:
            return Remotes(parse_remotes(address))
        except UnavailableError as e:
            return Remotes((), f"{self._database.value}: {e}")

    def _southbound_address(self) -> str | Remotes:
        with self._lock:
            found = self._found_remote
        address = self._settings.remote or found or self._local_socket("ovnsb_db.sock")
        return address or Remotes((), "no ovn-remote in the local database; set it, or ovn.remote")

    def _northbound_address(self) -> str | Remotes:
        address = self._settings.northbound or self._local_socket("ovnnb_db.sock")
        if address:
            return address
        path = Path(self._settings.rundir, "ovnnb_db.sock")
        is_wanted = self._settings.database is DatabaseChoice.NORTHBOUND
        return Remotes((), f"there is no {path}" + ("; set ovn.northbound" if is_wanted else ""), is_wanted)

    def _local_socket(self, name: str) -> str | None:
        """The address of a socket in `rundir`. Once seen it stays: while a server restarts it is lost, not absent."""
        path = Path(self._settings.rundir, name)
        self._has_had_socket = self._has_had_socket or path.is_socket()
        return f"unix:{path}" if self._has_had_socket else None


def _tls_files(tls: TlsSettings) -> TlsFiles | None:
    return TlsFiles(tls.key, tls.certificate, tls.ca) if tls.key or tls.certificate or tls.ca else None
