"""One HTTP connection under guard: its phase, its deadline, and how many bytes its request has taken so far."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Final, Protocol

MAX_REQUEST_BYTES: Final = 64 * 1024
"""Bytes a peer may send for one request. No route takes a body, so this is several times any honest request."""

_REQUEST_TIMEOUT: Final = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_BAD_REQUEST: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Phase(Enum):
    """What a connection is doing."""

    ASKING = "asking"
    COMPUTING = "computing"
    SENDING = "sending"
    IDLE = "idle"


class Guard(Protocol):
    """Whoever keeps the connections."""

    def time_s(self) -> float:
        """The event loop's own time."""
        ...

    def deadline_for(self, connection: Connection) -> asyncio.TimerHandle | None:
        """A timer that calls `expire`, for the phase the connection is in; None for none."""
        ...

    def enter(self, connection: Connection, phase: Phase) -> None:
        """Begin a phase of a connection that is still held."""
        ...

    def holds(self, connection: Connection) -> bool:
        """Claims that the connection has not been given up."""
        ...

    def forget(self, connection: Connection, reason: str = "") -> None:
        """Give the connection up. `reason`: why, where it was the server that ended it."""
        ...

    def attach(self, connection: Connection, transport: asyncio.BaseTransport) -> None:
        """The connection can be talked to now."""
        ...

    def detach(self, transport: asyncio.BaseTransport) -> None:
        """The transport has ended."""
        ...


class Connection(asyncio.Protocol):
    """One peer: passes bytes on to the HTTP protocol, which is made when the first byte arrives."""

    def __init__(self, guard: Guard, peer: socket.socket, make_http: Callable[[], asyncio.Protocol]) -> None:
        self._guard = guard
        self._peer = peer
        self._make_http = make_http
        self._http: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._received = 0
        self._deadline: asyncio.TimerHandle | None = None
        self.opening: asyncio.Task[None] | None = None
        self.phase = Phase.ASKING
        self.entered_s = 0.0
        self.is_last_answer = False

    @property
    def is_idle(self) -> bool:
        """Claims that the peer is the one to do something."""
        if self.phase is Phase.COMPUTING:
            return False
        try:
            return not self._peer.recv(1, socket.MSG_PEEK)
        except OSError:
            # Nothing to read, or no socket any more.
            return True

    def enter(self, phase: Phase) -> None:
        """Begin a phase, and its deadline; the request's bytes are counted afresh when its answer is begun."""
        self.phase = phase
        self.entered_s = self._guard.time_s()
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._guard.deadline_for(self)
        if phase is Phase.COMPUTING:
            self._received = 0

    def expire(self) -> None:
        """The phase's deadline has passed."""
        has_begun_to_ask = self.phase is Phase.ASKING and self._received > 0
        self.drop("deadline", _REQUEST_TIMEOUT if has_begun_to_ask else b"")

    def drop(self, reason: str, last_words: bytes = b"") -> None:
        """End the connection now, in whatever state it is."""
        self._guard.forget(self, reason)
        if self._transport is not None:
            if last_words and not self._transport.is_closing():
                self._transport.write(last_words)
                self._transport.close()
                # A peer that does not read keeps a closing transport open.
                asyncio.get_running_loop().call_later(1.0, self._transport.abort)
            else:
                self._transport.abort()
        elif self.opening is not None:
            # The event loop already has this socket; closed or cancelled from here, its number could be a newcomer's
            # while the loop still acts on it. Shut down, it ends by itself.
            with suppress(OSError):
                self._peer.shutdown(socket.SHUT_RDWR)
        else:
            asyncio.get_running_loop().remove_reader(self._peer.fileno())
            self._peer.close()

    def finish(self) -> None:
        """Close once what was answered is sent."""
        if self._transport is not None:
            self._transport.close()

    def end_deadline(self) -> None:
        """No deadline applies any more."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Plain: right after accepting. TLS: after the handshake."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"a stream transport is needed, not {type(transport).__name__}")
        self._transport = transport
        self._guard.attach(self, transport)

    def data_received(self, data: bytes) -> None:
        """Pass on, within the bound."""
        if self._transport is None or not self._guard.holds(self):
            return
        self._received += len(data)
        if self._received > MAX_REQUEST_BYTES:
            self.drop("oversize", _TOO_LARGE if self.phase is Phase.ASKING else b"")
            return
        if self.phase is Phase.IDLE:
            self._guard.enter(self, Phase.ASKING)
        if self._http is None:
            self._http = self._make_http()
            self._http.connection_made(self._transport)
        try:
            self._http.data_received(data)
        except ValueError:
            # A target that is no URL: newer parsers answer it themselves, older ones let it through to here.
            self.drop("malformed", _BAD_REQUEST)

    def eof_received(self) -> bool | None:
        """The peer sends no more; close when what is under way is answered."""
        return None if self._http is None else self._http.eof_received()

    def pause_writing(self) -> None:
        """Flow control of the HTTP protocol."""
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        """Flow control of the HTTP protocol."""
        if self._http is not None:
            self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, whoever wanted it."""
        self._guard.forget(self)
        if self._transport is not None:
            self._guard.detach(self._transport)
        if self._http is not None:
            self._http.connection_lost(exc)
