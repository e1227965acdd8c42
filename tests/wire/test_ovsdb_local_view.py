"""Promises of `LocalView` as built from rows: which bridges count, and how this chassis is set up."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ctctl.model.instant import Instant
from ctctl.model.ovs import BridgeView, DatapathType, LocalView
from ctctl.wire.local_view import local_view
from ctctl.wire.ovsdb import Row, Value

NOW = Instant(boot_s=100.0, wall_s=1e9)


def bridge(name: str, keys: Mapping[str, str] | None = None, datapath_type: Value = "") -> Row:
    return {"name": name, "datapath_type": datapath_type, "external_ids": dict(keys or {})}


def view(settings: Mapping[str, str], *bridges: Row, bridge_set: str | None = None, **columns: Value) -> LocalView:
    tables = {
        "Open_vSwitch": [{"external_ids": dict(settings), "ovs_version": "3.1.0", **columns}],
        "Bridge": list(bridges),
        "Interface": [],
    }
    return local_view(tables, bridge=bridge_set, confirmed=NOW, session=4)


def names(of: LocalView) -> list[str]:
    return [b.name for b in of.bridges]


def test_zone_keys_are_taken_without_prefix_and_without_interpretation() -> None:
    keys = {
        "ct-zone-lr1_dnat": "3",
        "ct-zone-0f3c_snat": "x",
        "ct-zone-": "",
        "ovn-nb-cfg": "7",
        "ovn-nb-cfg-ts": "1",
        "ovn-startup-ts": "2",
        "xct-zone-a": "9",
    }
    (found,) = view({}, bridge("br-int", keys)).bridges
    assert found == BridgeView("br-int", DatapathType.KERNEL, {"lr1_dnat": "3", "0f3c_snat": "x", "": ""})


def test_the_moment_and_the_session_are_the_callers() -> None:
    found = view({})
    assert found.confirmed == NOW
    assert found.session == 4


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", DatapathType.KERNEL),
        ("system", DatapathType.KERNEL),
        ("netdev", DatapathType.USERSPACE),
        ("dummy", DatapathType.UNKNOWN),
    ],
)
def test_an_empty_datapath_type_means_the_kernel(text: str, kind: DatapathType) -> None:
    assert view({}, bridge("br-int", datapath_type=text)).bridges[0].datapath_type is kind


def test_without_settings_the_integration_bridge_is_br_int() -> None:
    assert names(view({}, bridge("br-ex"), bridge("br-int"))) == ["br-int"]


def test_ovn_bridge_names_the_integration_bridge() -> None:
    assert names(view({"ovn-bridge": "br-tun"}, bridge("br-int"), bridge("br-tun"))) == ["br-tun"]


def test_the_chassis_own_setting_comes_before_the_general_one() -> None:
    settings = {"system-id": "ch1", "ovn-bridge": "br-a", "ovn-bridge-ch1": "br-b"}
    assert names(view(settings, bridge("br-a"), bridge("br-b"), bridge("br-int"))) == ["br-b", "br-a"]


def test_bridges_of_other_chassis_on_this_host_count() -> None:
    settings = {"system-id": "ch1", "ovn-bridge-ch2": "br-2"}
    assert names(view(settings, bridge("br-2"), bridge("br-int"), bridge("br-ex"))) == ["br-int", "br-2"]


def test_settings_that_only_begin_like_a_bridge_name_no_bridge() -> None:
    settings = {"ovn-bridge-mappings": "br-a", "ovn-bridge-mappings-ch2": "br-a", "ovn-bridge-datapath-type": "br-a"}
    assert names(view(settings, bridge("br-a"), bridge("br-int"))) == ["br-int"]


def test_a_bridge_with_a_zone_key_counts_whatever_its_name() -> None:
    found = view({}, bridge("br-int"), bridge("br-old", {"ct-zone-p1": "9"}), bridge("br-ex", {"other": "9"}))
    assert names(found) == ["br-int", "br-old"]


def test_a_configured_bridge_replaces_the_databases_and_comes_first() -> None:
    found = view(
        {"ovn-bridge": "br-a"}, bridge("br-a"), bridge("br-z"), bridge("br-b", {"ct-zone-p": "1"}), bridge_set="br-z"
    )
    assert names(found) == ["br-z", "br-b"]


def test_a_missing_integration_bridge_is_missing() -> None:
    assert view({}, bridge("br-ex")).bridges == ()


def test_an_empty_database_is_a_view_without_anything() -> None:
    found = local_view({"Open_vSwitch": [], "Bridge": [], "Interface": []}, bridge=None, confirmed=NOW, session=1)
    assert found == LocalView(confirmed=NOW, session=1, bridges=())


def test_local_ports_are_the_interfaces_iface_ids() -> None:
    interfaces: list[Row] = [
        {"external_ids": {"iface-id": "p1"}},
        {"external_ids": {"iface-id": ""}},
        {"external_ids": {"attached-mac": "x"}},
        {"external_ids": {"iface-id": "p2"}},
    ]
    found = local_view({"Interface": interfaces}, bridge=None, confirmed=NOW, session=1)
    assert found.local_ports == {"p1", "p2"}


@pytest.mark.parametrize(
    ("settings", "remote"),
    [
        ({}, None),
        ({"ovn-remote": "unix:/a"}, "unix:/a"),
        ({"ovn-remote": "unix:/a", "ovn-remote-ch1": "tcp:1.2.3.4:6642"}, "unix:/a"),
        ({"system-id": "ch1", "ovn-remote": "unix:/a", "ovn-remote-ch1": "tcp:1.2.3.4:6642"}, "tcp:1.2.3.4:6642"),
        ({"ovn-remote-probe-interval": "5000"}, None),
        ({"ovn-remote-probe-interval": "5000", "ovn-remote-ch9": "ssl:[::1]:6642"}, "ssl:[::1]:6642"),
        ({"ovn-remote-ch8": "tcp:1.1.1.1:6642", "ovn-remote-ch9": "tcp:2.2.2.2:6642"}, None),
    ],
)
def test_the_southbound_address_is_the_one_ovn_controller_uses(settings: dict[str, str], remote: str | None) -> None:
    assert view(settings).ovn_remote == remote


@pytest.mark.parametrize(
    ("settings", "ranges"),
    [
        ({}, ()),
        ({"ct-zone-range": "1-100"}, ((1, 100),)),
        ({"ct-zone-range-ch2": "201-300", "ct-zone-range": "101 - 200"}, ((101, 200), (201, 300))),
        ({"ct-zone-range": "7-7", "ct-zone-range-a": "7-7"}, ((7, 7),)),
    ],
)
def test_every_zone_range_is_told(settings: dict[str, str], ranges: tuple[tuple[int, int], ...]) -> None:
    assert view(settings).zone_ranges == ranges


@pytest.mark.parametrize("text", ["", "5", "9-3", "0-9", "1-65536", "a-b", "1-2-3", "-1-5", "1-123456"])
def test_a_zone_range_that_is_none_is_noted_and_not_used(text: str) -> None:
    found = view({"ct-zone-range": text})
    assert found.zone_ranges == ()
    assert "unreadable" in found.notes["ct-zone-range"]


def test_the_version_is_absent_where_vswitchd_never_wrote_one() -> None:
    assert view({}, ovs_version=frozenset()).ovs_version is None
    assert view({}, ovs_version=frozenset({"3.5.0"})).ovs_version == "3.5.0"


def test_what_explains_the_state_is_noted() -> None:
    found = view({"system-id": "ch1", "hostname": "node7", "ovn-monitor-all": "false", "ovn-monitor-all-ch1": "true"})
    assert found.notes == {"hostname": "node7", "ovn-monitor-all": "true"}
