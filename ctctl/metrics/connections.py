"""Connections under guard: how many, for how long, and with how many bytes before a request is whole.

The HTTP library parses and answers; it knows no deadline for headers and no bound on connections. Here each
connection is in one phase at a time, each phase but computing an answer has a deadline, and when all places are
taken a newcomer gets the place of whoever has been idle longest. A probe that connects and asks at once is therefore
answered however many silent peers there are. Knows nothing about routes.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

log: Final[FilteringBoundLogger] = structlog.get_logger("ctctl.metrics")

MAX_REQUEST_BYTES: Final = 64 * 1024
"""Bytes a peer may send for one request. No route takes a body, so this is several times any honest request."""

_ACCEPTS_PER_WAKE: Final = 64
_ACCEPT_PAUSE_S: Final = 0.05
_GRACE_S: Final = 0.1
"""A newcomer keeps its place so long, time for a handshake and a request; a flood waits in the kernel meanwhile."""

_SUMMARY_INTERVAL_S: Final = 60.0
_CLOSE_TIMEOUT_S: Final = 0.5
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PEER_HAS_GONE: Final = frozenset(
    {
        errno.ECONNABORTED, errno.ENETDOWN, errno.EPROTO, errno.ENOPROTOOPT, errno.EHOSTDOWN, errno.ENONET,
        errno.EHOSTUNREACH, errno.EOPNOTSUPP, errno.ENETUNREACH,
    }
)  # fmt: skip
"""accept(2) on Linux passes on what the network said of a connection that was never accepted."""

_REQUEST_TIMEOUT: Final = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

DROP_REASONS: Final = ("evicted", "deadline", "oversize", "tls")


class Phase(Enum):
    """What a connection is doing."""

    ASKING = "asking"
    COMPUTING = "computing"
    SENDING = "sending"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on all connections together and on each phase of one.

    `asking_s`: from connecting (TLS handshake included), or from the first byte of a further request, to the end of
    its headers. `sending_s`: for the peer to take the answer. `idle_s`: between two requests.
    """

    max_connections: int
    asking_s: float
    sending_s: float
    idle_s: float


class Connection(asyncio.Protocol):
    """One peer: passes bytes on to the HTTP protocol, which is made when the first byte arrives."""

    def __init__(self, guard: ConnectionGuard, peer: socket.socket, make_http: Callable[[], asyncio.Protocol]) -> None:
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
        self._http.data_received(data)

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


