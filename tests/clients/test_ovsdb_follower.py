"""The follower against servers that misbehave, and against faults inside the library. Real servers: tests/ovn."""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest

from ctctl.clients import ovsdb_idl
from ctctl.clients.clock import now
from ctctl.clients.ovsdb_follower import CPU_RATIO, OvsdbFollower, Remotes, Wanted
from ctctl.clients.ovsdb_remote import parse_remotes
from ctctl.clients.ovsdb_session import Content, Timing
from ctctl.model.instant import Instant
from ctctl.wire.local_view import LOCAL_SELECTS
from tests.clients.fake_ovsdb_server import HANG_UP, ROW, SCHEMA, SILENCE, FakeOvsdbServer, Peer, bridge, well_behaved

E = TypeVar("E")
WANTED = Wanted("Open_vSwitch", LOCAL_SELECTS)
QUICK = Timing(ask_interval_s=0.2, answer_timeout_s=0.4, longest_pause_s=0.3)


class Told:
    """What a listener was told, to be waited for."""

    def __init__(self) -> None:
        self.queue: queue.Queue[Content | Instant | str] = queue.Queue()
        self.reasons: list[str] = []

    def content_read(self, content: Content) -> None:
        self.queue.put(content)

    def content_confirmed(self, at: Instant) -> None:
        self.queue.put(at)

    def connection_lost(self, why: str, *, is_configured: bool) -> None:
        self.reasons.append(why)
        self.queue.put(why)

    def next(self, kind: type[E], timeout_s: float = 5.0) -> E:
        """The next of its kind; what comes before it is dropped."""
        end_s = time.monotonic() + timeout_s
        while True:
            told = self.queue.get(timeout=max(0.0, end_s - time.monotonic()))
            if isinstance(told, kind):
                return told


class Following:
    """A follower in its thread."""

    def __init__(self, *addresses: str, timing: Timing = QUICK, wanted: Wanted = WANTED) -> None:
        self.told = Told()
        self.remotes = Remotes(tuple(remote for address in addresses for remote in parse_remotes(address)))
        self.follower = OvsdbFollower(wanted, lambda: self.remotes, self.told, now, timing)
        self.cpu_s = 0.0
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        started = time.thread_time()
        self.follower.run()
        self.cpu_s = time.thread_time() - started

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.follower.stop()
        self._thread.join(1.0)
        assert not self._thread.is_alive(), "the follower did not stop within a second"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeOvsdbServer]:
    with FakeOvsdbServer(tmp_path) as running:
        yield running


def keys(content: Content) -> Any:
    return content.tables["Bridge"][0]["external_ids"]


def test_content_comes_whole_and_after_every_change(server: FakeOvsdbServer) -> None:
    with Following(server.address) as following:
        first = following.told.next(Content)
        assert keys(first) == {"ct-zone-a": "1"}
        assert set(first.tables) == {"Bridge", "Open_vSwitch", "Interface"}
        server.peers[-1].update({"Bridge": {ROW: {"old": bridge(a="1"), "new": bridge(a="1", b="2")}}})
        second = following.told.next(Content)
        assert keys(second) == {"ct-zone-a": "1", "ct-zone-b": "2"}
        assert second.session == first.session == 1
        assert set(second.tables) == set(first.tables)


def test_it_is_confirmed_at_the_moment_of_the_question_again_and_again(server: FakeOvsdbServer) -> None:
    started = now()
    with Following(server.address) as following:
        moments = [following.told.next(Instant) for _ in range(3)]
    assert started <= moments[0] < moments[1] < moments[2] <= now()


def test_an_answer_on_its_way_for_long_confirms_no_more_than_the_question_could(server: FakeOvsdbServer) -> None:
    asked: list[Instant] = []

    def answer_late(method: str, params: list[Any]) -> Any:
        if method == "echo":
            asked.append(now())
            time.sleep(0.1)  # what is committed in this time is no part of what the answer proves
        return well_behaved(method, params)

    server.answer = answer_late
    with Following(server.address) as following:
        following.told.next(Instant)  # the first content's own
        confirmed = following.told.next(Instant)
    assert confirmed <= asked[0]


