"""The far end of a control socket: listens where a daemon would, and answers only when told to."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

VSWITCHD_VERSION = "ovs-vswitchd (Open vSwitch) 3.1.0\n"
CONTROLLER_VERSION = (
    "ovn-controller 23.03.1\nOpen vSwitch Library 3.1.0\nOpenFlow versions 0x6:0x6\nSB DB Schema 20.27.0\n"
)


class UnixctlDaemon:
    """A daemon whose main loop turns only in `turn()`. `requests` is what it was asked, oldest first."""

    def __init__(
        self,
        rundir: Path,
        name: str = "ovs-vswitchd",
        pid: int = 100,
        *,
        replies: Mapping[str, str] | None = None,
        backlog: int = 8,
        with_pidfile: bool = True,
    ) -> None:
        self.path = rundir / f"{name}.{pid}.ctl"
        self.replies = {
            "version": VSWITCHD_VERSION if name == "ovs-vswitchd" else CONTROLLER_VERSION,
            **(replies or {}),
        }
        self.requests: list[tuple[str, list[str]]] = []
        self.connections: list[socket.socket] = []
        self.accepted = 0
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.path.unlink(missing_ok=True)
        self._listener.bind(str(self.path))
        self._listener.listen(backlog)
        self._listener.settimeout(0)
        if with_pidfile:
            (rundir / f"{name}.pid").write_text(f"{pid}\n")

    def turn(self) -> None:
        """One turn of the main loop: accept everybody, answer everything."""
        self.accept()
        for connection in self.connections:
            try:
                data = connection.recv(65536)
            except BlockingIOError:
                continue
            while data:
                request, end = json.JSONDecoder().raw_decode(data.decode())
                data = data[end:]
                connection.settimeout(10)  # for a client that reads while this sends
                connection.sendall(json.dumps(self.answer(request)).encode())
                connection.settimeout(0)

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            connection.settimeout(0)
            self.connections.append(connection)
            self.accepted += 1

    def answer(self, request: dict[str, object]) -> dict[str, object]:
        method, params = request["method"], request["params"]
        assert isinstance(method, str)
        assert isinstance(params, list)
        self.requests.append((method, params))
        text = self.replies.get(" ".join([method, *params]))
        if text is None:
            return {"id": request["id"], "result": None, "error": f'"{method}" is not a valid command\n'}
        return {"id": request["id"], "result": text, "error": None}

    def drop_connections(self) -> None:
        for connection in self.connections:
            connection.close()
        self.connections.clear()

    def end(self, *, leave_files: bool = False) -> None:
        self.drop_connections()
        self._listener.close()
        if not leave_files:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.end()


class TurningDaemon(UnixctlDaemon):
    """The same with its main loop in a thread of its own, for callers that wait."""

    def __enter__(self) -> Self:
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._loop)
        self._thread.start()
        return self

    def _loop(self) -> None:
        while not self._is_ending.wait(0.002):
            self.turn()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._is_ending.set()
        self._thread.join()
        self.end()
