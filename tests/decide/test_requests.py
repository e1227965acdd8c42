"""Playbooks for the requests file."""

from __future__ import annotations

import dataclasses
from ipaddress import ip_address

import pytest

from ctctl.decide.planner import Planner
from ctctl.model.actions import CloseRequest
from ctctl.model.capability import Capability, Probe
from ctctl.model.daemon import Daemon, DaemonView
from ctctl.model.events import DaemonSeen, Event, FlusherLockChanged, PauseChanged, PolicyChanged, Probed, RequestsRead
from ctctl.model.flush import FlushRefusal, Mode, Reason, Switch
from ctctl.model.ids import flushable_zone_id
from ctctl.model.policy import FlushPolicy
from ctctl.model.request import FlushRequest
from tests.decide.world import World, policy


def request(
    world: World,
    name: str = "one",
    *,
    routers: tuple[str, ...] = ("r1",),
    zones: tuple[int, ...] = (),
    left_s: float = 600,
) -> FlushRequest:
    numbers = tuple(flushable_zone_id(zone) for zone in zones)
    return FlushRequest(name, routers, numbers, None, world.now.wall_s + left_s)


def started() -> World:
    world = World().start()
    world.create_router("r1", 12, 13)
    world.pass_time(0.1)
    world.count({})
    world.actions.clear()
    return world


def closed(world: World) -> list[tuple[str, bool]]:
    return [(a.name, a.is_expired) for a in world.actions if isinstance(a, CloseRequest)]


def test_a_request_for_a_router_flushes_its_zones_once_however_often_the_file_is_read() -> None:
    world = started()
    asked = request(world)
    for _ in range(3):
        world.tell(RequestsRead((asked,)))
        world.finish_all_flushes()
    assert world.flushed == [12, 13]
    assert {order.request for order in world.orders} == {"one"}
    assert closed(world) == [("one", False)]


def test_a_request_that_an_earlier_life_of_this_node_carried_out_is_not_repeated() -> None:
    world = World()
    world.planner = Planner(world.policy, frozenset({"one"}))
    world.start()
    world.create_router("r1", 12, 13)
    world.tell(RequestsRead((request(world),)))
    assert world.flushed == []


def test_a_request_waits_for_a_router_that_is_not_here_yet() -> None:
    world = World().start()
    world.tell(RequestsRead((request(world),)))
    world.pass_time(60)
    assert closed(world) == []
    world.create_router("r1", 12, 13)
    assert world.finish_all_flushes() == 2


def test_a_request_whose_time_ran_out_is_closed_and_nothing_is_sent() -> None:
    world = started()
    world.tell(PauseChanged(is_paused=True))
    world.tell(RequestsRead((request(world, left_s=5),)))
    world.pass_time(6)
    world.tell(PauseChanged(is_paused=False))
    assert world.flushed == []
    assert closed(world) == [("one", True)]


def test_a_held_request_says_so_once_and_is_carried_out_when_it_may_be() -> None:
    world = started()
    world.tell(DaemonSeen(DaemonView(Daemon.OVN_CONTROLLER, is_up=True)))
    world.tell(PauseChanged(is_paused=True))
    world.tell(RequestsRead((request(world),)))
    for _ in range(5):
        world.pass_time(1)
    assert world.holds == [(12, "paused"), (13, "paused")]
    world.tell(PauseChanged(is_paused=False))
    assert world.finish_all_flushes() == 2


def test_a_zone_that_is_refused_for_good_does_not_keep_the_others() -> None:
    world = started()
    world.tell(RequestsRead((request(world, routers=(), zones=(12, 99)),)))
    world.finish_all_flushes()
    assert world.flushed == [12]
    assert world.holds == [(99, "unowned_zone")]


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.VERIFY])
def test_only_mode_always_acts_on_requests(mode: Mode) -> None:
    world = started()
    world.tell(PolicyChanged(policy(requested=mode)))
    world.tell(RequestsRead((request(world),)))
    world.pass_time(1)
    assert world.flushed == []


