"""All that is known now, gathered from events: the planner decides on it, the snapshot copies it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from ctctl.decide.zone_map import Resolver
from ctctl.model.capability import Capability, Probe
from ctctl.model.counts import CountPass
from ctctl.model.daemon import Daemon, DaemonView
from ctctl.model.events import (
    CountFailed,
    CountFinished,
    DaemonSeen,
    DatabaseConfirmed,
    DatabaseLost,
    Event,
    FlusherLockChanged,
    LocalViewRead,
    OvnViewRead,
    PauseChanged,
    PolicyChanged,
    Probed,
)
from ctctl.model.ids import RouterId
from ctctl.model.instant import Instant
from ctctl.model.ovn import LogicalRouter, OvnDatabase, OvnView
from ctctl.model.ovs import DatapathType, LocalView
from ctctl.model.policy import FlushPolicy
from ctctl.model.snapshot import DatabaseState
from ctctl.model.zone import ZoneMap

MAP_FRESH_S: Final = 5.0
"""The local database confirms about once a second; without a word for this long the map is not acted on."""


@dataclass(slots=True)
class Facts:
    """The present state of the world as far as the sources told it; mutated by `note` alone."""

    policy: FlushPolicy
    local: LocalView | None = None
    ovn: dict[OvnDatabase, OvnView] = field(default_factory=dict)
    zone_map: ZoneMap = field(default_factory=ZoneMap)
    former_names: dict[str, frozenset[str]] = field(default_factory=dict)
    databases: dict[OvnDatabase, DatabaseState] = field(default_factory=dict)
    probes: dict[Capability, Probe] = field(default_factory=dict)
    daemons: dict[Daemon, DaemonView] = field(default_factory=dict)
    count: CountPass | None = None
    count_failing_since: Instant | None = None
    why_count_failed: str = ""
    is_flusher: bool = False
    is_paused: bool = False
    _resolver: Resolver = field(default_factory=Resolver)

    def note(self, event: Event) -> bool:
        """Take one event in. Returns whether the zone map or the set of routers may have changed."""
        match event:
            case LocalViewRead(view):
                self.local = view
                self._connected(OvnDatabase.LOCAL, view.session, view.confirmed)
                self._resolve()
                return True
            case OvnViewRead(view):
                self._note_names(view)
                self.ovn[view.database] = view
                self._connected(view.database, view.session, view.confirmed)
                self._resolve()
                return True
            case DatabaseConfirmed(database, at):
                self._confirmed(database, at)
            case DatabaseLost(database, why, is_configured):
                self._lost(database, why, is_configured=is_configured)
            case CountFinished(count):
                self.count, self.count_failing_since, self.why_count_failed = count, None, ""
            case CountFailed(_, why, at):
                self.count_failing_since = self.count_failing_since or at
                self.why_count_failed = why
            case Probed(probes):
                self.probes |= {probe.capability: probe for probe in probes}
            case DaemonSeen(view):
                self.daemons[view.daemon] = view
            case PolicyChanged(policy):
                self.policy = policy
            case FlusherLockChanged(is_held):
                self.is_flusher = is_held
            case PauseChanged(is_paused):
                self.is_paused = is_paused
            case _:
                pass
        return False

    @property
    def routers(self) -> dict[RouterId, LogicalRouter]:
        """Every logical router that a database shows, by identity; the Southbound row wins (it has the alias)."""
        northbound = self.ovn.get(OvnDatabase.NORTHBOUND)
        southbound = self.ovn.get(OvnDatabase.SOUTHBOUND)
        rows = [row for view in (northbound, southbound) if view is not None for row in view.routers]
        return {row.router: row for row in rows}

    @property
    def sessions(self) -> tuple[int, ...]:
        """The sessions of the OVN databases heard so far, Southbound first; 0 for one not heard."""
        views = (self.ovn.get(OvnDatabase.SOUTHBOUND), self.ovn.get(OvnDatabase.NORTHBOUND))
        return tuple(0 if view is None else view.session for view in views)

    @property
    def datapath_type(self) -> DatapathType:
        """Where this chassis tracks connections; unknown before the first view and for mixed bridges."""
        types = set() if self.local is None else {b.datapath_type for b in self.local.bridges}
        return types.pop() if len(types) == 1 else DatapathType.UNKNOWN

    def is_map_fresh(self, now: Instant) -> bool:
        """Claims that the local database is connected and said so within `MAP_FRESH_S`."""
        state = self.databases.get(OvnDatabase.LOCAL)
        if state is None or not state.is_connected or state.confirmed is None:
            return False
        return now.since(state.confirmed) <= MAP_FRESH_S

    def is_up(self, daemon: Daemon) -> bool:
        """Claims that the daemon's control socket accepts connections."""
        view = self.daemons.get(daemon)
        return view is not None and view.is_up

    def supports(self, capability: Capability) -> bool | None:
        """The last probe's answer, None when never probed or not told."""
        probe = self.probes.get(capability)
        return None if probe is None else probe.is_supported

    def _resolve(self) -> None:
        if self.local is not None:
            southbound = self.ovn.get(OvnDatabase.SOUTHBOUND)
            datapaths = None if southbound is None else southbound.datapaths
            self.zone_map = self._resolver.resolve(self.local, datapaths, self.former_names)

    def _note_names(self, view: OvnView) -> None:
        """Remember the names that datapaths had and no longer have, for as long as they live."""
        former = self.ovn.get(view.database)
        if former is None or not view.datapaths:
            return
        names = {d.nb_uuid: d.name for d in view.datapaths if d.nb_uuid}
        for datapath in former.datapaths:
            if datapath.nb_uuid in names and names[datapath.nb_uuid] != datapath.name:
                before = self.former_names.get(datapath.name, frozenset())
                self.former_names[datapath.name] = before | {datapath.nb_uuid}
        alive = {name: identities & names.keys() for name, identities in self.former_names.items()}
        self.former_names = {name: identities for name, identities in alive.items() if identities}

    def _connected(self, database: OvnDatabase, session: int, confirmed: Instant) -> None:
        self.databases[database] = DatabaseState(
            database, is_configured=True, is_connected=True, reconnects=max(0, session - 1), confirmed=confirmed
        )

    def _confirmed(self, database: OvnDatabase, at: Instant) -> None:
        state = self.databases.get(database)
        # A confirmation without a view confirms nothing.
        if state is not None and state.is_configured and state.confirmed is not None:
            self.databases[database] = replace(state, is_connected=True, confirmed=at, why_lost="")

    def _lost(self, database: OvnDatabase, why: str, *, is_configured: bool) -> None:
        state = self.databases.get(database)
        self.databases[database] = DatabaseState(
            database,
            is_configured=is_configured,
            is_connected=False,
            reconnects=0 if state is None else state.reconnects,
            confirmed=None if state is None else state.confirmed,
            why_lost=why,
        )