@pytest.mark.parametrize(
    "update",
    [
        {"Bridge": {"not-a-uuid": {"new": bridge(a="2")}}},
        {"Bridge": {ROW: {}}},
        {"Bridge": {ROW: 7}},
        {"Bridge": 7},
        7,
        {"Port": {ROW: {"new": {}}}},
        {"Bridge": {"6f0c1b7e-5a0d-4a43-8e5c-0d0d3a1f2b3d": {"old": bridge(a="1"), "new": bridge(a="2")}}},
        {"Bridge": {ROW: {"new": bridge(a="2")}}},
        {"Bridge": {ROW: {"old": bridge(a="1"), "new": {"name": 7}}}},
        {"Bridge": {ROW: {"old": bridge(a="1"), "new": {"colour": "red"}}}},
        {"Bridge": {"6f0c1b7e-5a0d-4a43-8e5c-0d0d3a1f2b3d": {"old": bridge(a="1")}}},
    ],
)
def test_an_update_that_cannot_be_right_ends_the_session_and_is_counted(server: FakeOvsdbServer, update: Any) -> None:
    """The library logs most of these and goes on with a replica that has missed something."""
    with Following(server.address) as following:
        first = following.told.next(Content)
        server.peers[-1].update(update)
        following.told.next(str)
        again = following.told.next(Content)
        assert again.session == first.session + 1
        assert keys(again) == {"ct-zone-a": "1"}
        assert following.follower.faults == 1


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("its text fails as well")


@pytest.fixture
def idl_fault(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], bool]], None]:
    """Let the IDL fail on each update for which the given function says so."""

    def arrange(should_fail: Callable[[], bool]) -> None:
        original = ovsdb_idl._FollowingIdl.notify

        def notify(self: Any, *arguments: Any) -> None:
            if should_fail():
                raise UnprintableError
            original(self, *arguments)

        monkeypatch.setattr(ovsdb_idl._FollowingIdl, "notify", notify)

    return arrange


def test_an_exception_inside_the_idl_once_costs_one_session(
    server: FakeOvsdbServer, idl_fault: Callable[[Callable[[], bool]], None]
) -> None:
    faults = iter([False, True])
    idl_fault(lambda: next(faults, False))
    with Following(server.address) as following:
        following.told.next(Content)
        server.peers[-1].update({"Bridge": {ROW: {"old": bridge(a="1"), "new": bridge(a="2")}}})
        assert "fault inside the IDL: UnprintableError" in following.told.next(str)
        assert following.told.next(Content).session == 2
        assert following.follower.faults == 1


def test_an_exception_inside_the_idl_for_ever_is_told_once_and_costs_little(
    server: FakeOvsdbServer, idl_fault: Callable[[Callable[[], bool]], None]
) -> None:
    idl_fault(lambda: True)
    started = time.monotonic()
    with Following(server.address) as following:
        following.told.next(str)
        while following.follower.faults < 4:
            time.sleep(0.05)
    lasted_s = time.monotonic() - started
    assert following.told.reasons == [f"{server.address}: fault inside the IDL: UnprintableError: (no text)"]
    assert following.told.queue.empty()
    # One attempt is allowed beyond the bound.
    assert following.cpu_s < CPU_RATIO * lasted_s + 0.1


