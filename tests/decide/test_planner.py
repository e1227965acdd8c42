"""Playbooks: what the planner does, told as scripts."""

from __future__ import annotations

import dataclasses

import pytest

from ctctl.decide.watch import Watch
from ctctl.model.actions import CountNow, DeleteEntries, GiveVerdict
from ctctl.model.capability import Capability, Probe
from ctctl.model.conntrack import Sighting
from ctctl.model.counts import CountMethod
from ctctl.model.daemon import Daemon, DaemonView
from ctctl.model.events import (
    DaemonSeen,
    DatabaseLost,
    FlusherLockChanged,
    PauseChanged,
    PolicyChanged,
    Probed,
)
from ctctl.model.flush import FailureReason, FlushFailure, FlushRefusal, FlushResult, Mode, Reason, Strategy, Switch
from ctctl.model.ids import ZoneId, flushable_zone_id
from ctctl.model.ovn import OvnDatabase
from ctctl.model.ovs import DatapathType
from ctctl.model.policy import FlushPolicy
from tests.decide.world import World, policy, router_datapath, switch_datapath

ALWAYS = policy(router_created=Mode.ALWAYS)


def always() -> World:
    return World(ALWAYS).start()


def test_the_baseline_flushes_nothing_and_gives_no_verdict() -> None:
    world = World(ALWAYS)
    for number in range(500):
        name = f"r{number}"
        world.routers[name] = router_datapath(name)
        world.keys |= {f"{name}_dnat": str(2 * number + 1), f"{name}_snat": str(2 * number + 2)}
    world.start()
    world.count({1: 5})
    world.pass_time(10)
    assert (world.flushed, world.verdicts, world.holds, world.changes) == ([], [], [], [])


def test_the_baseline_is_the_same_whichever_database_answers_first() -> None:
    world = World(ALWAYS)
    world.routers["r1"] = router_datapath("r1")
    world.keys = {"r1_dnat": "1", "r1_snat": "2"}
    world.show_ovn()
    world.start()
    assert (world.flushed, world.changes) == ([], [])


def test_a_created_router_in_always_is_flushed_once_per_zone_and_then_has_its_verdict() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    assert world.flushed == [12]
    world.finish_flush()
    assert world.flushed == [12, 13]
    assert world.verdicts == []
    world.finish_flush()
    world.count({})
    assert world.verdicts == [("r1", 12, "empty", "done"), ("r1", 13, "empty", "done")]
    world.pass_time(60)
    world.count({12: 5})
    assert world.flushed == [12, 13]
    assert len(world.verdicts) == 2


def test_orders_carry_key_owner_and_a_deadline() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    (order,) = world.orders
    assert (order.key, order.owner, order.router, order.request_id) == ("r1_dnat", "r1", "nb-r1", None)
    assert order.not_after is not None
    assert order.not_after.since(order.visible) == pytest.approx(ALWAYS.max_lateness_s)


def test_a_created_router_in_verify_is_counted_and_not_flushed() -> None:
    world = World().start()
    actions = world.create_router("r1", 12, 13)
    assert any(isinstance(a, CountNow) for a in actions)
    world.pass_time(0.05)
    world.count({13: 4})
    assert world.verdicts == [("r1", 12, "empty", "not-needed"), ("r1", 13, "unverified", "not-needed")]
    assert world.flushed == []


def test_both_verdicts_of_a_router_come_as_one_action() -> None:
    world = World().start()
    world.create_router("r1", 12, 13)
    world.pass_time(0.05)
    given = [a for a in world.count({}) if isinstance(a, GiveVerdict)]
    assert [len(a.verdicts) for a in given] == [2]


def test_a_pass_that_started_before_the_assignment_decides_nothing() -> None:
    world = World().start()
    before_s = world.time_s - 1
    world.create_router("r1", 12, 13)
    world.count({}, started_s=before_s)
    assert world.verdicts == []


def test_a_sampled_pass_decides_nothing() -> None:
    world = World().start()
    world.create_router("r1", 12, 13)
    world.pass_time(0.05)
    world.count({}, method=CountMethod.SAMPLED_DUMP, sampling_ratio=0.1)
    assert world.verdicts == []


