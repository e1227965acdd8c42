"""Connections to the control socket of ovs-vswitchd or ovn-controller, never blocking longer than asked.

The daemon answers from its main loop, up to ten connections accepted per turn: whoever opens a new one for every
question piles up work exactly when the daemon is behind. A watcher therefore keeps one `UnixctlConnection` open;
`call` is for single questions.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from ctctl.clients.daemon_files import ControlSocket
from ctctl.errors import PermissionDeniedError, ProtocolError, TimedOutError, UnavailableError
from ctctl.wire.jsonrpc import JsonStream, Reply
from ctctl.wire.unixctl import encode_command, reply_text


class BacklogFullError(UnavailableError):
    """The daemon is there and does not accept: its queue of connections is full, so its main thread is stuck."""


class ConnectionLostError(UnavailableError):
    """The daemon closed the connection: it ended, or was restarted."""


class UnixctlConnection:
    """One open connection with at most one question outstanding. Not for several threads at once."""

    def __init__(self, path: Path) -> None:
        """Connect without waiting.

        Raises:
            BacklogFullError: the daemon lives but has not accepted connections for a while.
            PermissionDeniedError: the socket's mode or its directory's refuses this user.
            UnavailableError: nobody listens there.
        """
        self._path = path
        self._stream = JsonStream()
        self._request_id = 0
        self._is_asked = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            _connect(self._socket, path)
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """The socket's descriptor, for poll()."""
        return self._socket.fileno()

    @property
    def peer_pid(self) -> int | None:
        """The daemon's pid in this process's PID namespace, None when it is not visible from here."""
        credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        pid, _, _ = _UCRED.unpack(credentials)
        return int(pid) or None

    def ask(self, method: str, params: Sequence[str] = ()) -> None:
        """Send one command; its answer comes out of `receive`.

        Raises:
            CommandRefusedError: not a command that ctctl sends.
            ConnectionLostError: the daemon is gone.
        """
        if self._is_asked:
            raise ProtocolError(f"{self._path} has not answered the last command yet")
        self._request_id += 1
        data = encode_command(method, params, self._request_id)
        try:
            sent = self._socket.send(data, socket.MSG_NOSIGNAL)
        except OSError as e:
            raise ConnectionLostError(f"cannot send {method!r} to {self._path}: {e.strerror}") from e
        if sent != len(data):  # an empty socket buffer takes any command at once
            raise ConnectionLostError(f"{self._path} took {sent} of the {len(data)} bytes of {method!r}")
        self._is_asked = True

    def receive(self) -> str | None:
        """The answer's text if it is complete by now, else None. Never waits.

        Raises:
            CommandFailedError: the daemon answered with an error; the connection goes on.
            ConnectionLostError: the daemon closed the connection.
            ProtocolError: what came is no answer to the question; close the connection.
        """
        while True:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return None
            except OSError as e:
                raise ConnectionLostError(f"cannot receive from {self._path}: {e.strerror}") from e
            if not data:
                raise ConnectionLostError(f"{self._path} was closed by the daemon")
            messages = self._stream.feed(data)
            if not messages:
                continue
            reply = messages[0]
            if len(messages) > 1 or not isinstance(reply, Reply) or not self._is_asked:
                raise ProtocolError(f"{self._path} sent more than the answer to one command")
            if reply.request_id != self._request_id:
                raise ProtocolError(f"{self._path} answered command {reply.request_id!r}, not {self._request_id}")
            self._is_asked = False
            return reply_text(reply)

    def close(self) -> None:
        """Close the connection; harmless when repeated."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect_first(sockets: Sequence[ControlSocket]) -> tuple[UnixctlConnection, ControlSocket]:
    """Connect, without waiting, to the first of one daemon's possible control sockets where somebody listens.

    Raises:
        BacklogFullError: the daemon lives but does not accept.
        PermissionDeniedError: a file's mode refuses this user.
        UnavailableError: nobody listens.
    """
    refusal: UnavailableError | None = None
    for found in sockets:
        try:
            return UnixctlConnection(found.path), found
        except BacklogFullError:
            raise
        except PermissionDeniedError as e:
            refusal = e
        except UnavailableError as e:  # left behind by an earlier life; told only if there is nothing better to tell
            refusal = refusal or e
    raise refusal or UnavailableError("there is no control socket to connect to")


def call(path: Path, method: str, params: Sequence[str] = (), *, timeout_s: float) -> str:
    """One command on a connection of its own: the text it printed.

    Raises:
        CommandRefusedError: not a command that ctctl sends.
        CommandFailedError: the daemon answered with an error.
        TimedOutError: no answer within `timeout_s` seconds, or not even the connection was accepted.
        PermissionDeniedError, UnavailableError: the socket cannot be opened, or the daemon went away.
        ProtocolError: the daemon answered with something else.
    """
    deadline_s = time.monotonic() + timeout_s
    try:
        connection = UnixctlConnection(path)
    except BacklogFullError as e:
        raise TimedOutError(f"{path} does not accept a connection for {method!r}", remedy=_STUCK) from e
    with connection:
        connection.ask(method, params)
        while (text := connection.receive()) is None:
            wait_s = deadline_s - time.monotonic()
            poll = select.poll()
            poll.register(connection, select.POLLIN)
            if wait_s <= 0 or not poll.poll(wait_s * 1000):
                raise TimedOutError(f"{path} did not answer {method!r} within {timeout_s:g} s", remedy=_STUCK)
        return text


_STUCK = "the daemon's main thread is busy, stopped or starved: see `ctctl status`"

_MAX_ADDRESS_BYTES = 107

_UCRED = struct.Struct("3i")  # pid, uid, gid: unix(7)


def _connect(sock: socket.socket, path: Path) -> None:
    directory: int | None = None
    address = os.fsencode(path)
    try:
        if len(address) > _MAX_ADDRESS_BYTES:  # sun_path holds no more; the directory's descriptor shortens it
            directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            address = os.fsencode(f"/proc/self/fd/{directory}/{path.name}")
        sock.connect(address)
    except BlockingIOError as e:
        raise BacklogFullError(f"{path} does not accept connections", remedy=_STUCK) from e
    except PermissionError as e:
        raise PermissionDeniedError(
            f"cannot connect to {path} as uid {os.geteuid()}: {e.strerror}",
            remedy="run as its owner, add its group to the process, or grant DAC_OVERRIDE",
        ) from e
    except OSError as e:
        raise UnavailableError(f"cannot connect to {path}: {e.strerror}", remedy="start the daemon") from e
    finally:
        if directory is not None:
            os.close(directory)
