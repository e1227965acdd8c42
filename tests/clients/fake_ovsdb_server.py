"""An OVSDB server that misbehaves on order: the far end for tests of clients. Answers as scripted, on a unix socket."""

from __future__ import annotations

import contextlib
import fcntl
import json
import socket
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

SILENCE: Final = object()
"""An answer that never comes."""

HANG_UP: Final = object()
"""The connection is closed instead of an answer."""

ROW = "6f0c1b7e-5a0d-4a43-8e5c-0d0d3a1f2b3c"
TEXT_MAP = {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}
TEXT = {"type": "string"}
OPTIONAL_TEXT = {"type": {"key": "string", "min": 0, "max": 1}}
SCHEMA: Final = {
    "name": "Open_vSwitch",
    "version": "8.3.0",
    "tables": {
        "Open_vSwitch": {"columns": {"external_ids": TEXT_MAP, "ovs_version": OPTIONAL_TEXT}},
        "Bridge": {"columns": {"name": TEXT, "datapath_type": TEXT, "external_ids": TEXT_MAP}},
        "Interface": {"columns": {"external_ids": TEXT_MAP}},
    },
}

Answer = Callable[[str, list[Any]], Any]


class Refusal:
    """An error reply."""

    def __init__(self, error: Any) -> None:
        self.error = error


def bridge(**keys: str) -> dict[str, Any]:
    """The new row of br-int with these zone keys."""
    pairs = [[f"ct-zone-{owner}", zone] for owner, zone in keys.items()]
    return {"name": "br-int", "datapath_type": "", "external_ids": ["map", pairs]}


def well_behaved(method: str, params: list[Any]) -> Any:
    """As an old, plain server answers: no _Server database, `monitor` only, one bridge with one key."""
    match method, params:
        case "get_schema", ["Open_vSwitch", *_]:
            return SCHEMA
        case "monitor", _:
            return {"Bridge": {ROW: {"new": bridge(a="1")}}}
        case "echo", _:
            return params
    return Refusal({"error": "unknown database", "details": "", "syntax": ""})


class Peer:
    """One accepted connection."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self.monitor_id: Any = None

    def send(self, message: dict[str, Any] | bytes) -> None:
        """Send a message, or bytes that need not be one."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        with contextlib.suppress(OSError):  # the client under test may have hung up
            self._stream.sendall(data)

    def update(self, updates: dict[str, Any]) -> None:
        """Tell a change, as the answer to `monitor` announced."""
        self.send({"id": None, "method": "update", "params": [self.monitor_id, updates]})

    def wait_until_read(self) -> None:
        """Return once the client has taken in everything sent so far."""
        unread = b"\1"
        while any(unread):
            time.sleep(0.001)
            unread = fcntl.ioctl(self._stream, termios.TIOCOUTQ, bytes(4))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)


class FakeOvsdbServer:
    """`with FakeOvsdbServer(directory, answer) as server:`. `answer` may be replaced at any moment."""

    def __init__(self, directory: Path, answer: Answer = well_behaved) -> None:
        self.path = directory / "fake.sock"
        self.answer = answer
        self.after_monitor: Callable[[Peer], None] = lambda peer: None
        self.greeting = b""
        self.connections = 0
        self.requests: list[str] = []
        self.replies: list[dict[str, Any]] = []
        self.peers: list[Peer] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX)

    @property
    def address(self) -> str:
        return f"unix:{self.path}"

    def __enter__(self) -> Self:
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for peer in self.peers:
            peer.close()
        for thread in self._threads:
            thread.join(5)
        self._listener.close()

    def wait_for_clients_to_leave(self) -> None:
        """Return once every connection accepted so far has ended and all that it brought was read."""
        for thread in self._threads[1:]:
            thread.join(5)

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._start(self._serve, stream)

    def _serve(self, stream: socket.socket) -> None:
        peer, received = Peer(stream), ""
        self.peers.append(peer)
        decoder = json.JSONDecoder()
        with stream:
            if self.greeting:
                peer.send(self.greeting)
            while True:
                try:
                    data = stream.recv(65536)
                except OSError:
                    return
                if not data:
                    return
                received += data.decode()
                while received:
                    try:
                        request, end = decoder.raw_decode(received)
                    except json.JSONDecodeError:
                        break
                    received = received[end:].lstrip()
                    if not self._reply(peer, request):
                        return

    def _reply(self, peer: Peer, request: dict[str, Any]) -> bool:
        method, params = request.get("method"), request.get("params")
        if method is None:
            self.replies.append(request)
            return True
        self.requests.append(method)
        answer = self.answer(method, params)
        if answer is HANG_UP:
            return False
        if isinstance(answer, bytes):
            peer.send(answer)
        elif isinstance(answer, Refusal):
            peer.send({"id": request["id"], "result": None, "error": answer.error})
        elif answer is not SILENCE:
            peer.send({"id": request["id"], "result": answer, "error": None})
            if method == "monitor":
                peer.monitor_id = params[1]
                self.after_monitor(peer)
        return True
