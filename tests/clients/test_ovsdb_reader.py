"""The one-shot reader against servers that misbehave. Real servers: tests/ovn/test_sources_local.py."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctctl.clients import ovsdb_remote
from ctctl.clients.deadline import Deadline, StoppedError
from ctctl.clients.ovsdb_connection import ConnectionLostError, OvsdbConnection, fetch_schema
from ctctl.clients.ovsdb_reader import LocalOvsdbReader
from ctctl.clients.ovsdb_remote import Remote, parse_remotes
from ctctl.errors import ProtocolError, TimedOutError, UnavailableError
from ctctl.model.instant import Instant
from tests.clients.fake_ovsdb_server import HANG_UP, SILENCE, FakeOvsdbServer, Refusal, bridge

ROWS = [
    {"rows": [{"external_ids": ["map", [["system-id", "ch1"]]], "ovs_version": "3.1.0"}]},
    {"rows": [bridge(a="1")]},
    {"rows": []},
]


class Clock:
    """Advances by one second with each look, so that a moment tells when it was taken."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> Instant:
        self.looks += 1
        return Instant(boot_s=float(self.looks), wall_s=0.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeOvsdbServer]:
    with FakeOvsdbServer(tmp_path, lambda method, params: ROWS) as running:
        yield running


@pytest.fixture
def reader(server: FakeOvsdbServer) -> Iterator[LocalOvsdbReader]:
    reader = LocalOvsdbReader(server.address, None, Clock())
    yield reader
    reader.close()


def test_one_read_is_one_request_on_one_kept_connection(server: FakeOvsdbServer, reader: LocalOvsdbReader) -> None:
    views = [reader.read(2.0) for _ in range(3)]
    assert server.requests == ["transact"] * 3
    assert server.connections == 1
    assert [view.session for view in views] == [1, 1, 1]
    assert views[0].bridges[0].zone_keys == {"a": "1"}


def test_what_it_asks_only_reads(server: FakeOvsdbServer, reader: LocalOvsdbReader) -> None:
    asked: list[Any] = []
    server.answer = lambda method, params: asked.append((method, params)) or ROWS
    reader.read(2.0)
    ((method, (database, *operations)),) = asked
    assert (method, database) == ("transact", "Open_vSwitch")
    assert {operation["op"] for operation in operations} == {"select"}


def test_the_view_is_dated_by_the_question_not_by_the_answer(server: FakeOvsdbServer) -> None:
    clock = Clock()
    reader = LocalOvsdbReader(server.address, None, clock)
    server.answer = lambda method, params: clock() and ROWS
    view = reader.read(2.0)
    reader.close()
    assert view.confirmed.boot_s == 1.0


def test_a_server_that_never_answers_costs_the_timeout_and_no_more(
    server: FakeOvsdbServer, reader: LocalOvsdbReader
) -> None:
    server.answer = lambda method, params: SILENCE
    with pytest.raises(TimedOutError, match=r"transact.*no answer within 0\.1 s"):
        reader.read(0.1)
    server.answer = lambda method, params: ROWS
    assert reader.read(2.0).chassis == "ch1"


def test_a_server_that_answers_drop_by_drop_does_not_get_more_time(tmp_path: Path) -> None:
    stopped = threading.Event()
    with FakeOvsdbServer(tmp_path, lambda method, params: SILENCE) as server:

        def drip() -> None:
            while not stopped.wait(0.02):
                for peer in list(server.peers):
                    peer.send(b" ")

        thread = threading.Thread(target=drip)
        thread.start()
        reader = LocalOvsdbReader(server.address, None, Clock())
        with pytest.raises(TimedOutError):
            reader.read(0.3)
        reader.close()
        stopped.set()
        thread.join()


def test_a_server_that_hangs_up_is_asked_once_more_and_then_reported(
    server: FakeOvsdbServer, reader: LocalOvsdbReader
) -> None:
    reader.read(2.0)
    server.answer = lambda method, params: HANG_UP
    with pytest.raises(ConnectionLostError):
        reader.read(2.0)
    assert server.connections == 2
    server.answer = lambda method, params: ROWS
    assert reader.read(2.0).session == 3


def test_an_idle_connection_that_the_server_closed_is_opened_again(
    server: FakeOvsdbServer, reader: LocalOvsdbReader
) -> None:
    reader.read(2.0)
    server.peers[0].close()
    assert reader.read(2.0).chassis == "ch1"
    assert server.connections == 2


def test_an_echo_request_in_between_is_answered_and_does_not_disturb(
    server: FakeOvsdbServer, reader: LocalOvsdbReader
) -> None:
    server.greeting = b'{"id":"echo","method":"echo","params":[7]}'
    assert reader.read(2.0).chassis == "ch1"
    reader.close()
    server.wait_for_clients_to_leave()
    assert server.replies == [{"id": "echo", "result": [7], "error": None}]


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage",
        b'{"id":99,"result":[],"error":null}',
        b'{"result":[],"error":null}',
        Refusal("not allowed"),
        [],
        [{"rows": []}, {"rows": [{"name": "br-int"}]}, {"rows": []}],
        [{"rows": []}, {"error": "no such table"}, None],
    ],
)
def test_what_is_no_answer_is_refused_and_the_next_read_starts_anew(
    server: FakeOvsdbServer, reader: LocalOvsdbReader, answer: Any
) -> None:
    server.answer = lambda method, params: answer
    with pytest.raises(ProtocolError):
        reader.read(2.0)
    server.answer = lambda method, params: ROWS
    assert reader.read(2.0).chassis == "ch1"
    assert server.connections == 2


