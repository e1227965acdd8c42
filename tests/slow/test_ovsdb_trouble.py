"""Half a minute of each kind of lasting trouble with the local database: what it costs, and what it logs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from ctctl.clients import ovsdb_idl
from ctctl.clients.clock import now
from ctctl.clients.ovsdb_follower import CPU_RATIO
from ctctl.model.events import DatabaseConfirmed, DatabaseLost, Event
from ctctl.sources.local_ovsdb import LocalOvsdbSource, OvsSettings
from tests.clients.fake_ovsdb_server import HANG_UP, SILENCE, FakeOvsdbServer, Peer, well_behaved

pytestmark = pytest.mark.slow

DURATION_S = 30.0


@pytest.fixture
def log() -> Iterator[LogCapture]:
    capture = LogCapture()
    before = structlog.get_config()["processors"]
    structlog.configure(processors=[capture])
    yield capture
    structlog.configure(processors=before)


def follow_for_a_while(address: str) -> tuple[list[Event], float]:
    """What the source reported in `DURATION_S`, and its thread's share of one processor."""
    events: list[Event] = []
    source = LocalOvsdbSource(OvsSettings(db=address), events.append, now)
    cpu_s: list[float] = []

    def run() -> None:
        begun_s = time.thread_time()
        source.run()
        cpu_s.append(time.thread_time() - begun_s)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(DURATION_S)
    source.stop()
    thread.join(1.0)
    assert not thread.is_alive()
    return events, cpu_s[0] / DURATION_S


def mute(method: str) -> Callable[[str, list[Any]], Any]:
    return lambda asked, params: SILENCE if asked == method else well_behaved(asked, params)


TROUBLES: dict[str, Callable[[str, list[Any]], Any]] = {
    "never answers": lambda method, params: SILENCE,
    "never answers the monitor": mute("monitor"),
    "never answers a sign of life": mute("echo"),
    "hangs up": lambda method, params: HANG_UP,
    "garbage": lambda method, params: b"garbage",
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_server_that_misbehaves_costs_little_and_is_told_briefly(
    tmp_path: Path, log: LogCapture, trouble: str
) -> None:
    with FakeOvsdbServer(tmp_path, TROUBLES[trouble]) as server:
        events, ratio = follow_for_a_while(server.address)
    assert any(isinstance(event, DatabaseLost) for event in events)
    assert ratio < CPU_RATIO
    assert len(log.entries) <= 3, log.entries


def test_no_socket_costs_little_and_is_told_once(tmp_path: Path, log: LogCapture) -> None:
    events, ratio = follow_for_a_while(f"unix:{tmp_path}/absent.sock")
    assert len(events) == 1
    assert ratio < CPU_RATIO / 10
    assert len(log.entries) == 1


@pytest.mark.parametrize("when", ["synchronising", "updating"])
def test_a_fault_in_the_library_for_ever_costs_little_and_is_told_briefly(
    tmp_path: Path, log: LogCapture, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    calls = iter(range(10**9))

    def notify(self: Any, *arguments: Any) -> None:
        # Each session sees one row when it synchronises and one when it updates.
        if when == "synchronising" or next(calls) % 2:
            raise ValueError("a fault for ever")

    def update_at_once(peer: Peer) -> None:
        row = {"name": "br-int", "datapath_type": "netdev", "external_ids": ["map", []]}
        peer.update({"Bridge": {"6f0c1b7e-5a0d-4a43-8e5c-0d0d3a1f2b3c": {"old": {"datapath_type": ""}, "new": row}}})

    monkeypatch.setattr(ovsdb_idl._FollowingIdl, "notify", notify)
    with FakeOvsdbServer(tmp_path) as server:
        server.after_monitor = update_at_once
        events, ratio = follow_for_a_while(server.address)
    lost = [event for event in events if isinstance(event, DatabaseLost)]
    assert lost
    assert all("a fault for ever" in event.why for event in lost)
    assert ratio < CPU_RATIO
    assert len(log.entries) <= 2, log.entries


def test_a_healthy_connection_costs_next_to_nothing(tmp_path: Path, log: LogCapture) -> None:
    with FakeOvsdbServer(tmp_path) as server:
        events, ratio = follow_for_a_while(server.address)
    confirmed = sum(isinstance(event, DatabaseConfirmed) for event in events)
    assert DURATION_S * 0.8 <= confirmed <= DURATION_S * 1.2
    assert ratio < 0.01
    assert len(log.entries) == 1
