"""Snapshots for the tests of everything that reads one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from ctctl.metrics.catalogue import STATISTICS
from ctctl.model.actions import RouterChange
from ctctl.model.capability import Capability, Probe
from ctctl.model.counts import CountDetail, CountMethod, CountPass, IncompleteReason, TableStats
from ctctl.model.daemon import Daemon, DaemonView
from ctctl.model.flush import FailureReason, Reason, Strategy, Switch, Trigger
from ctctl.model.histogram import FLUSH_BOUNDS_S, STALL_BOUNDS_S, VERDICT_BOUNDS_S, Histogram
from ctctl.model.ids import RouterId, ZoneId
from ctctl.model.instant import Instant
from ctctl.model.ovn import OvnDatabase
from ctctl.model.ovs import DatapathType
from ctctl.model.record import Record, RecordKind
from ctctl.model.snapshot import DatabaseState, RouterCounts, Snapshot, Tallies, TargetInfo
from ctctl.model.stalls import CpuMode, DaemonThread, FlushPath, StallTallies
from ctctl.model.verdict import Verdict
from ctctl.model.zone import MalformedKey, Zone, ZoneKind

NOW = Instant(boot_s=5000.0, wall_s=1_800_000_000.0)


def before(seconds: float) -> Instant:
    """That long before NOW."""
    return Instant(NOW.boot_s - seconds, NOW.wall_s - seconds)


def observed(bounds: tuple[float, ...], *seconds: float) -> Histogram:
    """A histogram of these observations."""
    histogram = Histogram.empty(bounds)
    for one in seconds:
        histogram = histogram.observe(one)
    return histogram


ENABLED = (Trigger.ROUTER_CREATED, Trigger.ROUTER_REMOVED, Trigger.REQUESTED, Trigger.MANUAL)


def empty_tallies() -> Tallies:
    """As they stand when an agent has just started with the default policy."""
    return Tallies(
        verdicts=dict.fromkeys(product(ENABLED[:2], Verdict), 0),
        verdict_seconds={trigger: Histogram.empty(VERDICT_BOUNDS_S) for trigger in ENABLED[:2]},
        flushes=dict.fromkeys(product(ENABLED, Strategy), 0),
        flush_failures=dict.fromkeys(product(ENABLED, FailureReason), 0),
        flush_holds=dict.fromkeys(product(ENABLED, Reason), 0),
        flush_seconds={strategy: Histogram.empty(FLUSH_BOUNDS_S) for strategy in Strategy},
        reaction_seconds={trigger: Histogram.empty(FLUSH_BOUNDS_S) for trigger in ENABLED},
        entries_deleted=dict.fromkeys(ENABLED, 0),
        entries_already_gone=0,
        router_events=dict.fromkeys(RouterChange, 0),
        router_created_to_ready=Histogram.empty(VERDICT_BOUNDS_S),
        count_seconds={method: Histogram.empty(FLUSH_BOUNDS_S) for method in CountMethod},
        counts_incomplete=dict.fromkeys(IncompleteReason, 0),
        probe_seconds={daemon: Histogram.empty(STALL_BOUNDS_S) for daemon in Daemon},
    )


def empty_snapshot() -> Snapshot:
    """An agent that has just started and knows nothing."""
    return Snapshot(
        at=NOW,
        started=NOW,
        switch=Switch.ENFORCE,
        is_flusher=False,
        is_paused=False,
        is_braked=False,
        is_ready=False,
        why_not_ready="no zone map yet",
        target=TargetInfo(),
        probes=(),
        databases=(),
        daemons=(),
        zones=(),
        malformed_keys=(),
        zones_available=None,
        count=None,
        count_failing_since=None,
        routers=RouterCounts(),
        tallies=empty_tallies(),
    )


def count_of(entries: Mapping[int, int], **fields: object) -> CountPass:
    """A complete pass that ended 2 s before NOW."""
    by_zone = {ZoneId(zone): number for zone, number in entries.items()}
    whole = CountPass(before(2.25), before(2.0), CountMethod.FULL_DUMP, by_zone, sum(by_zone.values()))
    return replace(whole, **fields)  # type: ignore[arg-type]


def router_zones(first: int, name: str) -> tuple[Zone, Zone]:
    """A router's two zones, numbered from `first`."""
    router = RouterId(f"00000000-0000-4000-8000-{first:012d}")
    return (
        Zone(ZoneId(first), ZoneKind.ROUTER_DNAT, name, f"{name}_dnat", router=router),
        Zone(ZoneId(first + 1), ZoneKind.ROUTER_SNAT, name, f"{name}_snat", router=router),
    )