def test_an_expensive_attempt_is_not_repeated_at_once(server: FakeOvsdbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_at_a_price(self: Any) -> None:
        end_s = time.thread_time() + 0.1
        while time.thread_time() < end_s:
            pass
        raise UnprintableError

    monkeypatch.setattr(ovsdb_idl._FollowingIdl, "run", fail_at_a_price)
    with Following(server.address) as following:
        time.sleep(1.5)
    # The second follows the first at once, the third would have to wait for 20 times their cost.
    assert following.follower.faults == 2


@pytest.mark.parametrize("mute", ["get_schema", "monitor", "echo"])
def test_a_server_that_stops_answering_is_told_and_left(server: FakeOvsdbServer, mute: str) -> None:
    server.answer = lambda method, params: SILENCE if method == mute else well_behaved(method, params)
    with Following(server.address) as following:
        why = following.told.next(str, timeout_s=2.0)
        assert "no answer within 0.4 s" in why or "sent nothing for 0.4 s" in why
        server.answer = well_behaved
        following.told.next(Content)


@pytest.mark.parametrize("method", ["get_schema", "monitor", "echo"])
def test_a_server_that_hangs_up_is_told_and_tried_again(server: FakeOvsdbServer, method: str) -> None:
    server.answer = lambda asked, params: HANG_UP if asked == method else well_behaved(asked, params)
    with Following(server.address) as following:
        following.told.next(str)
        server.answer = well_behaved
        following.told.next(Content)


def test_the_reason_for_a_loss_is_the_last_thing_the_library_said(server: FakeOvsdbServer) -> None:
    with Following(server.address) as following:
        following.told.next(Content)
        server.peers[-1].close()
        why = following.told.next(str)
        assert why.startswith(f"connection to {server.address} lost: ")
        assert "connect" not in why.partition("lost: ")[2].replace("connection ", "")


@pytest.mark.parametrize("method", ["get_schema", "monitor", "echo"])
def test_garbage_is_told_and_tried_again(server: FakeOvsdbServer, method: str) -> None:
    server.answer = lambda asked, params: b"garbage" if asked == method else well_behaved(asked, params)
    with Following(server.address) as following:
        following.told.next(str)
        server.answer = well_behaved
        following.told.next(Content)


def test_a_cancelled_monitor_is_a_new_session(server: FakeOvsdbServer) -> None:
    with Following(server.address) as following:
        following.told.next(Content)
        peer: Peer = server.peers[-1]
        peer.send({"id": None, "method": "monitor_canceled", "params": [peer.monitor_id]})
        assert "cancelled the monitor" in following.told.next(str)
        assert following.told.next(Content).session == 2


def test_a_schema_without_what_is_needed_is_told(server: FakeOvsdbServer) -> None:
    tables = {name: table for name, table in SCHEMA["tables"].items() if name != "Interface"}
    server.answer = lambda method, params: {**SCHEMA, "tables": tables} if method == "get_schema" else HANG_UP
    with Following(server.address) as following:
        assert "has no Interface with external_ids" in following.told.next(str)


def test_a_schema_that_is_broken_is_told(server: FakeOvsdbServer) -> None:
    bad = {**SCHEMA, "tables": {**SCHEMA["tables"], "Interface": {"columns": {"external_ids": {"type": "colour"}}}}}
    server.answer = lambda method, params: bad if method == "get_schema" else HANG_UP
    with Following(server.address) as following:
        assert "a schema that cannot be used" in following.told.next(str)


def test_one_reason_is_told_once_however_often_it_is_tried(server: FakeOvsdbServer) -> None:
    server.answer = lambda method, params: HANG_UP
    with Following(server.address, f"{server.address}.absent") as following:
        while server.connections < 5:
            time.sleep(0.02)
    assert 1 <= len(following.told.reasons) <= 2
    assert "absent" in following.told.reasons[-1]


def test_without_an_address_it_waits_for_one(server: FakeOvsdbServer) -> None:
    following = Following()
    following.remotes = Remotes((), "nothing configured", is_configured=False)
    with following:
        assert following.told.next(str) == "nothing configured"
        following.remotes = Remotes(parse_remotes(server.address))
        following.follower.wake()
        following.told.next(Content, timeout_s=0.9)


def test_a_stop_ends_it_whatever_it_waits_for(tmp_path: Path) -> None:
    with FakeOvsdbServer(tmp_path, lambda method, params: SILENCE) as server:
        slow = Timing(ask_interval_s=30.0, answer_timeout_s=60.0, longest_pause_s=60.0)
        with Following(server.address, timing=slow):
            while not server.requests:
                time.sleep(0.01)


def test_a_stop_before_the_start_is_heard() -> None:
    following = Following("unix:/nowhere")
    following.follower.stop()
    with following:
        pass
    following.follower.stop()


def test_attempts_of_a_fleet_are_spread() -> None:
    pauses = {round(Following("unix:/nowhere").follower._backoff_s(5), 3) for _ in range(20)}
    assert len(pauses) > 10
    assert all(0.15 <= pause <= 0.3 for pause in pauses)


def test_the_library_logs_nothing_on_its_own(server: FakeOvsdbServer, caplog: pytest.LogCaptureFixture) -> None:
    records: list[logging.LogRecord] = []

    class Root(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Root()
    logging.getLogger().addHandler(handler)
    try:
        with Following(server.address) as following:
            following.told.next(Content)
            server.peers[-1].update({"Bridge": 7})
            following.told.next(str)
            following.told.next(Content)
    finally:
        logging.getLogger().removeHandler(handler)
    assert records == []


def test_a_character_that_arrives_in_two_pieces_is_one_character(server: FakeOvsdbServer) -> None:
    """The library decodes what one call of its receive function read, and loses what is left of a character."""

    def tell_in_pieces(peer: Peer) -> None:
        row = {"Bridge": {ROW: {"old": bridge(a="1"), "new": bridge(zürich="2")}}}
        message = {"id": None, "method": "update", "params": [peer.monitor_id, row]}
        whole = json.dumps(message, ensure_ascii=False).encode()
        middle = whole.index("ü".encode()) + 1
        peer.send(whole[:middle])
        peer.wait_until_read()
        peer.send(whole[middle:])

    server.after_monitor = tell_in_pieces
    with Following(server.address) as following:
        following.told.next(Content)
        assert keys(following.told.next(Content)) == {"ct-zone-zürich": "2"}
        assert following.told.reasons == []
