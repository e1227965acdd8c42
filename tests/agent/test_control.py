"""The control socket: for root and the agent's own user only, and nobody on it can harm the agent."""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ctctl.agent import control as control_module
from ctctl.agent.control import MAX_CONNECTIONS, MAX_REQUEST_BYTES, ControlServer
from ctctl.clients.control import AgentRefusedError, NoAgentError, ask
from ctctl.errors import CtctlError, PermissionDeniedError, UnavailableError


def refuse(request: Mapping[str, object]) -> object:
    raise CtctlError("cannot do that", remedy="do this")


def break_down(request: Mapping[str, object]) -> object:
    raise ZeroDivisionError("a defect")


def unspeakable(request: Mapping[str, object]) -> object:
    return object()


HANDLERS = {
    "echo": dict,
    "refuse": refuse,
    "break": break_down,
    "unspeakable": unspeakable,
    "large": lambda request: ["x" * 100] * 20_000,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run/ctctl/control.sock"


@pytest.fixture
def server(path: Path) -> Iterator[ControlServer]:
    server = ControlServer(path, HANDLERS)
    server.start()
    yield server
    server.stop()


def say(path: Path, data: bytes) -> bytes:
    """Send bytes, hang up the sending side, and read to the end."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received


def error_of(reply: bytes) -> str:
    assert reply.endswith(b"\n")
    assert reply.count(b"\n") == 1
    return str(json.loads(reply)["error"])


def test_a_request_gets_its_handlers_answer(server: ControlServer, path: Path) -> None:
    assert ask(path, {"command": "echo", "n": 1}, timeout_s=5) == {"command": "echo", "n": 1}


def test_only_its_owner_may_open_the_socket(server: ControlServer, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_mode_does_not_depend_on_the_umask_and_leaves_it_alone(path: Path) -> None:
    former = os.umask(0)
    try:
        server = ControlServer(path, HANDLERS)
        server.start()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.umask(0) == 0
        server.stop()
    finally:
        os.umask(former)


class _As:
    """A connection whose peer has a given uid, as the kernel would tell it."""

    def __init__(self, uid: int) -> None:
        self.uid = uid

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
        return struct.pack("3i", 1, self.uid, 1)[:size]


def test_only_root_and_the_agents_own_user_are_served(server: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_module.os, "geteuid", lambda: 1234)
    inner = server._server
    assert inner is not None
    assert [inner.verify_request(_As(uid), "") for uid in (0, 1234, 1235, 65534)] == [True, True, False, False]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_with_access_to_the_socket_is_hung_up_on(server: ControlServer, path: Path) -> None:
    program = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(b'{\"command\": \"echo\"}\\n'); sys.exit(0 if s.recv(10) == b'' else 1)"
    )
    path.chmod(0o777)
    for directory in (path.parent, *path.parents):
        if directory.is_relative_to("/tmp") and directory != Path("/tmp"):  # noqa: S108  # pytest's own
            directory.chmod(0o755)
    done = subprocess.run(["/usr/bin/python3", "-c", program, str(path)], user=65534, check=False, capture_output=True)
    # Hung up before or after it wrote: an answer is what it must not get.
    assert done.returncode == 0 or b"BrokenPipeError" in done.stderr or b"ConnectionResetError" in done.stderr


def test_an_error_of_the_handler_comes_back_as_its_text(server: ControlServer, path: Path) -> None:
    with pytest.raises(AgentRefusedError, match="cannot do that; do this"):
        ask(path, {"command": "refuse"}, timeout_s=5)


@pytest.mark.parametrize("command", ["break", "unspeakable"])
def test_a_defect_is_answered_without_its_insides(server: ControlServer, path: Path, command: str) -> None:
    with pytest.raises(AgentRefusedError, match="the agent failed to answer; see its log"):
        ask(path, {"command": command}, timeout_s=5)
    assert ask(path, {"command": "echo"}, timeout_s=5)


@pytest.mark.parametrize("command", ["nothing", "", None, 5, ["echo"]])
def test_an_unknown_command_is_told_the_known_ones(server: ControlServer, path: Path, command: object) -> None:
    with pytest.raises(AgentRefusedError, match="unknown command; known: break, echo"):
        ask(path, {"command": command}, timeout_s=5)


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"hello\n",
        b"[]\n",
        b"5\n",
        b"null\n",
        b'{"command": "echo"\n',
        b"\xff\xfe\n",
        b"\0\0\0\n",
        b"[" * 60_000 + b"\n",
        b'{"a":' * 10_000 + b"\n",
        b"1" * 10_000 + b"\n",
        b"x" * MAX_REQUEST_BYTES + b"\n",
        b'{"command": "echo"}' + b" " * MAX_REQUEST_BYTES + b"\n",
    ],
)
def test_garbage_is_answered_with_one_line(server: ControlServer, path: Path, data: bytes) -> None:
    assert error_of(say(path, data)) == "not a JSON object of at most 64 KiB on one line"


def test_a_large_answer_arrives_whole(server: ControlServer, path: Path) -> None:
    answer = ask(path, {"command": "large"}, timeout_s=10)
    assert isinstance(answer, list)
    assert len(answer) == 20_000


def test_a_caller_that_hangs_up_without_a_word_is_nothing(server: ControlServer, path: Path) -> None:
    assert say(path, b"") == b""
    assert ask(path, {"command": "echo"}, timeout_s=5)


def test_silent_callers_are_dropped_and_their_places_freed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_module._Connection, "timeout", 0.2)
    server = ControlServer(path, HANDLERS)
    server.start()
    silent = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CONNECTIONS)]
    try:
        for connection in silent:
            connection.connect(str(path))
        for connection in silent:
            connection.settimeout(10)
            assert connection.recv(1) == b""  # the server gave up on it
        assert ask(path, {"command": "echo"}, timeout_s=5)
    finally:
        for connection in silent:
            connection.close()
        server.stop()


def test_beyond_its_places_a_caller_is_told_to_try_again(server: ControlServer, path: Path) -> None:
    waiting = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CONNECTIONS)]
    try:
        for connection in waiting:
            connection.connect(str(path))
        with pytest.raises(UnavailableError, match=r"try again|Broken pipe|reset by peer"):
            ask(path, {"command": "echo"}, timeout_s=5)
    finally:
        for connection in waiting:
            connection.close()


def test_callers_are_served_at_the_same_time(path: Path) -> None:
    both = threading.Barrier(2, timeout=10)
    server = ControlServer(path, {"meet": lambda request: both.wait() >= 0})
    server.start()
    answers: list[object] = []
    threads = [
        threading.Thread(target=lambda: answers.append(ask(path, {"command": "meet"}, timeout_s=10))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(15)
    server.stop()
    assert answers == [True, True]


def test_the_socket_goes_with_the_server(path: Path) -> None:
    server = ControlServer(path, HANDLERS)
    server.start()
    server.stop()
    assert not path.exists()
    server.stop()
    with pytest.raises(NoAgentError):
        ask(path, {"command": "echo"}, timeout_s=5)


def test_a_stop_does_not_wait_for_a_handler_that_is_busy(path: Path) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def slow(request: Mapping[str, object]) -> object:
        begun.set()
        return go_on.wait(30)

    server = ControlServer(path, {"slow": slow})
    server.start()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(b'{"command": "slow"}\n')
        assert begun.wait(10)
        server.stop()
        assert not go_on.is_set()
        go_on.set()


def test_a_socket_that_a_killed_agent_left_behind_is_replaced(path: Path) -> None:
    path.parent.mkdir(parents=True)
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    server = ControlServer(path, HANDLERS)
    server.start()
    assert ask(path, {"command": "echo"}, timeout_s=5)
    server.stop()


def test_a_second_agent_does_not_take_the_socket_of_the_first(server: ControlServer, path: Path) -> None:
    second = ControlServer(path, {})
    with pytest.raises(UnavailableError, match=f"another agent serves the control socket {path}; stop it"):
        second.start()
    second.stop()
    assert ask(path, {"command": "echo"}, timeout_s=5)


@pytest.mark.parametrize("kind", ["file", "directory", "fifo"])
def test_what_is_no_socket_is_left_alone(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True)
    {"file": path.touch, "directory": path.mkdir, "fifo": lambda: os.mkfifo(path)}[kind]()
    with pytest.raises(UnavailableError, match="exists and is no socket"):
        ControlServer(path, HANDLERS).start()
    assert path.exists()


def test_a_path_too_long_for_a_socket_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"cannot listen on the control socket .*too long; set control.socket"):
        ControlServer(tmp_path / ("x" * 150), HANDLERS).start()


def test_a_directory_that_cannot_be_made_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match=r"cannot listen on the control socket .*; set control.socket"):
        ControlServer(tmp_path / "file/control.sock", HANDLERS).start()


def test_a_permission_is_told_apart_from_an_absent_agent() -> None:
    assert issubclass(PermissionDeniedError, UnavailableError)
    assert not issubclass(PermissionDeniedError, NoAgentError)
