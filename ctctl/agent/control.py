"""The agent's control socket: the command line's way in, so that manual flushes are serialised and journaled.

A unix socket of mode 0600; the peer's uid must be root's or the agent's own. One request line in, one reply line out,
both JSON; a request is at most 64 KiB and a caller that sends nothing is dropped.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from ctctl.errors import CtctlError, UnavailableError

_log = structlog.get_logger("ctctl.control")

MAX_REQUEST_BYTES: Final = 65_536
IDLE_TIMEOUT_S: Final = 5.0
MAX_CONNECTIONS: Final = 16
MAX_LONG_REQUESTS: Final = 8
"""Flushes that may wait at once; the other places are kept for those who look, or pause."""

Request = Mapping[str, object]
Handler = Callable[[Request], object]
"""Answers one request with something JSON can spell; raises CtctlError for what the caller did wrong."""


class ControlServer:
    """Serves until stopped; each connection in a thread of its own, a bounded number at once."""

    def __init__(self, path: Path, handlers: Mapping[str, Handler]) -> None:
        self._path = path
        self._handlers = handlers
        self._server: _Server | None = None

    @property
    def is_serving(self) -> bool:
        """Claims that it was started and not stopped."""
        return self._server is not None

    def start(self) -> None:
        """Bind and serve.

        Raises:
            UnavailableError: another agent answers on the socket, or it cannot be created.
        """
        try:
            self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            _remove_stale(self._path)
            former_umask = os.umask(0o177)
            try:
                self._server = _Server(str(self._path), self._handlers)
            finally:
                os.umask(former_umask)
        except OSError as error:
            raise UnavailableError(
                f"cannot listen on the control socket {self._path}: {error.strerror or error}",
                remedy="set control.socket to a path this user may create",
            ) from error
        threading.Thread(target=self._server.serve_forever, args=(0.2,), name="control", daemon=True).start()

    def stop(self) -> None:
        """Stop serving and remove the socket."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()


def _remove_stale(path: Path) -> None:
    """Remove a socket that a killed agent left behind; one that answers is left alone."""
    if not path.is_socket():
        if path.exists():
            raise UnavailableError(f"{path} exists and is no socket", remedy="set control.socket to another path")
        return
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        probe.settimeout(1.0)
        probe.connect(str(path))
    except (ConnectionRefusedError, FileNotFoundError):
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UnavailableError(f"cannot tell whether another agent serves {path}: {error}") from error
    else:
        raise UnavailableError(
            f"another agent serves the control socket {path}", remedy="stop it, or set control.socket to another path"
        )
    finally:
        probe.close()


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64  # callers that arrive together are refused by `verify_request`, with a reason to be told

    def __init__(self, path: str, handlers: Mapping[str, Handler]) -> None:
        self.handlers = handlers
        self.slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self.long_slots = threading.BoundedSemaphore(MAX_LONG_REQUESTS)
        super().__init__(path, _Connection)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        del client_address
        _, uid, _ = struct.unpack("3i", request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return uid in (0, os.geteuid()) and self.slots.acquire(blocking=False)


class _Connection(socketserver.StreamRequestHandler):
    server: _Server
    timeout = IDLE_TIMEOUT_S

    def handle(self) -> None:
        try:
            line = self.rfile.readline(MAX_REQUEST_BYTES + 1)
            if line:
                self.wfile.write(self._reply(line).encode() + b"\n")
        except OSError as error:
            _log.info("control connection dropped", why=str(error))
        finally:
            self.server.slots.release()

    def _reply(self, line: bytes) -> str:
        try:
            request = json.loads(line) if len(line) <= MAX_REQUEST_BYTES else None
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict):
            return _error("not a JSON object of at most 64 KiB on one line")
        handler = self.server.handlers.get(str(request.get("command")))
        if handler is None:
            return _error(f"unknown command; known: {', '.join(sorted(self.server.handlers))}")
        is_long = request.get("command") == "flush"
        if is_long and not self.server.long_slots.acquire(blocking=False):
            return _error("too many flushes wait already; try again in a minute")
        try:
            return json.dumps({"result": handler(request)})
        except CtctlError as error:
            return _error(str(error))
        except Exception:  # noqa: BLE001  # the top of this connection's thread: the caller learns that, the log learns what
            _log.exception("control request failed")
            return _error("the agent failed to answer; see its log")
        finally:
            if is_long:
                self.server.long_slots.release()


def _error(text: str) -> str:
    return json.dumps({"error": text})
