"""Playbooks for zones that lost their router."""

from __future__ import annotations

import dataclasses

import pytest

from ctctl.decide.planner import Planner
from ctctl.model.daemon import Daemon, DaemonView
from ctctl.model.events import DaemonSeen, PauseChanged, PolicyChanged
from ctctl.model.flush import FailureReason, FlushFailure, FlushRefusal, Mode, Reason, Switch, Trigger
from ctctl.model.ids import flushable_zone_id
from ctctl.model.policy import FlushPolicy
from tests.decide.world import World, policy, router_datapath


def removed(world: World) -> World:
    """Router r1 had zones 12 and 13, and is gone."""
    world.create_router("r1", 12, 13)
    world.pass_time(0.1)
    world.count({})
    world.delete_router("r1")
    world.actions.clear()
    return world


def passes(world: World, entries: dict[int, int], number: int = 2) -> None:
    for _ in range(number):
        world.pass_time(15)
        world.count(entries)


def test_entries_that_a_removed_router_left_behind_go_after_grace_time_and_two_passes() -> None:
    world = removed(World().start())
    world.count({12: 5})
    passes(world, {12: 5}, 2)
    assert world.flushed == []
    passes(world, {12: 5}, 1)
    assert world.flushed == [12]
    (order,) = world.orders
    assert (order.trigger, order.owner, order.key) == (Trigger.ROUTER_REMOVED, "r1", None)
    world.finish_flush()
    passes(world, {12: 5}, 5)
    assert world.flushed == [12], "one attempt"


def test_a_zone_that_is_empty_after_the_grace_time_needs_nothing() -> None:
    world = removed(World().start())
    world.pass_time(31)
    world.count({})
    passes(world, {12: 5}, 5)
    assert (world.flushed, world.holds) == ([], [])


def test_a_zone_without_owner_since_before_the_agent_started_is_never_touched() -> None:
    world = World().start()
    passes(world, {12: 5}, 10)
    assert (world.flushed, world.holds) == ([], [])


def test_a_zone_that_gets_an_owner_meanwhile_is_left_to_it() -> None:
    world = removed(World().start())
    world.pass_time(20)
    world.keys["some-port"] = "12"
    world.show_map()
    passes(world, {12: 5}, 5)
    assert world.flushed == []


def test_the_time_runs_anew_after_a_reconnect_of_the_local_database() -> None:
    world = removed(World().start())
    passes(world, {12: 5}, 2)
    world.local_session += 1
    world.show_map()
    passes(world, {12: 5}, 2)
    assert world.flushed == []
    passes(world, {12: 5}, 2)
    assert world.flushed == [12]


def test_the_time_runs_from_the_keys_end_not_from_the_routers() -> None:
    world = World().start()
    world.create_router("r1", 12, 13)
    world.pass_time(0.1)
    world.count({})
    del world.routers["r1"]
    world.show_ovn()
    passes(world, {12: 5}, 5)
    assert world.flushed == []
    world.keys.clear()
    world.show_map()
    passes(world, {12: 5}, 3)
    assert world.flushed == [12]


def test_a_rebuilt_database_makes_no_orphans() -> None:
    world = World().start()
    world.create_router("r1", 12, 13)
    world.pass_time(0.1)
    world.count({})
    world.ovn_session += 1
    world.routers = {}
    world.show_ovn()
    passes(world, {12: 5}, 3)
    world.routers = {"r1": router_datapath("r1", nb_uuid="rebuilt")}
    world.show_ovn()
    passes(world, {12: 5}, 5)
    assert world.flushed == []


@pytest.mark.parametrize("mode", [Mode.VERIFY, Mode.ALWAYS])
def test_verify_and_always_come_to_the_same(mode: Mode) -> None:
    world = removed(World(policy(router_removed=mode)).start())
    passes(world, {12: 5}, 3)
    assert world.flushed == [12]


def test_off_is_off() -> None:
    world = removed(World(policy(router_removed=Mode.OFF)).start())
    passes(world, {12: 5}, 5)
    assert world.flushed == []


def test_in_observe_it_is_held_for_good_and_said_once() -> None:
    world = removed(World().start())
    world.tell(PolicyChanged(dataclasses.replace(world.policy, switch=Switch.OBSERVE)))
    passes(world, {12: 5}, 5)
    assert world.holds == [(12, "observe")]


def test_paused_it_waits() -> None:
    world = removed(World().start())
    world.tell(PauseChanged(is_paused=True))
    passes(world, {12: 5}, 5)
    assert world.holds == [(12, "paused")]
    world.tell(PauseChanged(is_paused=False))
    world.pass_time(1)
    assert world.flushed == [12]


def test_what_ovn_controller_says_right_before_sending_is_final() -> None:
    world = removed(World().start())
    passes(world, {12: 5}, 3)
    world.finish_flush(FlushRefusal(flushable_zone_id(12), Reason.CANNOT_CONFIRM, "no answer"))
    passes(world, {12: 5}, 5)
    assert world.flushed == [12]
    assert world.holds == [(12, "cannot_confirm")]


def test_a_failed_flush_is_not_repeated() -> None:
    world = removed(World().start())
    passes(world, {12: 5}, 3)
    world.finish_flush(FlushFailure(flushable_zone_id(12), FailureReason.PERMISSION, "EPERM"))
    passes(world, {12: 5}, 5)
    assert world.flushed == [12]


def test_losing_many_zones_at_once_puts_the_brake_on() -> None:
    world = World(dataclasses.replace(FlushPolicy(), mass_change=7)).start()
    for number in range(4):
        world.create_router(f"r{number}", 2 * number + 1, 2 * number + 2)
        world.pass_time(61)
        world.count({})
    assert not world.planner.is_braked(world.now)
    world.routers.clear()
    world.keys.clear()
    world.show_ovn()
    world.show_map()
    assert world.planner.is_braked(world.now)


def test_a_restarted_agent_knows_no_orphans() -> None:
    world = removed(World().start())
    world.planner = Planner(world.policy)
    world.start()
    passes(world, {12: 5}, 5)
    assert world.flushed == []


def test_a_controller_that_is_down_when_it_is_due_only_delays_it() -> None:
    world = removed(World().start())
    world.tell(DaemonSeen(DaemonView(Daemon.OVN_CONTROLLER, is_up=False)))
    passes(world, {12: 5}, 10)
    assert world.holds == [(12, "ovn_controller_down")]
    world.tell(DaemonSeen(DaemonView(Daemon.OVN_CONTROLLER, is_up=True)))
    world.pass_time(1)
    assert world.flushed == [12]
