"""Every rule that can hold a flush back, alone and against the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ctctl.decide.gate import MAX_REPLY_AGE_S, Conditions, confirm, judge
from ctctl.decide.zone_map import resolve
from ctctl.model.flush import FlushOrder, Reason, Switch, Trigger
from ctctl.model.ids import ZoneId, flushable_zone_id
from ctctl.model.instant import Instant
from ctctl.model.ovn import Datapath, DatapathKind
from ctctl.model.ovs import BridgeView, DatapathType, LocalView
from ctctl.model.policy import FlushPolicy

AT = Instant(1000.0, 1_800_000_000.0)
ROUTER = Datapath("dp-1", DatapathKind.ROUTER, "r1", "nb-1")
TWIN = Datapath("dp-2", DatapathKind.SWITCH, "r1", "nb-2")
AUTOMATIC = [t for t in Trigger if t is not Trigger.MANUAL]


def later(seconds: float) -> Instant:
    return Instant(AT.boot_s + seconds, AT.wall_s + seconds)


def bridge(
    keys: Mapping[str, str], name: str = "br-int", datapath_type: DatapathType = DatapathType.KERNEL
) -> BridgeView:
    return BridgeView(name, datapath_type, dict(keys))


def local(*bridges: BridgeView, **fields: object) -> LocalView:
    return LocalView(AT, 1, bridges or (bridge({"r1_dnat": "12", "r1_snat": "13", "vm": "5"}),), **fields)  # type: ignore[arg-type]


def conditions(view: LocalView | None = None, *datapaths: Datapath, **changes: object) -> Conditions:
    """All is well, but for the changes."""
    view = view or local()
    good = Conditions(
        zone_map=resolve(view, datapaths or (ROUTER,)),
        local=view,
        policy=FlushPolicy(),
        is_map_fresh=True,
        is_flusher=True,
        is_paused=False,
        is_braked=False,
        has_budget=True,
        is_ovn_controller_up=True,
        same_namespace=True,
        has_conntrack=True,
    )
    return replace(good, **changes)  # type: ignore[arg-type]


def reason(zone: int, trigger: Trigger, given: Conditions) -> Reason | None:
    refusal = judge(ZoneId(zone), trigger, given)
    if refusal is None:
        return None
    assert refusal.why
    return refusal.reason


@pytest.mark.parametrize("trigger", list(Trigger))
@pytest.mark.parametrize("zone", [5, 12, 13])
def test_where_nothing_forbids_it_a_mapped_zone_may_be_flushed(zone: int, trigger: Trigger) -> None:
    assert reason(zone, trigger, conditions()) is None


RULES = [
    ({"local": None}, Reason.MAP_NOT_FRESH),
    ({"same_namespace": False}, Reason.WRONG_NAMESPACE),
    ({"same_namespace": None}, Reason.NAMESPACE_UNKNOWN),
    ({"has_conntrack": False}, Reason.CONNTRACK_UNAVAILABLE),
    ({"has_conntrack": None}, Reason.CONNTRACK_UNAVAILABLE),
    ({"policy": FlushPolicy(switch=Switch.OBSERVE)}, Reason.OBSERVE),
    ({"policy": FlushPolicy(switch=Switch.DRY_RUN)}, Reason.DRY_RUN),
    ({"is_flusher": False}, Reason.NOT_THE_FLUSHER),
    ({"is_paused": True}, Reason.PAUSED),
    ({"is_map_fresh": False}, Reason.MAP_NOT_FRESH),
    ({"has_budget": False}, Reason.OVER_BUDGET),
]


@pytest.mark.parametrize("trigger", list(Trigger))
@pytest.mark.parametrize(("changes", "wanted"), RULES)
def test_one_thing_that_is_not_well_forbids_every_flush(
    changes: dict[str, object], wanted: Reason, trigger: Trigger
) -> None:
    assert reason(12, trigger, conditions(**changes)) is wanted


@pytest.mark.parametrize("trigger", AUTOMATIC)
@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"is_ovn_controller_up": False}, Reason.OVN_CONTROLLER_DOWN),
        ({"is_braked": True}, Reason.BRAKE),
        ({"policy": FlushPolicy(exclude_routers=frozenset({"r1"}))}, Reason.EXCLUDED_ROUTER),
    ],
)
def test_what_forbids_automatic_flushes_does_not_forbid_one_by_hand(
    changes: dict[str, object], wanted: Reason, trigger: Trigger
) -> None:
    given = conditions(**changes)
    assert reason(12, trigger, given) is wanted
    assert reason(12, Trigger.MANUAL, given) is None


@pytest.mark.parametrize("trigger", list(Trigger))
def test_zone_zero_is_refused_before_anything_else_is_looked_at(trigger: Trigger) -> None:
    view = local(bridge({"r1_snat": "0"}))
    assert reason(0, trigger, conditions(view)) is Reason.ZONE_ZERO
    assert reason(0, trigger, conditions(local=None, is_flusher=False)) is Reason.ZONE_ZERO


@pytest.mark.parametrize("trigger", list(Trigger))
def test_a_zone_outside_the_map_is_refused(trigger: Trigger) -> None:
    assert reason(99, trigger, conditions()) is Reason.UNOWNED_ZONE
    outside = local(zone_ranges=((1, 50), (200, 300)))
    assert reason(99, trigger, conditions(outside)) is Reason.FOREIGN_ZONE
    assert reason(250, trigger, conditions(outside)) is Reason.UNOWNED_ZONE
    assert reason(12, trigger, conditions(outside)) is None


@pytest.mark.parametrize("trigger", list(Trigger))
@pytest.mark.parametrize(
    "given",
    [
        conditions(local(bridge({"r1_dnat": "12", "vm": "12"}))),
        conditions(local(bridge({"r1_dnat": "12"}), bridge({"r1_dnat": "12"}, "br-2"))),
        conditions(local(bridge({"r1_dnat": "12"})), ROUTER, TWIN),
        conditions(local(bridge({"r1_dnat": "12"}), local_ports=frozenset({"r1_dnat"}))),
    ],
    ids=["two keys", "two bridges", "two datapaths of one name", "a port called like the key"],
)
def test_a_shared_zone_is_refused_and_says_by_whom(given: Conditions, trigger: Trigger) -> None:
    refusal = judge(ZoneId(12), trigger, given)
    assert refusal is not None
    assert refusal.reason is Reason.SHARED_ZONE
    assert "r1_dnat" in refusal.why


@pytest.mark.parametrize("kind", [DatapathType.USERSPACE, DatapathType.UNKNOWN])
def test_a_zone_on_a_bridge_that_is_not_the_kernels_is_refused(kind: DatapathType) -> None:
    view = local(bridge({"r1_dnat": "12"}), bridge({"vm": "5"}, "br-user", kind))
    assert reason(5, Trigger.MANUAL, conditions(view)) is Reason.USERSPACE_DATAPATH
    assert reason(12, Trigger.MANUAL, conditions(view)) is None


def test_a_dry_run_is_refused_last_so_that_it_tells_what_enforcing_would_do() -> None:
    dry = FlushPolicy(switch=Switch.DRY_RUN)
    for changes, wanted in RULES:
        if "policy" not in changes:
            assert reason(12, Trigger.MANUAL, conditions(**{**changes, "policy": dry})) is wanted


# Right before sending.


def order(zone: int = 12, key: str | None = "r1_dnat", not_after: Instant | None = None) -> FlushOrder:
    return FlushOrder(
        1, flushable_zone_id(zone), Trigger.ROUTER_CREATED, "r1", None, key, visible=AT, not_after=not_after
    )


def confirmed(given: FlushOrder, view: LocalView, after_s: float = 0.01) -> Reason | None:
    refusal = confirm(given, view, later(after_s))
    return None if refusal is None else refusal.reason


def test_an_unchanged_map_confirms_an_order() -> None:
    assert confirmed(order(), local()) is None


@pytest.mark.parametrize(("after_s", "wanted"), [(MAX_REPLY_AGE_S - 0.001, None), (0.101, Reason.MAP_NOT_FRESH)])
def test_a_reply_is_good_for_a_tenth_of_a_second(after_s: float, wanted: Reason | None) -> None:
    assert confirmed(order(), local(), after_s) is wanted


def test_an_order_past_its_time_is_void() -> None:
    assert confirmed(order(not_after=later(0.005)), local()) is Reason.TOO_LATE
    assert confirmed(order(not_after=later(0.02)), local()) is None


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({}, Reason.OWNER_CHANGED),
        ({"r1_dnat": "13"}, Reason.OWNER_CHANGED),
        ({"r2_dnat": "12"}, Reason.OWNER_CHANGED),
        ({"r1_dnat": "12", "r2_dnat": "12"}, Reason.SHARED_ZONE),
        ({"r1_dnat": "012"}, None),
        ({"r1_dnat": "112"}, Reason.OWNER_CHANGED),
        ({"r1_dnat": "12x"}, Reason.OWNER_CHANGED),
    ],
)
def test_a_changed_map_voids_an_order(keys: dict[str, str], wanted: Reason | None) -> None:
    assert confirmed(order(), local(bridge(keys))) is wanted


def test_the_datapath_is_that_of_the_bridge_which_assigns_the_zone() -> None:
    kernel = bridge({"r1_dnat": "13"})
    userspace = bridge({"r1_dnat": "12"}, "br-user", DatapathType.USERSPACE)
    assert confirmed(order(), local(kernel, userspace)) is Reason.USERSPACE_DATAPATH
    assert confirmed(order(13), local(kernel, userspace)) is None
    assert confirmed(order(13), local(userspace, kernel)) is None
