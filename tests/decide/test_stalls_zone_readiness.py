"""Promises of the time from a zone's number to its key."""

from __future__ import annotations

from ctctl.decide.zone_readiness import ZoneReadiness
from ctctl.model.actions import ReportRouter, RouterChange
from ctctl.model.events import LocalViewRead, ZonesListed
from ctctl.model.ids import RouterId, ZoneId
from ctctl.model.instant import Instant
from ctctl.model.ovs import BridgeView, DatapathType, LocalView


def at(seconds: float) -> Instant:
    return Instant(1000.0 + seconds, 2000.0 + seconds)


def keys(seconds: float, **zones: int) -> LocalViewRead:
    bridge = BridgeView("br-int", DatapathType.KERNEL, {owner: str(zone) for owner, zone in zones.items()})
    return LocalViewRead(LocalView(confirmed=at(seconds), session=1, bridges=(bridge,)))


def listed(seconds: float, **zones: int) -> ZonesListed:
    return ZonesListed({owner: ZoneId(zone) for owner, zone in zones.items()}, at(seconds))


def ready(seconds: float, *zones: int) -> ReportRouter:
    numbers = tuple(ZoneId(zone) for zone in zones)
    return ReportRouter(RouterId("uuid"), "r1", RouterChange.READY, numbers, at(seconds))


def test_a_router_waits_from_the_first_of_its_numbers_to_its_keys() -> None:
    readiness = ZoneReadiness()
    readiness.handle(keys(0, p=1), [])
    readiness.handle(listed(1.0, p=1, r1_dnat=2), [])
    readiness.handle(listed(1.1, p=1, r1_dnat=2, r1_snat=3), [])
    readiness.handle(keys(12.0, p=1, r1_dnat=2, r1_snat=3), [ready(12.0, 2, 3)])
    assert readiness.seconds.count == 1
    assert readiness.seconds.total_s == 11.0


def test_keys_that_were_there_before_the_list_was_asked_say_nothing() -> None:
    readiness = ZoneReadiness()
    readiness.handle(keys(0, r1_dnat=2, r1_snat=3), [])
    readiness.handle(listed(1.0, r1_dnat=2, r1_snat=3), [])
    readiness.handle(keys(2.0, r1_dnat=2, r1_snat=3), [ready(2.0, 2, 3)])
    assert readiness.seconds.count == 0


def test_a_list_without_a_map_to_compare_it_with_says_nothing() -> None:
    readiness = ZoneReadiness()
    readiness.handle(listed(1.0, r1_dnat=2), [])
    readiness.handle(keys(2.0, r1_dnat=2), [ready(2.0, 2)])
    assert readiness.seconds.count == 0


def test_a_number_that_was_given_up_is_forgotten() -> None:
    readiness = ZoneReadiness()
    readiness.handle(keys(0), [])
    readiness.handle(listed(1.0, r1_dnat=2), [])
    readiness.handle(listed(2.0), [])
    readiness.handle(listed(3.0, r1_dnat=2), [])
    readiness.handle(keys(5.0, r1_dnat=2), [ready(5.0, 2)])
    assert readiness.seconds.total_s == 2.0


def test_another_routers_numbers_are_not_taken_for_this_ones() -> None:
    readiness = ZoneReadiness()
    readiness.handle(keys(0), [])
    readiness.handle(listed(1.0, r2_dnat=7), [])
    readiness.handle(keys(5.0, r1_dnat=2), [ready(5.0, 2)])
    assert readiness.seconds.count == 0
