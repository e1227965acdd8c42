"""Promises of one-shot commands on a control socket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ctctl.clients.unixctl import BacklogFullError, ConnectionLostError, UnixctlConnection, call
from ctctl.errors import ProtocolError, TimedOutError, UnavailableError
from ctctl.wire.unixctl import CommandFailedError, CommandRefusedError, parse_ct_zone_list
from tests.clients.unixctl_daemon import TurningDaemon, UnixctlDaemon


def test_a_command_is_answered_with_its_text(tmp_path: Path) -> None:
    replies = {"coverage/read-counter long_poll_interval": "3\n"}
    with TurningDaemon(tmp_path, replies=replies) as daemon:
        assert call(daemon.path, "version", timeout_s=5) == "ovs-vswitchd (Open vSwitch) 3.1.0\n"
        assert call(daemon.path, "coverage/read-counter", ["long_poll_interval"], timeout_s=5) == "3\n"


def test_an_answer_larger_than_any_buffer_arrives_whole(tmp_path: Path) -> None:
    zones = "".join(f"lsp-{n:040} {n}\n" for n in range(20000))
    with TurningDaemon(tmp_path, "ovn-controller", replies={"ct-zone-list": zones}) as daemon:
        assert len(parse_ct_zone_list(call(daemon.path, "ct-zone-list", timeout_s=30))) == 20000


def test_the_daemons_own_error_is_raised_with_its_words(tmp_path: Path) -> None:
    with TurningDaemon(tmp_path) as daemon, pytest.raises(CommandFailedError, match="not a valid command"):
        call(daemon.path, "ct-zone-list", timeout_s=5)


def test_a_command_off_the_list_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    with UnixctlDaemon(tmp_path) as daemon:
        with pytest.raises(CommandRefusedError):
            call(daemon.path, "dpctl/dump-conntrack", timeout_s=5)
        daemon.turn()
        assert daemon.requests == []


def test_a_daemon_that_does_not_answer_is_a_time_out_that_names_it(tmp_path: Path) -> None:
    with UnixctlDaemon(tmp_path) as daemon, pytest.raises(TimedOutError, match="main thread") as caught:
        call(daemon.path, "version", timeout_s=0.01)
    assert str(daemon.path) in str(caught.value)


def test_a_daemon_that_does_not_accept_is_a_time_out_too(tmp_path: Path) -> None:
    with UnixctlDaemon(tmp_path, backlog=0) as daemon, UnixctlConnection(daemon.path):
        with pytest.raises(BacklogFullError):
            UnixctlConnection(daemon.path)
        with pytest.raises(TimedOutError):
            call(daemon.path, "version", timeout_s=5)


def test_nobody_listening_is_named_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="No such file") as caught:
        call(tmp_path / "ovs-vswitchd.1.ctl", "version", timeout_s=5)
    assert str(tmp_path) in str(caught.value)


def test_a_socket_deeper_than_an_address_is_long_is_reached(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with TurningDaemon(tmp_path) as daemon:
        daemon.path.rename(deep / "ovs-vswitchd.1.ctl")
        assert call(deep / "ovs-vswitchd.1.ctl", "version", timeout_s=5).startswith("ovs-vswitchd")


def test_the_peer_is_the_process_that_listens(tmp_path: Path) -> None:
    with UnixctlDaemon(tmp_path) as daemon, UnixctlConnection(daemon.path) as connection:
        assert connection.peer_pid == os.getpid()


def test_a_second_question_waits_for_the_first_answer(tmp_path: Path) -> None:
    with UnixctlDaemon(tmp_path) as daemon, UnixctlConnection(daemon.path) as connection:
        connection.ask("version")
        with pytest.raises(ProtocolError):
            connection.ask("version")


@pytest.mark.parametrize(
    "sent",
    [
        b'{"id":1,"error":null,"result":"a"}{"id":1,"error":null,"result":"b"}',
        b'{"id":9,"error":null,"result":"a"}',
        b'{"id":"1","error":null,"result":"a"}',
        b'{"id":0,"method":"echo","params":[]}',
        b'{"id":1,"error":null,"result":5}',
        b"garbage",
    ],
)
def test_anything_but_the_answer_to_the_question_is_refused(tmp_path: Path, sent: bytes) -> None:
    with UnixctlDaemon(tmp_path) as daemon, UnixctlConnection(daemon.path) as connection:
        connection.ask("version")
        daemon.accept()
        daemon.connections[0].sendall(sent)
        with pytest.raises(ProtocolError):
            connection.receive()


def test_an_end_in_the_middle_of_an_answer_is_a_lost_connection(tmp_path: Path) -> None:
    with UnixctlDaemon(tmp_path) as daemon, UnixctlConnection(daemon.path) as connection:
        connection.ask("version")
        daemon.accept()
        daemon.connections[0].recv(1000)
        daemon.connections[0].sendall(b'{"id":1,"error":nu')
        assert connection.receive() is None
        daemon.drop_connections()
        with pytest.raises(ConnectionLostError):
            connection.receive()


def test_failing_a_thousand_times_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(1000):
        with pytest.raises(UnavailableError):
            call(tmp_path / ("x" * 120) / "nobody.1.ctl", "version", timeout_s=5)
        with pytest.raises(UnavailableError):
            call(tmp_path / "nobody.1.ctl", "version", timeout_s=5)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