def test_without_a_pass_for_five_minutes_the_verdict_is_unverified() -> None:
    world = World().start()
    world.create_router("r1", 12, 13)
    world.pass_time(301)
    assert world.verdicts == [("r1", 12, "unverified", "not-needed"), ("r1", 13, "unverified", "not-needed")]


def test_where_nothing_can_be_counted_the_verdict_does_not_wait() -> None:
    world = World(datapath_type=DatapathType.USERSPACE).start()
    world.create_router("r1", 12, 13)
    assert [v[2] for v in world.verdicts] == ["unverified", "unverified"]


def test_ten_row_updates_of_one_creation_lead_to_one_flush_per_zone() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    for _ in range(10):
        world.show_map()
        world.show_ovn()
    world.finish_all_flushes()
    for _ in range(10):
        world.show_map()
        world.show_ovn()
    assert world.flushed == [12, 13]


def test_a_flapping_key_is_flushed_once() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.finish_all_flushes()
    for _ in range(5):
        kept = dict(world.keys)
        world.keys.clear()
        world.show_map()
        world.pass_time(0.2)
        world.keys.update(kept)
        world.show_map()
    assert world.flushed == [12, 13]


def test_a_key_that_is_visible_before_the_database_shows_the_router_counts_from_its_own_time() -> None:
    world = always()
    world.keys |= {"r1_dnat": "12", "r1_snat": "13"}
    world.show_map()
    visible = world.now
    world.pass_time(2)
    world.routers["r1"] = router_datapath("r1")
    world.show_ovn()
    assert world.orders[0].visible == visible


def test_a_flush_that_would_come_too_late_is_given_up_visibly() -> None:
    world = always()
    world.keys |= {"r1_dnat": "12", "r1_snat": "13"}
    world.show_map()
    world.pass_time(6)
    world.routers["r1"] = router_datapath("r1")
    world.show_ovn()
    world.pass_time(0.1)
    world.count({})
    assert world.flushed == []
    assert world.holds == [(12, "too_late"), (13, "too_late")]
    assert [v[3] for v in world.verdicts] == ["held", "held"]


def test_what_appeared_during_a_lost_local_connection_is_not_flushed() -> None:
    world = always()
    world.routers["r1"] = router_datapath("r1")
    world.show_ovn()
    world.keys |= {"r1_dnat": "12", "r1_snat": "13"}
    world.local_session += 1
    world.show_map()
    assert world.flushed == []
    assert world.holds == [(12, "too_late"), (13, "too_late")]


def test_a_reconnect_that_shows_the_same_again_is_nothing() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.finish_all_flushes()
    world.count({})
    before = list(world.actions)
    world.ovn_session += 1
    world.local_session += 1
    world.show_ovn()
    world.show_map()
    assert world.actions == before


def test_a_rebuilt_database_with_equal_names_and_numbers_is_nothing() -> None:
    world = always()
    for number in range(50):
        world.create_router(f"r{number}", 2 * number + 1, 2 * number + 2)
        world.finish_all_flushes()
    world.pass_time(0.1)
    world.count({})
    flushed, verdicts = list(world.flushed), list(world.verdicts)
    world.ovn_session += 1
    world.routers, former = {}, world.routers
    world.show_ovn()
    for name in former:
        world.routers[name] = router_datapath(name, nb_uuid=f"rebuilt-{name}")
        world.show_ovn()
    world.show_map()
    world.pass_time(1)
    assert (world.flushed, world.verdicts) == (flushed, verdicts)


def test_a_router_recreated_in_one_transaction_is_a_new_assignment_of_the_same_numbers() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.finish_all_flushes()
    world.routers["r1"] = router_datapath("r1", nb_uuid="nb-second")
    world.show_ovn()
    world.finish_all_flushes()
    assert world.flushed == [12, 13, 12, 13]
    assert ("r1", "removed") in world.changes


