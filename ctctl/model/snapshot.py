"""A frozen copy of everything the agent knows: all that /metrics, the pages and the command line read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ctctl.model.actions import RouterChange
from ctctl.model.capability import Probe
from ctctl.model.counts import CountMethod, CountPass, IncompleteReason
from ctctl.model.daemon import Daemon, DaemonView
from ctctl.model.flush import FailureReason, Reason, Strategy, Switch, Trigger
from ctctl.model.histogram import Histogram
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant
from ctctl.model.ovn import OvnDatabase
from ctctl.model.ovs import DatapathType
from ctctl.model.record import Record
from ctctl.model.stalls import StallTallies
from ctctl.model.verdict import Verdict
from ctctl.model.zone import MalformedKey, Zone


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """One OVSDB connection. `confirmed`: when its content was last known to hold; `why_lost`: one line, or ""."""

    database: OvnDatabase
    is_configured: bool
    is_connected: bool
    reconnects: int
    confirmed: Instant | None
    why_lost: str = ""


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """What ctctl watches, for `ctctl_target_info`; "" where unknown."""

    kernel_release: str = ""
    ovs_version: str = ""
    ovn_version: str = ""
    datapath_type: DatapathType = DatapathType.UNKNOWN
    chassis: str = ""


@dataclass(frozen=True, slots=True)
class Tallies:
    """Counters and histograms since the agent started; only ever grown by the control thread.

    Every key that an enabled trigger can produce is present from the start, at 0. `zones_renumbered`: zones of a
    router that kept its identity and got another number. `router_zone_ready`: number allocated (as `ct-zone-list`
    shows it) to key visible. None where nothing measures it.
    """

    verdicts: Mapping[tuple[Trigger, Verdict], int]
    verdict_seconds: Mapping[Trigger, Histogram]
    flushes: Mapping[tuple[Trigger, Strategy], int]
    flush_failures: Mapping[tuple[Trigger, FailureReason], int]
    flush_holds: Mapping[tuple[Trigger, Reason], int]
    flush_seconds: Mapping[Strategy, Histogram]
    reaction_seconds: Mapping[Trigger, Histogram]
    entries_deleted: Mapping[Trigger, int]
    entries_already_gone: int
    router_events: Mapping[RouterChange, int]
    router_created_to_ready: Histogram
    count_seconds: Mapping[CountMethod, Histogram]
    counts_incomplete: Mapping[IncompleteReason, int]
    probe_seconds: Mapping[Daemon, Histogram]
    zones_renumbered: int | None = None
    router_zone_ready: Histogram | None = None
    stalls: StallTallies = field(default_factory=StallTallies)


@dataclass(frozen=True, slots=True)
class RouterCounts:
    """Logical routers: in the databases, with zones here, and created but still without zones here."""

    known: int = 0
    local: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Published by the control loop after every change; never modified.

    `zones`: every mapped zone, and every unmapped one with entries, ascending. `count`: the last published pass.
    `flush_estimated_s`: what flushing one zone would cost now, per strategy, where an estimate exists.
    `oldest_pending`: since when the oldest transient hold has been waiting. `stale_entries`: entries provably older
    than their zone's assignment, zones with at least one only.
    """

    at: Instant
    started: Instant
    switch: Switch
    is_flusher: bool
    is_paused: bool
    is_braked: bool
    is_ready: bool
    why_not_ready: str
    target: TargetInfo
    probes: tuple[Probe, ...]
    databases: tuple[DatabaseState, ...]
    daemons: tuple[DaemonView, ...]
    zones: tuple[Zone, ...]
    malformed_keys: tuple[MalformedKey, ...]
    zones_available: int | None
    count: CountPass | None
    count_failing_since: Instant | None
    routers: RouterCounts
    tallies: Tallies
    flush_estimated_s: Mapping[Strategy, float] = field(default_factory=dict)
    pending: int = 0
    oldest_pending: Instant | None = None
    is_flush_in_progress: bool = False
    records: tuple[Record, ...] = ()
    stale_entries: Mapping[ZoneId, int] = field(default_factory=dict)

    def entries_in(self, zone: ZoneId) -> int | None:
        """Entries of one zone in the last published pass, None before the first."""
        return None if self.count is None else self.count.entries_in(zone)