def test_no_socket_is_an_error_with_path_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "db.sock"
    with pytest.raises(UnavailableError, match=f"unix:{path}: No such file.*start ovsdb-server"):
        LocalOvsdbReader(f"unix:{path}", None, Clock()).read(1.0)


def test_descriptors_stay_constant_over_failures(server: FakeOvsdbServer, reader: LocalOvsdbReader) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    gc.collect()  # what earlier tests left behind must not go during this one
    server.answer = lambda method, params: b"garbage"
    counts = set()
    for _ in range(20):
        with pytest.raises(ProtocolError):
            reader.read(2.0)
        server.peers[-1].close()
        server.wait_for_clients_to_leave()
        counts.add(descriptors())
    assert len(counts) == 1


def test_a_stop_interrupts_a_wait(server: FakeOvsdbServer) -> None:
    server.answer = lambda method, params: SILENCE
    stopping = threading.Event()
    deadline = Deadline(60.0, stopping.is_set)
    with OvsdbConnection(parse_remotes(server.address)[0], None, deadline) as connection:
        threading.Timer(0.05, stopping.set).start()
        with pytest.raises(StoppedError):
            connection.call("get_schema", ["Open_vSwitch"], deadline)


@pytest.mark.parametrize("answer", [Refusal("unknown database"), None, [], {}, {"tables": []}])
def test_a_schema_that_is_none_is_refused(server: FakeOvsdbServer, answer: Any) -> None:
    server.answer = lambda method, params: answer
    deadline = Deadline(2.0)
    with (
        OvsdbConnection(parse_remotes(server.address)[0], None, deadline) as connection,
        pytest.raises((UnavailableError, ProtocolError)),
    ):
        fetch_schema(connection, "Open_vSwitch", deadline)


@pytest.mark.parametrize(
    ("text", "remotes"),
    [
        ("unix:/run/a.sock", (Remote("unix", path="/run/a.sock"),)),
        ("unix:/run/a,b.sock", (Remote("unix", path="/run/a,b.sock"),)),
        ("tcp:10.0.0.1:6642", (Remote("tcp", host="10.0.0.1", port=6642),)),
        ("ssl:[2001:db8::1]:6642", (Remote("ssl", host="2001:db8::1", port=6642),)),
        (
            "ssl:db-0.example:6642, ssl:db-1.example:6642,ssl:db-0.example:6642",
            (Remote("ssl", host="db-0.example", port=6642), Remote("ssl", host="db-1.example", port=6642)),
        ),
    ],
)
def test_an_address_is_understood_as_ovs_does(text: str, remotes: tuple[Remote, ...]) -> None:
    assert parse_remotes(text) == remotes
    assert parse_remotes(",".join(map(str, remotes))) == remotes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "unix:",
        "tcp:10.0.0.1",
        "tcp:10.0.0.1:0",
        "tcp:10.0.0.1:65536",
        "tcp:::1:6642",
        "ptcp:6642",
        "/run/a",
        "5000",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UnavailableError, match="no OVSDB address"):
        parse_remotes(text)


def test_a_silent_address_leaves_the_next_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with two addresses, of which the first swallows packets."""
    silent = socket.create_server(("127.0.0.2", 0), backlog=0)
    port = silent.getsockname()[1]
    fillers = [socket.socket() for _ in range(4)]
    listener = socket.create_server(("127.0.0.1", port))
    try:
        for filler in fillers:  # a full queue: the kernel ignores further connections
            filler.setblocking(False)  # noqa: FBT003 - the library's signature
            filler.connect_ex(("127.0.0.2", port))
        addresses = [(socket.AF_INET, ("127.0.0.2", port)), (socket.AF_INET, ("127.0.0.1", port))]
        monkeypatch.setattr(ovsdb_remote, "_resolve", lambda remote, deadline: addresses)
        stream = ovsdb_remote.connect(Remote("tcp", host="db.example", port=port), None, Deadline(2.0))
        assert stream.getpeername()[0] == "127.0.0.1"
        stream.close()
    finally:
        for opened in (silent, listener, *fillers):
            opened.close()


def test_a_name_that_cannot_be_looked_up_is_told() -> None:
    with pytest.raises(UnavailableError, match=r"cannot look up 'no-such-host\.invalid'"):
        ovsdb_remote.connect(Remote("tcp", host="no-such-host.invalid", port=6642), None, Deadline(30.0))


def test_a_missing_tls_setting_is_named() -> None:
    remote = Remote("ssl", host="127.0.0.1", port=6642)
    with pytest.raises(UnavailableError, match=r"set ovn\.tls$"):
        ovsdb_remote.connect(remote, None, Deadline(1.0))
    half = ovsdb_remote.TlsFiles(key=__file__, certificate="", ca=__file__)
    with pytest.raises(UnavailableError, match=r"no TLS certificate is configured; set ovn\.tls\.certificate"):
        ovsdb_remote.connect(remote, half, Deadline(1.0))