def busy_tallies() -> Tallies:
    """After some hours of work: every family has something to say."""
    created, removed, manual = Trigger.ROUTER_CREATED, Trigger.ROUTER_REMOVED, Trigger.MANUAL
    start = empty_tallies()
    return replace(
        start,
        verdicts={
            **start.verdicts,
            (created, Verdict.EMPTY): 40,
            (created, Verdict.CLEAN): 9,
            (created, Verdict.STALE): 3,
            (created, Verdict.UNVERIFIED): 1,
            (removed, Verdict.STALE): 2,
        },
        verdict_seconds={**start.verdict_seconds, created: observed(VERDICT_BOUNDS_S, 0.2, 0.4, 12.5, 400.0)},
        flushes={**start.flushes, (created, Strategy.ENTRY_DELETE): 3, (manual, Strategy.KERNEL_FILTER): 2},
        flush_failures={**start.flush_failures, (created, FailureReason.OVERRUN): 1},
        flush_holds={**start.flush_holds, (created, Reason.OVER_BUDGET): 4, (created, Reason.SHARED_ZONE): 1},
        flush_seconds={**start.flush_seconds, Strategy.KERNEL_FILTER: observed(FLUSH_BOUNDS_S, 0.021, 0.024, 45.0)},
        reaction_seconds={**start.reaction_seconds, created: observed(FLUSH_BOUNDS_S, 0.004, 0.03)},
        entries_deleted={**start.entries_deleted, created: 812},
        entries_already_gone=5,
        router_events={**start.router_events, RouterChange.CREATED: 26, RouterChange.READY: 25},
        router_created_to_ready=observed(VERDICT_BOUNDS_S, 0.41, 1.9),
        count_seconds={**start.count_seconds, CountMethod.FULL_DUMP: observed(FLUSH_BOUNDS_S, 0.24, 0.25)},
        counts_incomplete={**start.counts_incomplete, IncompleteReason.TABLE_RESIZED: 1},
        probe_seconds={**start.probe_seconds, Daemon.VSWITCHD: observed(STALL_BOUNDS_S, 0.00004, 0.0004, 11.2)},
        zones_renumbered=7,
        router_zone_ready=observed(VERDICT_BOUNDS_S, 0.011, 0.7),
        stalls=StallTallies(
            episodes={
                **dict.fromkeys(product(Daemon, (DaemonThread.MAIN,)), 0),
                (Daemon.VSWITCHD, DaemonThread.MAIN): 2,
            },
            rcu_stall_seconds={DaemonThread.MAIN: observed(STALL_BOUNDS_S, 8.001)},
            long_poll_seconds={(Daemon.VSWITCHD, DaemonThread.MAIN): observed(STALL_BOUNDS_S, 10.587)},
            long_poll_cpu_s={(Daemon.VSWITCHD, CpuMode.USER): 1.515, (Daemon.VSWITCHD, CpuMode.SYSTEM): 9.05},
            coverage_long_poll_intervals={Daemon.VSWITCHD: 2},
            near_router_change=1,
            predicted_router_stall_s={FlushPath.KERNEL_FILTER: 0.088, FlushPath.TABLE_DUMP: 0.92},
            path_in_use=FlushPath.TABLE_DUMP,
            log_lines={Daemon.VSWITCHD: 314},
            log_read={Daemon.VSWITCHD: before(1.0)},
            log_suppressed={Daemon.VSWITCHD: 12},
            log_skipped_bytes={Daemon.VSWITCHD: 0},
        ),
    )


