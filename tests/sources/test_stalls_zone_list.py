"""Promises of the zone list source: it asks while a router is being set up, and never otherwise."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from ctctl.clients import clock
from ctctl.model.events import Event, ZonesListed
from ctctl.sources.zone_list import ZoneListSource
from tests.clients.unixctl_daemon import TurningDaemon
from tests.lab.daemon import wait_until

TIMEOUT_S = 10.0


@pytest.fixture
def reported() -> SimpleQueue[Event]:
    return SimpleQueue()


@pytest.fixture
def source(tmp_path: Path, reported: SimpleQueue[Event]) -> Iterator[ZoneListSource]:
    made = ZoneListSource(tmp_path, reported.put, clock.now)
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.stop()
    thread.join(timeout=2)
    assert not thread.is_alive()


def test_while_it_watches_it_reports_the_list_as_it_changes(
    tmp_path: Path, source: ZoneListSource, reported: SimpleQueue[Event]
) -> None:
    with TurningDaemon(tmp_path, "ovn-controller", replies={"ct-zone-list": "p1 1\n"}) as daemon:
        source.watch(is_wanted=True)
        first = reported.get(timeout=TIMEOUT_S)
        assert isinstance(first, ZonesListed)
        assert first.zones == {"p1": 1}
        daemon.replies["ct-zone-list"] = "p1 1\nr1_dnat 2\n"
        event = first
        while event.zones != {"p1": 1, "r1_dnat": 2}:
            later = reported.get(timeout=TIMEOUT_S)
            assert isinstance(later, ZonesListed)
            event = later
        assert daemon.accepted == 1


def test_it_asks_nothing_before_and_stops_asking_after(
    tmp_path: Path, source: ZoneListSource, reported: SimpleQueue[Event]
) -> None:
    with TurningDaemon(tmp_path, "ovn-controller", replies={"ct-zone-list": ""}) as daemon:
        assert source._connection is None
        source.watch(is_wanted=True)
        reported.get(timeout=TIMEOUT_S)
        source.watch(is_wanted=False)
        wait_until(lambda: source._connection is None, "the connection to be closed")
        assert daemon.accepted == 1


def test_a_missing_controller_is_waited_for(
    tmp_path: Path, source: ZoneListSource, reported: SimpleQueue[Event]
) -> None:
    source.watch(is_wanted=True)
    with TurningDaemon(tmp_path, "ovn-controller", replies={"ct-zone-list": "p 9\n"}):
        event = reported.get(timeout=TIMEOUT_S)
        assert isinstance(event, ZonesListed)
        assert event.zones == {"p": 9}


def test_a_controller_without_the_command_is_asked_once(tmp_path: Path, source: ZoneListSource) -> None:
    with TurningDaemon(tmp_path, "ovn-controller") as daemon:
        source.watch(is_wanted=True)
        wait_until(lambda: len(daemon.requests) == 1, "the question")
        wait_until(lambda: not source._is_watching and source._connection is None, "it to give up")
        assert len(daemon.requests) == 1