def test_a_rename_with_the_same_numbers_is_nothing() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.finish_all_flushes()
    world.routers = {"new": router_datapath("new", nb_uuid="nb-r1")}
    world.show_ovn()
    world.keys = {"new_dnat": "12", "new_snat": "13"}
    world.show_map()
    assert world.flushed == [12, 13]
    assert ("new", "renamed") in world.changes


def test_a_renamed_router_keeps_the_zones_of_its_former_name_until_its_keys_follow() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.finish_all_flushes()
    world.routers = {"new": router_datapath("new", nb_uuid="nb-r1")}
    world.show_ovn()
    world.pass_time(120)
    zones = world.planner.facts.zone_map.zones
    assert [(z.owner, z.router) for z in zones.values()] == [("new", "nb-r1")] * 2
    world.keys = {"new_dnat": "13", "new_snat": "12"}
    world.show_map()
    assert world.flushed == [12, 13]
    assert world.changes == [("r1", "created"), ("r1", "ready"), ("new", "renamed"), ("new", "renumbered")]


def test_a_new_router_under_a_name_that_another_gave_up_shares_its_key_and_is_never_flushed() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.finish_all_flushes()
    world.routers = {
        "new": router_datapath("new", nb_uuid="nb-r1"),
        "r1": router_datapath("r1", nb_uuid="nb-second"),
    }
    world.show_ovn()
    world.ask_flush(12)
    assert world.flushed == [12, 13]
    assert world.holds[-1] == (12, "shared_zone")


def test_keys_that_change_generation_with_the_same_numbers_are_nothing() -> None:
    world = always()
    world.routers["r1"] = router_datapath("r1", uuid="2f6a")
    world.show_ovn()
    world.keys = {"2f6a_dnat": "12", "2f6a_snat": "13"}
    world.show_map()
    world.finish_all_flushes()
    world.keys = {"r1_dnat": "12", "r1_snat": "13"}
    world.show_map()
    assert world.flushed == [12, 13]


def test_a_renumbered_router_is_reported_and_by_default_left_alone() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.finish_all_flushes()
    world.keys = {"r1_dnat": "22", "r1_snat": "13"}
    world.show_map()
    assert world.flushed == [12, 13]
    assert world.changes[-1] == ("r1", "renumbered")


def test_a_router_that_becomes_local_without_being_created_is_left_alone() -> None:
    world = World(ALWAYS)
    world.routers["r1"] = router_datapath("r1")
    world.start()
    world.keys = {"r1_dnat": "12", "r1_snat": "13"}
    world.show_map()
    assert world.flushed == []
    assert world.changes == [("r1", "arrived")]


def test_a_router_without_zones_is_pending_until_they_appear() -> None:
    world = always()
    world.routers["r1"] = router_datapath("r1")
    world.show_ovn()
    assert world.planner.pending_routers == 1
    world.pass_time(600)
    world.keys = {"r1_dnat": "12", "r1_snat": "13"}
    world.show_map()
    world.finish_all_flushes()
    assert world.flushed == [12, 13]
    assert world.planner.pending_routers == 0


def test_zone_zero_is_never_flushed() -> None:
    world = always()
    world.create_router("r1", 12, 0)
    world.finish_all_flushes()
    assert world.flushed == [12]


@pytest.mark.parametrize("other", ["r0_snat", "some-port"])
def test_a_zone_with_two_keys_is_never_flushed(other: str) -> None:
    world = World(ALWAYS)
    world.routers["r0"] = router_datapath("r0")
    world.keys = {other: "12"}
    world.start()
    world.create_router("r1", 12, 13)
    world.finish_all_flushes()
    assert world.flushed == [13]
    world.ask_flush(12)
    assert world.holds[-1] == (12, "shared_zone")


def test_a_router_that_shares_its_name_with_a_switch_is_never_flushed() -> None:
    world = World(ALWAYS)
    world.switches["net"] = switch_datapath("net")
    world.start()
    world.create_router("net", 12, 13)
    assert world.flushed == []
    world.ask_flush(routers=("net",))
    assert world.holds[-1] == (None, "unowned_zone")


def test_one_flush_is_out_at_a_time() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.create_router("r2", 14, 15)
    world.pass_time(1)
    assert world.flushed == [12]
    assert world.finish_all_flushes() == 4