def busy_snapshot() -> Snapshot:
    """A node at work: routers, a shared zone, an ownerless one, a stalled vswitchd, a pending flush."""
    zones = (
        Zone(ZoneId(0), ZoneKind.HOST),
        Zone(ZoneId(3), ZoneKind.PORT, "port-a", "port-a", limit=5000),
        Zone(ZoneId(7), ZoneKind.SWITCH_DNAT, "neutron-net", "neutron-net_dnat", alias="blue"),
        *router_zones(12, "r1"),
        *router_zones(14, 'r"2\\<b>'),
        Zone(ZoneId(20), ZoneKind.CONFLICT, key="twins_dnat"),
        Zone(ZoneId(31), ZoneKind.OWNERLESS),
        Zone(ZoneId(64000), ZoneKind.FOREIGN),
    )
    detail = CountDetail({"tcp": 9_700, "udp": 415, "17?": 3}, {"ESTABLISHED": 9_000, "TIME_WAIT": 700}, 9_500, 618)
    count = count_of({0: 310, 3: 4_100, 12: 5_203, 14: 17, 20: 8, 31: 440, 64000: 40}, detail=detail)
    return replace(
        empty_snapshot(),
        at=before(0.2),
        started=before(3600.0),
        is_flusher=True,
        is_ready=True,
        why_not_ready="",
        target=TargetInfo("6.1.0-13-amd64", "3.1.0", "23.03.1", DatapathType.KERNEL, "chassis-1"),
        probes=(
            Probe(Capability.CONNTRACK, is_supported=True, why="answers"),
            Probe(Capability.KERNEL_ZONE_FLUSH, is_supported=False, why="the kernel ignores CTA_ZONE in a flush"),
            Probe(Capability.TIMESTAMPS, is_supported=None, why="not readable"),
        ),
        databases=(
            DatabaseState(
                OvnDatabase.LOCAL, is_configured=True, is_connected=True, reconnects=1, confirmed=before(0.4)
            ),
            DatabaseState(
                OvnDatabase.SOUTHBOUND,
                is_configured=True,
                is_connected=False,
                reconnects=4,
                confirmed=before(30.0),
                why_lost="tcp:192.0.2.1:6642 refuses connections; see that ovn-central runs",
            ),
            DatabaseState(
                OvnDatabase.NORTHBOUND, is_configured=False, is_connected=False, reconnects=0, confirmed=None
            ),
        ),
        daemons=(
            DaemonView(Daemon.VSWITCHD, is_up=True, unanswered_since=before(4.5), version="3.1.0"),
            DaemonView(Daemon.OVN_CONTROLLER, is_up=True, last_round_trip_s=0.00004, version="23.03.1"),
        ),
        zones=zones,
        malformed_keys=(MalformedKey("broken", "abc"),),
        zones_available=65_000,
        count=count,
        routers=RouterCounts(known=30, local=2, pending=1),
        tallies=busy_tallies(),
        flush_estimated_s={Strategy.KERNEL_FILTER: 0.022, Strategy.ENTRY_DELETE: 0.23},
        pending=1,
        oldest_pending=before(12.0),
        records=(
            Record(before(60.0), RecordKind.VERDICT, "router r1 ready in 0.41s zones=12,13 verdict=clean"),
            Record(before(12.0), RecordKind.HOLD, "zone 14 held: over_budget"),
        ),
        stale_entries={ZoneId(12): 3},
    )


def table_stats() -> TableStats:
    """A table of two CPUs."""
    by_cpu = {cpu: {name: 10 * cpu + at for at, name in enumerate(STATISTICS)} for cpu in (0, 1)}
    return TableStats(10_200, 262_144, 65_536, by_cpu)
