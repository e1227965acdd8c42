"""Who owns which zone: every generation of keys, every way in which a name can mislead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from ctctl.decide.zone_map import keys_claiming, parse_zone, resolve
from ctctl.model.ids import RouterId, ZoneId
from ctctl.model.instant import Instant
from ctctl.model.ovn import Datapath, DatapathKind
from ctctl.model.ovs import BridgeView, DatapathType, LocalView
from ctctl.model.zone import Zone, ZoneKind, ZoneMap

UUID = "2f6a1c1e-0000-4000-8000-000000000001"
OTHER_UUID = "2f6a1c1e-0000-4000-8000-000000000002"
NB_UUID = "0b6a1c1e-0000-4000-8000-00000000000a"

ROUTER = Datapath(UUID, DatapathKind.ROUTER, "r1", NB_UUID)
SWITCH = Datapath(OTHER_UUID, DatapathKind.SWITCH, "ls0", "nb-switch")


def local(*bridges: Mapping[str, str], ports: Iterable[str] = ()) -> LocalView:
    views = tuple(BridgeView(f"br-{n}", DatapathType.KERNEL, keys) for n, keys in enumerate(bridges))
    return LocalView(Instant(0, 0), 1, views, local_ports=frozenset(ports))


def zone_map(keys: Mapping[str, str], *datapaths: Datapath, ports: Iterable[str] = ()) -> ZoneMap:
    return resolve(local(keys, ports=ports), datapaths)


def only(keys: Mapping[str, str], *datapaths: Datapath, ports: Iterable[str] = ()) -> Zone:
    (zone,) = zone_map(keys, *datapaths, ports=ports).zones.values()
    return zone


@pytest.mark.parametrize("stem", [UUID, "r1"])
def test_a_routers_zones_are_found_by_uuid_keys_and_by_name_keys(stem: str) -> None:
    found = zone_map({f"{stem}_dnat": "12", f"{stem}_snat": "13"}, ROUTER, SWITCH)
    assert {n: (z.kind, z.owner, z.router) for n, z in found.zones.items()} == {
        12: (ZoneKind.ROUTER_DNAT, "r1", NB_UUID),
        13: (ZoneKind.ROUTER_SNAT, "r1", NB_UUID),
    }
    assert [int(z.zone) for z in found.zones_of(RouterId(NB_UUID))] == [12, 13]


def test_both_generations_may_be_mixed_while_they_have_different_numbers() -> None:
    found = zone_map({f"{UUID}_dnat": "12", "r1_snat": "13"}, ROUTER)
    assert {z.kind for z in found.zones.values()} == {ZoneKind.ROUTER_DNAT, ZoneKind.ROUTER_SNAT}


def test_one_zone_under_keys_of_both_generations_is_a_conflict() -> None:
    assert only({f"{UUID}_dnat": "12", "r1_dnat": "12"}, ROUTER).kind is ZoneKind.CONFLICT


def test_a_switchs_zones_are_no_routers() -> None:
    zone = only({"ls0_snat": "5"}, ROUTER, SWITCH)
    assert (zone.kind, zone.owner, zone.router) == (ZoneKind.SWITCH_SNAT, "ls0", None)


def test_a_key_that_no_datapath_explains_is_unknown() -> None:
    zone = only({"gone_dnat": "5"}, ROUTER)
    assert (zone.kind, zone.owner, zone.router) == (ZoneKind.UNKNOWN_DNAT, "gone", None)


def test_without_an_ovn_database_datapaths_are_unknown_and_ports_are_ports() -> None:
    found = resolve(local({"r1_dnat": "12", "vm": "3"}), None)
    assert [found.zones[ZoneId(n)].kind for n in (12, 3)] == [ZoneKind.UNKNOWN_DNAT, ZoneKind.PORT]


def test_a_datapath_of_unknown_kind_keeps_its_name() -> None:
    zone = only({"x_snat": "5"}, Datapath(UUID, DatapathKind.UNKNOWN, "x", ""))
    assert (zone.kind, zone.owner, zone.router) == (ZoneKind.UNKNOWN_SNAT, "x", None)


def test_a_router_without_northbound_uuid_has_no_identity_and_so_is_nobodys() -> None:
    zone = only({"x_snat": "5"}, Datapath(UUID, DatapathKind.ROUTER, "x", ""))
    assert zone.router is None


def test_a_name_that_looks_like_a_uuid_is_a_name() -> None:
    named = Datapath(UUID, DatapathKind.ROUTER, OTHER_UUID, NB_UUID)
    zone = only({f"{OTHER_UUID}_dnat": "5"}, named)
    assert (zone.kind, zone.owner) == (ZoneKind.ROUTER_DNAT, OTHER_UUID)


def test_a_name_that_is_another_datapaths_uuid_is_a_conflict() -> None:
    named = Datapath(UUID, DatapathKind.ROUTER, OTHER_UUID, NB_UUID)
    assert only({f"{OTHER_UUID}_dnat": "5"}, named, SWITCH).kind is ZoneKind.CONFLICT


def test_a_datapath_named_by_its_own_uuid_is_one_datapath() -> None:
    assert only({f"{UUID}_dnat": "5"}, Datapath(UUID, DatapathKind.ROUTER, UUID, NB_UUID)).kind.is_router


@pytest.mark.parametrize("name", ["r1_dnat", "r1_snat", "_dnat", "a_dnat_snat"])
def test_a_name_that_ends_like_a_key_is_taken_whole(name: str) -> None:
    zone = only({f"{name}_dnat": "5"}, Datapath(UUID, DatapathKind.ROUTER, name, NB_UUID))
    assert (zone.kind, zone.owner) == (ZoneKind.ROUTER_DNAT, name)


def test_a_router_called_x_dnat_does_not_take_the_zone_of_router_x() -> None:
    tricky = Datapath(OTHER_UUID, DatapathKind.ROUTER, "r1_dnat", "nb-tricky")
    found = zone_map({"r1_dnat": "5", "r1_dnat_dnat": "6"}, ROUTER, tricky)
    assert [found.zones[ZoneId(n)].owner for n in (5, 6)] == ["r1", "r1_dnat"]


def test_a_port_called_x_snat_is_a_port() -> None:
    zone = only({"web_snat": "5"}, ROUTER, ports=["web_snat"])
    assert (zone.kind, zone.owner) == (ZoneKind.PORT, "web_snat")


def test_a_port_called_like_a_routers_key_is_a_conflict() -> None:
    zone = only({"r1_snat": "5"}, ROUTER, ports=["r1_snat"])
    assert (zone.kind, zone.owner, zone.router, zone.key) == (ZoneKind.CONFLICT, "", None, "r1_snat")


def test_any_other_key_is_a_ports() -> None:
    for key in ("vm-1", "dnat", "x_DNAT", "", "x_dnat ", "r1-dnat"):
        assert only({key: "5"}, ROUTER).kind is ZoneKind.PORT


@pytest.mark.parametrize("kind", list(DatapathKind))
def test_a_name_shared_by_two_datapaths_is_a_conflict(kind: DatapathKind) -> None:
    twin = Datapath(OTHER_UUID, kind, "r1", "nb-twin")
    for suffix in ("_dnat", "_snat"):
        zone = only({f"r1{suffix}": "5"}, ROUTER, twin)
        assert (zone.kind, zone.owner, zone.router) == (ZoneKind.CONFLICT, "", None)


def test_uuid_keys_tell_datapaths_of_one_name_apart() -> None:
    twin = Datapath(OTHER_UUID, DatapathKind.SWITCH, "r1", "nb-twin")
    found = zone_map({f"{UUID}_dnat": "5", f"{OTHER_UUID}_dnat": "6"}, ROUTER, twin)
    assert [found.zones[ZoneId(n)].kind for n in (5, 6)] == [ZoneKind.ROUTER_DNAT, ZoneKind.SWITCH_DNAT]


@pytest.mark.parametrize("other", ["r1_snat", "ls0_dnat", "vm", "gone_snat"])
def test_a_number_given_twice_belongs_to_nobody(other: str) -> None:
    zone = only({"r1_dnat": "5", other: "5"}, ROUTER, SWITCH)
    assert (zone.kind, zone.owner, zone.router, zone.bridge) == (ZoneKind.CONFLICT, "", None, None)


def test_a_number_given_on_two_bridges_belongs_to_nobody() -> None:
    found = resolve(local({"r1_dnat": "5"}, {"vm": "5", "vm2": "6"}), [ROUTER])
    assert found.zones[ZoneId(5)].kind is ZoneKind.CONFLICT
    assert found.zones[ZoneId(6)].bridge == "br-1"


def test_the_same_key_on_two_bridges_with_one_number_belongs_to_nobody() -> None:
    found = resolve(local({"r1_dnat": "5"}, {"r1_dnat": "5"}), [ROUTER])
    assert found.zones[ZoneId(5)].kind is ZoneKind.CONFLICT


def test_zone_zero_is_the_hosts_whoever_claims_it() -> None:
    for keys in ({"r1_snat": "0"}, {"r1_snat": "0", "vm": "00"}):
        zone = only(keys, ROUTER)
        assert (zone.zone, zone.kind, zone.owner, zone.router, zone.key) == (0, ZoneKind.HOST, "", None, None)


@pytest.mark.parametrize(
    "value", ["", " 5", "5 ", "-1", "+5", "0x5", "5.0", "65536", "99999", "100000", "five", "٣", "²", "5\n", "1_0"]
)
def test_a_value_that_is_no_zone_number_is_set_aside(value: str) -> None:
    found = zone_map({"r1_dnat": value, "r1_snat": "13"}, ROUTER)
    assert [(m.key, m.value) for m in found.malformed] == [("r1_dnat", value)]
    assert list(found.zones) == [13]


@pytest.mark.parametrize(("value", "number"), [("0", 0), ("1", 1), ("65535", 65535), ("007", 7)])
def test_decimal_digits_in_range_are_zone_numbers(value: str, number: int) -> None:
    assert parse_zone(value) == number


def test_every_claim_on_a_zone_is_found() -> None:
    view = local({"r1_dnat": "12", "a": "112", "b": "00012", "c": "x12", "d": "13"}, {"e": "12"})
    assert sorted(keys_claiming(view, ZoneId(12))) == ["b", "e", "r1_dnat"]
    assert keys_claiming(view, ZoneId(14)) == ()


def test_particulars_of_the_datapath_come_along() -> None:
    datapath = Datapath(UUID, DatapathKind.ROUTER, "neutron-1", NB_UUID, alias="office", ct_zone_limit=0)
    zone = only({"neutron-1_snat": "5"}, datapath)
    assert (zone.alias, zone.limit, zone.key, zone.bridge) == ("office", 0, "neutron-1_snat", "br-0")


def test_a_datapath_without_name_is_called_by_what_it_has() -> None:
    assert only({f"{UUID}_snat": "5"}, Datapath(UUID, DatapathKind.ROUTER, "", NB_UUID)).owner == NB_UUID
    assert only({f"{UUID}_snat": "5"}, Datapath(UUID, DatapathKind.UNKNOWN, "", "")).owner == UUID