def test_over_budget_waits_and_is_reported_once() -> None:
    world = World(dataclasses.replace(ALWAYS, budget_per_minute=1, max_lateness_s=120)).start()
    world.create_router("r1", 12, 13)
    world.finish_flush()
    world.pass_time(1)
    world.pass_time(1)
    assert world.flushed == [12]
    assert world.holds == [(13, "over_budget")]
    assert len(world.planner.held_since()) == 1
    world.pass_time(60)
    assert world.flushed == [12, 13]
    assert world.planner.held_since() == ()


def test_a_mass_change_puts_the_brake_on_and_five_stable_minutes_release_it() -> None:
    world = World(dataclasses.replace(ALWAYS, mass_change=10, max_lateness_s=3600)).start()
    for number in range(6):
        world.create_router(f"r{number}", 2 * number + 1, 2 * number + 2)
    world.finish_all_flushes()
    assert world.planner.is_braked(world.now)
    held = len(world.planner.held_since())
    assert held
    world.pass_time(301)
    assert not world.planner.is_braked(world.now)
    world.finish_all_flushes()
    assert len(world.flushed) == 12


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (PauseChanged(is_paused=True), "paused"),
        (FlusherLockChanged(is_held=False), "not_the_flusher"),
        (DaemonSeen(DaemonView(Daemon.OVN_CONTROLLER, is_up=False)), "ovn_controller_down"),
        (PolicyChanged(dataclasses.replace(ALWAYS, switch=Switch.OBSERVE)), "observe"),
        (PolicyChanged(dataclasses.replace(ALWAYS, switch=Switch.DRY_RUN)), "dry_run"),
        (PolicyChanged(dataclasses.replace(ALWAYS, exclude_routers=frozenset({"r1"}))), "excluded_router"),
        (Probed((Probe(Capability.SAME_NETWORK_NAMESPACE, is_supported=False, why=""),)), "wrong_namespace"),
        (Probed((Probe(Capability.SAME_NETWORK_NAMESPACE, is_supported=None, why=""),)), "namespace_unknown"),
        (Probed((Probe(Capability.CONNTRACK, is_supported=False, why=""),)), "conntrack_unavailable"),
    ],
)
def test_what_forbids_a_flush_is_named(event: object, reason: str) -> None:
    world = always()
    world.tell(event)  # type: ignore[arg-type]
    world.create_router("r1", 12, 13)
    assert world.flushed == []
    assert world.holds == [(12, reason), (13, reason)]


def test_a_userspace_datapath_is_never_flushed_through_the_kernel() -> None:
    world = World(ALWAYS, datapath_type=DatapathType.USERSPACE).start()
    world.create_router("r1", 12, 13)
    assert world.holds == [(12, "userspace_datapath"), (13, "userspace_datapath")]


def test_a_lost_local_database_holds_until_it_is_back() -> None:
    world = always()
    world.routers["r1"] = router_datapath("r1")
    world.show_ovn()
    world.keys |= {"r1_dnat": "12", "r1_snat": "13"}
    world.planner.facts.is_paused = True
    world.show_map()
    world.tell(DatabaseLost(OvnDatabase.LOCAL, "gone"))
    world.tell(PauseChanged(is_paused=False))
    assert world.flushed == []
    assert world.holds[-1][1] == "map_not_fresh"


def test_a_resumed_pause_lets_a_flush_that_is_still_timely_go() -> None:
    world = always()
    world.tell(PauseChanged(is_paused=True))
    world.create_router("r1", 12, 13)
    world.pass_time(1)
    world.tell(PauseChanged(is_paused=False))
    assert world.finish_all_flushes() == 2


def test_a_failed_flush_is_not_tried_again() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    zone = flushable_zone_id(12)
    world.finish_flush(FlushFailure(zone, FailureReason.PERMISSION, "EPERM"))
    world.finish_all_flushes()
    world.pass_time(1)
    world.count({})
    assert world.flushed == [12, 13]
    assert [v[3] for v in world.verdicts] == ["failed", "done"]


