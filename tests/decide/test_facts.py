"""All that is known, as the sources told it: nothing is forgotten on a loss, nothing confirmed without a view."""

from __future__ import annotations

import pytest

from ctctl.decide.facts import MAP_FRESH_S, Facts
from ctctl.model.capability import Capability, Probe
from ctctl.model.counts import CountMethod, CountPass, IncompleteReason
from ctctl.model.daemon import Daemon, DaemonView
from ctctl.model.events import (
    CountFailed,
    CountFinished,
    DaemonSeen,
    DatabaseConfirmed,
    DatabaseLost,
    LocalViewRead,
    OvnViewRead,
    Probed,
)
from ctctl.model.ids import RouterId
from ctctl.model.instant import Instant
from ctctl.model.ovn import Datapath, DatapathKind, LogicalRouter, OvnDatabase, OvnView
from ctctl.model.ovs import BridgeView, DatapathType, LocalView
from ctctl.model.policy import FlushPolicy
from ctctl.model.zone import ZoneKind


def at(seconds: float) -> Instant:
    return Instant(seconds, 1e9 + seconds)


def local_view(seconds: float = 0.0, session: int = 1, *types: DatapathType) -> LocalViewRead:
    bridges = tuple(
        BridgeView(f"br-{n}", t, {"r1_dnat": "12"} if n == 0 else {})
        for n, t in enumerate(types or (DatapathType.KERNEL,))
    )
    return LocalViewRead(LocalView(at(seconds), session, bridges))


def ovn_view(database: OvnDatabase, *names: str, alias: str = "", session: int = 1) -> OvnViewRead:
    routers = tuple(LogicalRouter(RouterId(f"nb-{n}"), n, alias) for n in names)
    datapaths = tuple(Datapath(f"dp-{n}", DatapathKind.ROUTER, n, f"nb-{n}", alias) for n in names)
    return OvnViewRead(OvnView(database, at(0), session, routers, datapaths))


def facts(*events: object) -> Facts:
    known = Facts(FlushPolicy())
    for event in events:
        known.note(event)  # type: ignore[arg-type]
    return known


def test_at_first_nothing_is_known() -> None:
    known = facts()
    assert not known.is_map_fresh(at(0))
    assert not known.is_up(Daemon.VSWITCHD)
    assert known.supports(Capability.CONNTRACK) is None
    assert known.datapath_type is DatapathType.UNKNOWN
    assert (known.is_flusher, known.routers, known.sessions) == (False, {}, (0, 0))


def test_only_views_may_change_the_map() -> None:
    known = facts()
    assert known.note(local_view())
    assert known.note(ovn_view(OvnDatabase.SOUTHBOUND, "r1"))
    assert not known.note(DatabaseConfirmed(OvnDatabase.LOCAL, at(1)))
    assert not known.note(DatabaseLost(OvnDatabase.LOCAL, "gone"))


@pytest.mark.parametrize("is_local_first", [True, False])
def test_the_map_is_resolved_whichever_database_speaks_first(is_local_first: bool) -> None:
    events = [local_view(), ovn_view(OvnDatabase.SOUTHBOUND, "r1")]
    known = facts(*(events if is_local_first else reversed(events)))
    assert [z.kind for z in known.zone_map.zones.values()] == [ZoneKind.ROUTER_DNAT]


def test_a_northbound_view_resolves_no_key() -> None:
    known = facts(local_view(), ovn_view(OvnDatabase.NORTHBOUND, "r1"))
    assert [z.kind for z in known.zone_map.zones.values()] == [ZoneKind.UNKNOWN_DNAT]
    assert list(known.routers) == ["nb-r1"]


def test_the_southbound_row_of_a_router_wins() -> None:
    northbound = ovn_view(OvnDatabase.NORTHBOUND, "r1", "r2")
    southbound = ovn_view(OvnDatabase.SOUTHBOUND, "r1", alias="office")
    for events in ([northbound, southbound], [southbound, northbound]):
        known = facts(*events).routers
        assert {r.name: r.alias for r in known.values()} == {"r1": "office", "r2": ""}


def test_a_map_is_fresh_while_its_connection_says_so() -> None:
    known = facts(local_view(0))
    assert known.is_map_fresh(at(MAP_FRESH_S))
    assert not known.is_map_fresh(at(MAP_FRESH_S + 0.1))
    known.note(DatabaseConfirmed(OvnDatabase.LOCAL, at(5)))
    assert known.is_map_fresh(at(10))
    known.note(DatabaseLost(OvnDatabase.LOCAL, "gone"))
    assert not known.is_map_fresh(at(6))


def test_a_confirmation_without_a_view_confirms_nothing() -> None:
    known = facts(DatabaseConfirmed(OvnDatabase.LOCAL, at(1)))
    assert not known.is_map_fresh(at(1))
    known = facts(DatabaseLost(OvnDatabase.LOCAL, "not yet"), DatabaseConfirmed(OvnDatabase.LOCAL, at(1)))
    assert not known.is_map_fresh(at(1))


def test_a_loss_keeps_what_was_read_and_says_why() -> None:
    known = facts(local_view(0, 3), DatabaseLost(OvnDatabase.LOCAL, "EOF"))
    state = known.databases[OvnDatabase.LOCAL]
    assert (state.is_connected, state.why_lost, state.reconnects, state.confirmed) == (False, "EOF", 2, at(0))
    assert known.local is not None
    assert known.zone_map.zones


def test_a_database_that_is_not_to_be_read_is_no_fault() -> None:
    known = facts(DatabaseLost(OvnDatabase.NORTHBOUND, "no socket", is_configured=False))
    assert not known.databases[OvnDatabase.NORTHBOUND].is_configured
    known.note(ovn_view(OvnDatabase.NORTHBOUND))
    assert known.databases[OvnDatabase.NORTHBOUND].is_configured


def test_a_failed_count_is_dated_from_the_first_failure_until_one_succeeds() -> None:
    known = facts(
        CountFailed(IncompleteReason.PERMISSION, "EPERM", at(1)), CountFailed(IncompleteReason.TIMEOUT, "slow", at(2))
    )
    assert (known.count_failing_since, known.why_count_failed) == (at(1), "slow")
    known.note(CountFinished(CountPass(at(3), at(4), CountMethod.FULL_DUMP, {}, 0)))
    assert (known.count_failing_since, known.why_count_failed) == (None, "")
    known.note(CountFailed(IncompleteReason.TIMEOUT, "slow", at(9)))
    assert known.count is not None


def test_bridges_of_different_kinds_make_the_datapath_unknown() -> None:
    assert facts(local_view(0, 1, DatapathType.KERNEL)).datapath_type is DatapathType.KERNEL
    both = facts(local_view(0, 1, DatapathType.KERNEL, DatapathType.USERSPACE))
    assert both.datapath_type is DatapathType.UNKNOWN


def test_probes_replace_their_own_kind_only() -> None:
    known = facts(
        Probed((Probe(Capability.CONNTRACK, True, ""), Probe(Capability.TIMESTAMPS, False, ""))),  # noqa: FBT003
        Probed((Probe(Capability.CONNTRACK, False, "gone"),)),  # noqa: FBT003
    )
    assert known.supports(Capability.CONNTRACK) is False
    assert known.supports(Capability.TIMESTAMPS) is False


def test_a_stalled_daemon_is_up() -> None:
    known = facts(DaemonSeen(DaemonView(Daemon.VSWITCHD, is_up=True, unanswered_since=at(0))))
    assert known.is_up(Daemon.VSWITCHD)
    assert not known.is_up(Daemon.OVN_CONTROLLER)