def test_in_observe_a_request_is_held_for_good_and_named() -> None:
    world = started()
    world.tell(PolicyChanged(dataclasses.replace(world.policy, switch=Switch.OBSERVE)))
    world.tell(RequestsRead((request(world),)))
    assert world.flushed == []
    assert world.holds == [(12, "observe"), (13, "observe")]


def test_an_order_that_was_refused_for_the_moment_right_before_sending_is_tried_again() -> None:
    world = started()
    world.tell(RequestsRead((request(world),)))
    world.finish_flush(FlushRefusal(flushable_zone_id(12), Reason.MAP_NOT_FRESH, "slow"))
    world.finish_all_flushes()
    assert world.flushed == [12, 13]
    world.pass_time(1.1)
    world.finish_all_flushes()
    assert world.flushed == [12, 13, 12]


def test_an_address_reaches_the_order() -> None:
    world = started()
    asked = dataclasses.replace(request(world), address=ip_address("10.0.0.5"))
    world.tell(RequestsRead((asked,)))
    assert {str(order.address) for order in world.orders} == {"10.0.0.5"}


def test_nobody_is_called_nothing() -> None:
    world = started()
    world.tell(RequestsRead((request(world, routers=("",)),)))
    world.ask_flush(routers=("",))
    world.pass_time(1)
    assert world.flushed == []


def test_a_pause_in_the_middle_of_a_request_is_said_once_per_zone_and_waited_out() -> None:
    world = World(dataclasses.replace(FlushPolicy(), budget_per_minute=1000)).start()
    world.create_router("r1", 12, 13)
    world.create_router("r2", 14, 15)
    world.pass_time(0.1)
    world.count({})
    world.actions.clear()
    world.tell(RequestsRead((request(world, routers=("r1", "r2")),)))
    world.tell(PauseChanged(is_paused=True))
    world.finish_flush()
    for _ in range(100):
        world.pass_time(0.2)
    assert world.flushed == [12]
    assert sorted(world.holds) == [(13, "paused"), (14, "paused"), (15, "paused")]
    world.tell(PauseChanged(is_paused=False))
    for _ in range(10):
        world.pass_time(1)
        world.finish_all_flushes()
    assert sorted(world.flushed) == [12, 13, 14, 15]


def test_what_is_void_while_it_waits_is_not_sent() -> None:
    world = started()
    world.tell(RequestsRead((request(world, left_s=5),)))
    world.tell(PauseChanged(is_paused=True))
    world.finish_flush()
    for _ in range(20):
        world.pass_time(1)
    world.tell(PauseChanged(is_paused=False))
    world.pass_time(5)
    assert world.flushed == [12]
    assert world.holds == [(13, "paused"), (13, "too_late")]


def test_a_request_keeps_to_the_budget() -> None:
    world = World(dataclasses.replace(FlushPolicy(), budget_per_minute=3)).start()
    for number in range(4):
        world.create_router(f"r{number}", 10 + 2 * number, 11 + 2 * number)
    world.pass_time(61)
    world.count({})
    world.actions.clear()
    world.tell(RequestsRead((request(world, routers=("r0", "r1", "r2", "r3")),)))
    for _ in range(20):
        world.finish_all_flushes()
        world.pass_time(1)
    assert len(world.flushed) == 3
    for _ in range(300):
        world.finish_all_flushes()
        world.pass_time(1)
    assert sorted(world.flushed) == list(range(10, 18))


@pytest.mark.parametrize(
    "event",
    [
        DaemonSeen(DaemonView(Daemon.OVN_CONTROLLER, is_up=False)),
        Probed((Probe(Capability.SAME_NETWORK_NAMESPACE, is_supported=None, why=""),)),
        FlusherLockChanged(is_held=False),
    ],
)
def test_a_request_outlives_what_passes_by_itself(event: Event) -> None:
    world = started()
    world.tell(event)
    world.tell(RequestsRead((request(world),)))
    world.pass_time(5)
    assert closed(world) == []
    world.tell(DaemonSeen(DaemonView(Daemon.OVN_CONTROLLER, is_up=True)))
    world.tell(Probed((Probe(Capability.SAME_NETWORK_NAMESPACE, is_supported=True, why=""),)))
    world.tell(FlusherLockChanged(is_held=True))
    world.pass_time(1)
    assert world.finish_all_flushes() == 2