def test_a_transient_refusal_right_before_sending_is_tried_again_after_a_moment() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.finish_flush(FlushRefusal(flushable_zone_id(12), Reason.MAP_NOT_FRESH, "slow"))
    assert world.flushed == [12, 13]
    world.finish_flush()
    assert world.flushed == [12, 13]
    world.pass_time(0.25)
    assert world.flushed == [12, 13, 12]


def test_a_refusal_costs_no_budget() -> None:
    world = World(dataclasses.replace(ALWAYS, budget_per_minute=2)).start()
    world.create_router("r1", 12, 13)
    world.finish_flush(FlushRefusal(flushable_zone_id(12), Reason.OWNER_CHANGED, "gone"))
    world.finish_flush()
    world.create_router("r2", 14, 15)
    assert world.flushed == [12, 13, 14]


def test_a_final_refusal_right_before_sending_settles_the_assignment() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.finish_flush(FlushRefusal(flushable_zone_id(12), Reason.OWNER_CHANGED, "gone"))
    world.finish_all_flushes()
    world.pass_time(1)
    world.count({})
    assert world.flushed == [12, 13]
    assert [v[3] for v in world.verdicts] == ["held", "done"]


def test_a_router_deleted_before_its_verdict_still_gets_exactly_one() -> None:
    world = World().start()
    world.create_router("r1", 12, 13)
    world.delete_router("r1")
    world.pass_time(1)
    world.count({})
    world.count({})
    assert len(world.verdicts) == 2


def test_a_manual_flush_names_zones_or_a_router() -> None:
    world = World().start()
    world.create_router("r1", 12, 13)
    world.ask_flush(routers=("r1",))
    world.finish_all_flushes()
    assert world.flushed == [12, 13]
    assert {o.request_id for o in world.orders} == {7}


def test_a_manual_dry_run_sends_nothing_and_says_what_would_go() -> None:
    world = World().start()
    world.create_router("r1", 12, 13)
    world.ask_flush(12, dry_run=True)
    assert world.flushed == []
    assert world.holds == [(12, "dry_run")]


@pytest.mark.parametrize(
    ("ranges", "zone", "reason"),
    [((), 99, "unowned_zone"), (((100, 200),), 99, "foreign_zone"), (((1, 200),), 99, "unowned_zone")],
)
def test_a_manual_flush_of_a_zone_that_no_key_assigns_is_refused(
    ranges: tuple[tuple[int, int], ...], zone: int, reason: str
) -> None:
    world = World(zone_ranges=ranges).start()
    world.ask_flush(zone)
    assert world.holds == [(zone, reason)]


def test_a_manual_flush_is_not_stopped_by_the_brake_or_a_dead_controller() -> None:
    world = World(dataclasses.replace(ALWAYS, mass_change=1)).start()
    world.create_router("r1", 12, 13)
    world.tell(DaemonSeen(DaemonView(Daemon.OVN_CONTROLLER, is_up=False)))
    world.actions.clear()
    world.ask_flush(12)
    assert world.flushed == [12]


def test_a_manual_request_cannot_spend_more_than_the_budget() -> None:
    world = World(dataclasses.replace(ALWAYS, budget_per_minute=3)).start()
    world.keys = {f"port-{zone}": str(zone) for zone in range(20, 30)}
    world.show_map()
    world.ask_flush(*range(20, 30))
    assert world.finish_all_flushes() == 3
    assert world.holds == [(zone, "over_budget") for zone in range(23, 30)]


def test_what_waits_for_a_manual_request_counts_against_the_budget_of_automatic_flushes() -> None:
    world = World(dataclasses.replace(ALWAYS, budget_per_minute=2, max_lateness_s=600)).start()
    world.keys = {"port-20": "20", "port-21": "21"}
    world.show_map()
    world.ask_flush(20, 21)
    world.create_router("r1", 12, 13)
    world.finish_all_flushes()
    assert world.flushed == [20, 21]
    world.pass_time(61)
    world.finish_all_flushes()
    assert world.flushed == [20, 21, 12, 13]


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.VERIFY])
def test_a_mode_that_is_tightened_stops_flushes_that_have_not_been_ordered_yet(mode: Mode) -> None:
    world = always()
    world.tell(PauseChanged(is_paused=True))
    world.create_router("r1", 12, 13)
    world.tell(PolicyChanged(policy(router_created=mode)))
    world.tell(PauseChanged(is_paused=False))
    world.pass_time(0.1)
    world.count({})
    assert world.flushed == []
    assert world.verdicts == [("r1", 12, "empty", "off"), ("r1", 13, "empty", "off")]