class ConnectionGuard:
    """Accepts, counts, and ends connections. All methods belong to the event loop's thread.

    `make_http`: a new HTTP protocol for one connection. `tls`: the context for the next connection, None for plain.
    `is_welcome`: asked once a connection is set up; others are ended before their first byte is looked at.
    """

    def __init__(
        self,
        limits: Limits,
        make_http: Callable[[], asyncio.Protocol],
        tls: Callable[[], ssl.SSLContext | None],
        is_welcome: Callable[[asyncio.BaseTransport], bool],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._limits = limits
        self._make_http = make_http
        self._tls = tls
        self._is_welcome = is_welcome
        self._loop = loop
        # Both in the order in which their connections have been doing nothing, longest first.
        self._open: OrderedDict[Connection, None] = OrderedDict()
        self._silent: OrderedDict[Connection, None] = OrderedDict()
        self._by_transport: dict[asyncio.BaseTransport, Connection] = {}
        self._listening: list[socket.socket] = []
        self.drops: Counter[str] = Counter(dict.fromkeys(DROP_REASONS, 0))
        self._drops_logged_at = -_SUMMARY_INTERVAL_S

    @property
    def count(self) -> int:
        """Connections open now, TLS handshakes included."""
        return len(self._open)

    def listen(self, listening: socket.socket) -> None:
        """Accept from `listening` until `close`."""
        self._listening.append(listening)
        self._loop.add_reader(listening.fileno(), self._accept, listening)

    async def close(self) -> None:
        """Accept no more, end every connection, and wait a moment until they have ended."""
        for listening in self._listening:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        self._listening.clear()
        opening = {connection.opening for connection in self._open if connection.opening is not None}
        for connection in list(self._open):
            connection.drop("")
        if opening:
            await asyncio.wait(opening, timeout=_CLOSE_TIMEOUT_S)

    def time_s(self) -> float:
        """The loop's own time."""
        return self._loop.time()

    def of(self, transport: asyncio.BaseTransport | None) -> Connection | None:
        """The connection behind a request's transport, None when it has ended."""
        return None if transport is None else self._by_transport.get(transport)

    def holds(self, connection: Connection) -> bool:
        """Claims that the connection has not been given up."""
        return connection in self._open

    def enter(self, connection: Connection, phase: Phase) -> None:
        """Begin a phase of a connection; it is now the least idle one."""
        if connection not in self._open:
            return
        if phase is Phase.IDLE and connection.is_last_answer:
            connection.finish()
        self._open.move_to_end(connection)
        connection.enter(phase)

    def deadline_for(self, connection: Connection) -> asyncio.TimerHandle | None:
        """A timer for the phase the connection is in; none while an answer is computed, which has its own."""
        seconds = {
            Phase.ASKING: self._limits.asking_s,
            Phase.SENDING: self._limits.sending_s,
            Phase.IDLE: self._limits.idle_s,
        }.get(connection.phase)
        return None if seconds is None else self._loop.call_later(seconds, connection.expire)

    def attach(self, connection: Connection, transport: asyncio.BaseTransport) -> None:
        """The connection can be talked to now."""
        if connection not in self._open:
            # It was given up during its handshake.
            connection.drop("")
        elif not self._is_welcome(transport):
            connection.drop("tls")
        else:
            self._by_transport[transport] = connection

    def renew(self) -> None:
        """No connection outlives the access rules it was set up under: those at rest end now, others when answered."""
        for connection in list(self._open):
            if connection.phase is Phase.IDLE:
                connection.drop("")
            else:
                connection.is_last_answer = True

    def detach(self, transport: asyncio.BaseTransport) -> None:
        """The transport has ended."""
        self._by_transport.pop(transport, None)

    def forget(self, connection: Connection, reason: str = "") -> None:
        """Free the connection's place, and count why when it was the server that ended it."""
        if connection not in self._open:
            return
        del self._open[connection]
        self._silent.pop(connection, None)
        connection.end_deadline()
        if reason:
            self.drops[reason] += 1
            self._log_drops()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_WAKE):
            leaving = None
            if len(self._open) >= self._limits.max_connections:
                leaving = self._next_to_leave()
                if leaving is None:
                    self._pause(listening, _GRACE_S / 4)
                    return
            try:
                peer, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _PEER_HAS_GONE:
                    continue
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                self._make_room()
                self._pause(listening, _ACCEPT_PAUSE_S)
                return
            if leaving is not None:
                leaving.drop("evicted")
            peer.settimeout(0.0)
            self._admit(peer)

    def _pause(self, listening: socket.socket, seconds: float) -> None:
        self._loop.remove_reader(listening.fileno())
        self._loop.call_later(seconds, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _admit(self, peer: socket.socket) -> None:
        connection = Connection(self, peer, self._make_http)
        self._open[connection] = None
        self._silent[connection] = None
        connection.enter(Phase.ASKING)
        # A peer that says nothing costs a socket and a timer, no transport and no TLS state.
        self._loop.add_reader(peer.fileno(), self._begin, connection, peer)

    def _begin(self, connection: Connection, peer: socket.socket) -> None:
        """The peer has said something, or has left."""
        self._loop.remove_reader(peer.fileno())
        self._open.move_to_end(connection)
        self._silent.pop(connection, None)
        connection.entered_s = self._loop.time()
        connection.opening = self._loop.create_task(self._set_up(connection, peer))

    def _make_room(self) -> None:
        """This process can have no more files or memory now: somebody gives their own back."""
        if (leaving := self._next_to_leave()) is not None:
            leaving.drop("evicted")

    def _next_to_leave(self) -> Connection | None:
        """Of those that never said a word, or else of all, who has been idle longest; None where all came just now.

        Who waits for something from here is not idle: an answer that is being made, or bytes nobody has read yet.
        """
        came_before_s = self._loop.time() - _GRACE_S
        for candidates in (self._silent, self._open):
            longest = next((connection for connection in candidates if connection.is_idle), None)
            if longest is not None and longest.entered_s <= came_before_s:
                return longest
        return None

    async def _set_up(self, connection: Connection, peer: socket.socket) -> None:
        try:
            tls = self._tls()
            await self._loop.connect_accepted_socket(
                lambda: connection, peer, ssl=tls, ssl_shutdown_timeout=None if tls is None else 1.0
            )
        except (OSError, ssl.SSLError):
            # A handshake that failed, or a peer that left during it: the peer's doing, counted and nothing more.
            self.forget(connection, "tls")

    def _log_drops(self) -> None:
        """One line a minute at most, however hard somebody tries."""
        now = self._loop.time()
        if now - self._drops_logged_at >= _SUMMARY_INTERVAL_S:
            self._drops_logged_at = now
            log.warning(
                "http_connections_dropped",
                open=len(self._open),
                limit=self._limits.max_connections,
                **{reason: number for reason, number in self.drops.items() if number},
            )
