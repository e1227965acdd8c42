"""Asking an agent: every way in which it can fail has an error of its own."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctctl.clients import control as module
from ctctl.clients.control import AgentRefusedError, NoAgentError, ask
from ctctl.errors import PermissionDeniedError, ProtocolError, TimedOutError, UnavailableError


class FarEnd:
    """Takes one request and answers with these bytes; None: never."""

    def __init__(self, path: Path, answer: bytes | None) -> None:
        self.path = path
        self.request = b""
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            while not self.request.endswith(b"\n"):
                self.request += connection.recv(65536)
            if self._answer is None:
                self._end.wait(30)
                return
            try:
                connection.sendall(self._answer)
            except OSError:
                return

    def close(self) -> None:
        self._end.set()
        self._thread.join(10)
        self._listener.close()


@pytest.fixture
def far_ends(tmp_path: Path) -> Iterator[list[FarEnd]]:
    opened: list[FarEnd] = []
    yield opened
    for far_end in opened:
        far_end.close()


def answered(far_ends: list[FarEnd], tmp_path: Path, answer: bytes | None, timeout_s: float = 10.0) -> object:
    far_ends.append(FarEnd(tmp_path / "s", answer))
    return ask(tmp_path / "s", {"command": "zones", "n": [1, None]}, timeout_s=timeout_s)


def test_a_result_is_returned_and_the_request_is_one_line(far_ends: list[FarEnd], tmp_path: Path) -> None:
    assert answered(far_ends, tmp_path, b'{"result": [1, {"a": null}]}\n') == [1, {"a": None}]
    assert json.loads(far_ends[0].request) == {"command": "zones", "n": [1, None]}
    assert far_ends[0].request.count(b"\n") == 1


def test_a_null_result_is_a_result(far_ends: list[FarEnd], tmp_path: Path) -> None:
    assert answered(far_ends, tmp_path, b'{"result": null}\n') is None


def test_the_agents_own_error_is_quoted(far_ends: list[FarEnd], tmp_path: Path) -> None:
    with pytest.raises(AgentRefusedError, match=r"^zone 0 is never flushed$"):
        answered(far_ends, tmp_path, b'{"error": "zone 0 is never flushed"}\n')


@pytest.mark.parametrize(
    "answer", [b"\n", b"hello\n", b"[]\n", b"{}\n", b'{"result": 1', b'{"resul', b"\xff\n", b"[" * 100_000 + b"\n"]
)
def test_what_is_no_reply_is_a_protocol_error(far_ends: list[FarEnd], tmp_path: Path, answer: bytes) -> None:
    with pytest.raises(ProtocolError, match="answered with no"):
        answered(far_ends, tmp_path, answer)


def test_an_agent_that_hangs_up_without_a_word_does_not_trust_us(far_ends: list[FarEnd], tmp_path: Path) -> None:
    with pytest.raises(PermissionDeniedError, match="hung up; run as root or as the agent's user"):
        answered(far_ends, tmp_path, b"")


def test_an_agent_that_does_not_answer_is_given_up(far_ends: list[FarEnd], tmp_path: Path) -> None:
    with pytest.raises(TimedOutError, match=r"did not answer within 0.1s"):
        answered(far_ends, tmp_path, None, timeout_s=0.1)


def test_an_answer_without_end_is_given_up(
    far_ends: list[FarEnd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_REPLY_BYTES", 100_000)
    with pytest.raises(ProtocolError):
        answered(far_ends, tmp_path, b"x" * 10_000_000)


def test_no_socket_is_no_agent(tmp_path: Path) -> None:
    with pytest.raises(NoAgentError, match=f"no agent on {tmp_path}/s; start `ctctl agent`"):
        ask(tmp_path / "s", {}, timeout_s=1)


def test_a_socket_that_nobody_serves_is_no_agent(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "s"))
    left.close()
    with pytest.raises(NoAgentError):
        ask(tmp_path / "s", {}, timeout_s=1)


def test_a_full_backlog_is_an_agent_that_is_busy(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for connection in waiting:
            connection.settimeout(0)
            connection.connect_ex(str(tmp_path / "s"))
        with pytest.raises(TimedOutError, match="takes no more requests; it is busy: try again"):
            ask(tmp_path / "s", {}, timeout_s=1)
        for connection in waiting:
            connection.close()


@pytest.mark.parametrize("name", ["x" * 200, "file/s"])
def test_a_path_that_cannot_be_a_socket_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match=str(tmp_path)):
        ask(tmp_path / name, {}, timeout_s=1)