def test_an_order_that_is_refused_again_and_again_is_reported_once() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.finish_all_flushes()
    world.create_router("r2", 14, 15)
    for _ in range(10):
        if world.planner.in_flight is not None:
            zone = world.planner.in_flight.zone
            world.finish_flush(FlushRefusal(zone, Reason.MAP_NOT_FRESH, "slow"))
        world.pass_time(0.25)
    assert sorted(world.holds) == [(14, "map_not_fresh"), (15, "map_not_fresh")]


def test_two_zones_of_a_router_that_change_places_are_both_renumbered() -> None:
    world = World(policy(renumbered=Mode.ALWAYS)).start()
    world.create_router("r1", 12, 13)
    world.pass_time(0.1)
    world.count({})
    world.keys = {"r1_dnat": "13", "r1_snat": "12"}
    world.show_map()
    world.finish_all_flushes()
    assert sorted(world.flushed) == [12, 13]
    assert world.changes[-1] == ("r1", "renumbered")


def test_giving_many_verdicts_compares_no_assignment_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(dataclasses.replace(policy(), mass_change=10_000)).start()
    for number in range(100):
        world.routers[f"r{number}"] = router_datapath(f"r{number}")
        world.keys |= {f"r{number}_dnat": str(2 * number + 1), f"r{number}_snat": str(2 * number + 2)}
    world.show_ovn()
    world.show_map()
    world.pass_time(0.1)
    monkeypatch.setattr(Watch, "__eq__", lambda *both: pytest.fail("quadratic"))
    world.count({})
    assert len(world.verdicts) == 200


def sighted(zone: int, number: int, expires_s: float) -> Sighting:
    return Sighting(ZoneId(zone), 2, b"tuple%d" % number, number, expires_s, None)


def haunted(world: World, *, entries: int = 3) -> tuple[Sighting, ...]:
    """Zone 12 has no owner and holds idle entries, seen by a pass well before a router gets it."""
    old = tuple(sighted(12, number, 9000.0) for number in range(entries))
    world.count({12: entries})
    world.pass_time(1)
    world.count({12: entries}, sightings=old)
    world.pass_time(20)
    world.show_ovn()
    world.show_map()
    return old


def test_entries_of_a_former_owner_are_found_deleted_one_by_one_and_told_in_the_verdict() -> None:
    world = World().start()
    old = haunted(world)
    world.pass_time(1)
    world.create_router("r1", 12, 13)
    world.pass_time(0.1)
    young = sighted(12, 99, 4000.0)
    (action,) = [a for a in world.count({12: 4}, sightings=(*old, young)) if isinstance(a, DeleteEntries)]
    assert action.entries == old
    assert action.order.key == "r1_dnat"
    world.finish_flush(FlushResult(flushable_zone_id(12), Strategy.ENTRY_DELETE, 0.001, 3))
    assert world.verdicts == [("r1", 12, "stale", "done"), ("r1", 13, "empty", "not-needed")]
    assert world.flushed == []


def test_stale_entries_stay_visible_until_a_pass_shows_that_they_are_gone() -> None:
    world = World().start()
    old = haunted(world)
    world.create_router("r1", 12, 13)
    world.pass_time(0.1)
    world.count({12: 3}, sightings=old)
    world.finish_flush(FlushResult(flushable_zone_id(12), Strategy.ENTRY_DELETE, 0.001, 2))
    assert world.planner.stale_entries == {12: 3}
    world.pass_time(1)
    world.count({12: 1}, sightings=old[:1])
    assert world.planner.stale_entries == {12: 1}
    assert world.planner.in_flight is None, "one attempt per assignment"
    world.pass_time(1)
    world.count({})
    assert world.planner.stale_entries == {}


