"""Promises of `OvnView` as built from rows of both generations of schema."""

from __future__ import annotations

from ctctl.model.ids import RouterId
from ctctl.model.instant import Instant
from ctctl.model.ovn import Datapath, DatapathKind, LogicalRouter, OvnDatabase
from ctctl.wire.ovn_view import SouthboundViews, northbound_view, southbound_view
from ctctl.wire.ovsdb import Row

NOW = Instant(boot_s=100.0, wall_s=1e9)
NIL = "00000000-0000-0000-0000-000000000000"


def southbound(*rows: Row) -> tuple[Datapath, ...]:
    return southbound_view({"Datapath_Binding": rows}, confirmed=NOW, session=2).datapaths


def test_external_ids_tell_routers_from_switches() -> None:
    found = southbound(
        {"_uuid": "d1", "external_ids": {"logical-router": "r1", "name": "lr1", "name2": "alias", "snat-ct-zone": "0"}},
        {"_uuid": "d2", "external_ids": {"logical-switch": "s1", "name": "lr1", "ct-zone-limit": "100"}},
        {"_uuid": "d3", "external_ids": {"name": "odd"}},
    )
    assert found == (
        Datapath("d1", DatapathKind.ROUTER, "lr1", "r1", alias="alias", snat_ct_zone=0),
        Datapath("d2", DatapathKind.SWITCH, "lr1", "s1", ct_zone_limit=100),
        Datapath("d3", DatapathKind.UNKNOWN, "odd", ""),
    )


def test_columns_of_newer_schemas_win_where_they_are_filled() -> None:
    found = southbound(
        {"_uuid": "d1", "external_ids": {"name": "lr1"}, "type": "logical-router", "nb_uuid": "r1"},
        {
            "_uuid": "d2",
            "external_ids": {"name": "ls1"},
            "type": frozenset({"logical-switch"}),
            "nb_uuid": frozenset({"s1"}),
        },
        {"_uuid": "d3", "external_ids": {"logical-router": "r3"}, "type": "", "nb_uuid": NIL},
        {"_uuid": "d4", "external_ids": {"logical-router": "r4"}, "type": "logical-router", "nb_uuid": frozenset()},
    )
    assert [(dp.kind, dp.nb_uuid) for dp in found] == [
        (DatapathKind.ROUTER, "r1"),
        (DatapathKind.SWITCH, "s1"),
        (DatapathKind.ROUTER, "r3"),
        (DatapathKind.ROUTER, "r4"),
    ]


def test_a_number_that_is_none_counts_as_absent() -> None:
    for text in ("", "x", "-1", "1.5", "٣", "99999999999"):
        (found,) = southbound({"_uuid": "d1", "external_ids": {"logical-router": "r", "snat-ct-zone": text}})
        assert found.snat_ct_zone is None


def test_southbound_routers_are_those_the_datapaths_stand_for() -> None:
    rows: list[Row] = [
        {"_uuid": "d2", "external_ids": {"logical-router": "r2", "name": "b"}},
        {"_uuid": "d1", "external_ids": {"logical-router": "r1", "name": "a", "name2": "pretty"}},
        {"_uuid": "d3", "external_ids": {"logical-switch": "s1", "name": "c"}},
    ]
    view = southbound_view({"Datapath_Binding": rows}, confirmed=NOW, session=2)
    assert view.database is OvnDatabase.SOUTHBOUND
    assert view.routers == (LogicalRouter(RouterId("r1"), "a", "pretty"), LogicalRouter(RouterId("r2"), "b"))
    assert southbound_view({"Datapath_Binding": rows[::-1]}, confirmed=NOW, session=2) == view


def test_northbound_routers_need_no_datapath_and_no_name() -> None:
    rows: list[Row] = [
        {"_uuid": "r2", "name": "", "external_ids": {}},
        {"_uuid": "r1", "name": "neutron-1", "external_ids": {"neutron:router_name": "edge"}},
    ]
    view = northbound_view({"Logical_Router": rows}, confirmed=NOW, session=3)
    assert view.database is OvnDatabase.NORTHBOUND
    assert view.routers == (LogicalRouter(RouterId("r1"), "neutron-1", "edge"), LogicalRouter(RouterId("r2"), ""))
    assert view.datapaths == ()


def test_an_empty_database_is_an_empty_view() -> None:
    assert southbound_view({}, confirmed=NOW, session=1).routers == ()
    assert northbound_view({}, confirmed=NOW, session=1).routers == ()


def test_views_built_one_after_the_other_are_what_each_would_be_alone() -> None:
    rows: list[Row] = [
        {"_uuid": f"d{i}", "external_ids": {"logical-router": f"r{i}", "name": f"lr{i}"}} for i in range(5)
    ]
    views = SouthboundViews()
    histories: list[list[Row]] = [
        rows[:3],
        [rows[0], {**rows[1], "external_ids": {"logical-switch": "s1"}}, rows[2]],
        rows[2:],
        [],
        [{**rows[0], "external_ids": {"logical-router": "r9", "name": "lr0"}}],
        rows,
    ]
    for session, present in enumerate(histories):
        tables = {"Datapath_Binding": present}
        expected = southbound_view(tables, confirmed=NOW, session=session)
        assert views.view(tables, confirmed=NOW, session=session) == expected


def test_an_unchanged_row_is_not_read_again() -> None:
    rows: list[Row] = [{"_uuid": "d1", "external_ids": {"logical-router": "r1"}}]
    views = SouthboundViews()
    first = views.view({"Datapath_Binding": rows}, confirmed=NOW, session=1)
    again = views.view({"Datapath_Binding": list(rows)}, confirmed=NOW, session=1)
    assert again.datapaths[0] is first.datapaths[0]
