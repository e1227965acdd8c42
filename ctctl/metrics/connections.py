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
from dataclasses import dataclass
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from ctctl.metrics.connection import Connection, Phase

log: Final[FilteringBoundLogger] = structlog.get_logger("ctctl.metrics")

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

DROP_REASONS: Final = ("evicted", "deadline", "oversize", "malformed", "tls")


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