@pytest.mark.parametrize("switch", [Switch.OBSERVE, Switch.DRY_RUN])
def test_where_nothing_may_be_deleted_stale_entries_are_reported_and_held(switch: Switch) -> None:
    world = World(dataclasses.replace(FlushPolicy(), switch=switch)).start()
    old = haunted(world)
    world.create_router("r1", 12, 13)
    world.pass_time(0.1)
    world.count({12: 3}, sightings=old)
    assert world.holds == [(12, switch.value)]
    assert world.verdicts[0] == ("r1", 12, "stale", "held")
    assert world.planner.stale_entries == {12: 3}


def test_a_repair_may_wait_longer_than_a_flush_because_it_cannot_cut_what_is_new() -> None:
    world = World().start()
    old = haunted(world)
    world.tell(PauseChanged(is_paused=True))
    world.create_router("r1", 12, 13)
    world.pass_time(0.1)
    world.count({12: 3}, sightings=old)
    world.pass_time(60)
    assert world.verdicts == []
    resumed = world.tell(PauseChanged(is_paused=False))
    assert [type(a) for a in resumed] == [DeleteEntries]


def test_a_repair_held_for_a_quarter_of_an_hour_is_given_up_visibly() -> None:
    world = World().start()
    old = haunted(world)
    world.tell(PauseChanged(is_paused=True))
    world.create_router("r1", 12, 13)
    world.pass_time(0.1)
    world.count({12: 3}, sightings=old)
    world.pass_time(901)
    assert world.verdicts[0] == ("r1", 12, "stale", "held")


def test_entries_of_a_router_seen_only_after_a_reconnect_are_not_judged() -> None:
    world = World().start()
    old = haunted(world)
    world.routers["r1"] = router_datapath("r1")
    world.keys |= {"r1_dnat": "12", "r1_snat": "13"}
    world.local_session += 1
    world.show_map()
    world.show_ovn()
    world.pass_time(0.1)
    world.count({12: 3}, sightings=old)
    assert world.verdicts[0] == ("r1", 12, "unverified", "not-needed")


def test_a_pass_that_began_before_it_was_told_what_to_keep_is_asked_for_again() -> None:
    world = World().start()
    world.create_router("r1", 12, 13)
    world.pass_time(0.1)
    again = world.count({12: 3}, kept=frozenset())
    assert [type(a) for a in again] == [CountNow]
    assert world.verdicts == []
    world.pass_time(0.1)
    world.count({12: 3}, sightings=tuple(sighted(12, n, 9000.0) for n in range(3)))
    assert len(world.verdicts) == 2


@pytest.mark.parametrize("has_reconnected", [True, False])
def test_a_number_that_was_handed_over_while_nobody_looked_is_not_flushed(has_reconnected: bool) -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.create_router("r2", 14, 15)
    world.finish_all_flushes()
    world.pass_time(1)
    world.count({})
    world.actions.clear()
    world.time_s += 600
    if has_reconnected:
        world.local_session += 1
    del world.routers["r1"]
    world.keys = {"r2_dnat": "12", "r2_snat": "13"}
    world.show_map()
    world.show_ovn()
    world.pass_time(1)
    assert world.flushed == []


def test_the_end_of_a_conflict_is_no_new_assignment() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.finish_all_flushes()
    world.keys["guest"] = "12"
    world.show_map()
    world.pass_time(600)
    del world.keys["guest"]
    world.show_map()
    world.pass_time(1)
    assert world.flushed == [12, 13]


def test_routers_are_excluded_by_name_alias_or_identity() -> None:
    for name in ("r1", "friendly", "nb-r1"):
        world = World(dataclasses.replace(ALWAYS, exclude_routers=frozenset({name}))).start()
        world.routers["r1"] = router_datapath("r1", alias="friendly")
        world.show_ovn()
        world.keys |= {"r1_dnat": "12", "r1_snat": "13"}
        world.show_map()
        assert world.holds == [(12, "excluded_router"), (13, "excluded_router")]
