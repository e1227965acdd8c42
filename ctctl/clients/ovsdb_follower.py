"""Follows one OVSDB database for as long as the agent lives: connects, reconnects, and says what holds and what not.

Every connection gets a new replica. Trouble of any kind ends the replica, is told, and leads to another attempt after
a pause that grows, varies, and keeps the cost of attempts below 5 % of a processor. What the rows mean is the
listener's business.
"""

from __future__ import annotations

import os
import random
import select
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from ctctl.clients.deadline import Deadline
from ctctl.clients.ovsdb_connection import ConnectionLostError, OvsdbConnection, fetch_schema
from ctctl.clients.ovsdb_idl import Replica, ReplicaFaultError
from ctctl.clients.ovsdb_remote import Remote, TlsFiles, socket_inode
from ctctl.clients.ovsdb_session import LOOK_AROUND_S, Content, ReplicaSession, Timing
from ctctl.errors import CtctlError
from ctctl.model.instant import Instant
from ctctl.wire.ovsdb import Select

CPU_RATIO: Final = 0.05
"""Attempts to connect, each with a whole replica to build, may cost this share of one processor."""

STABLE_S: Final = 60.0
"""A connection that lasted this long without trouble starts the next outage with a short pause again."""

FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to replicate: a database, its tables and columns, and columns that only newer schemas have."""

    database: str
    selects: tuple[Select, ...]
    optional: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Remotes:
    """Where the database is now. Without any, `why` says what is missing, and whether that is how it should be."""

    remotes: tuple[Remote, ...]
    why: str = ""
    is_configured: bool = True


class Listener(Protocol):
    """Told from the follower's own thread; must not block."""

    def content_read(self, content: Content) -> None:
        """The rows changed, or a new replica is complete."""
        ...

    def content_confirmed(self, at: Instant) -> None:
        """The last content told still held at `at`."""
        ...

    def connection_lost(self, why: str, *, is_configured: bool) -> None:
        """Nothing is known any more. Told again only for a reason not told since the last content."""
        ...


class OvsdbFollower:
    """One thread's work. `find_remotes` is asked before each attempt and once per second; it must not block."""

    def __init__(
        self,
        wanted: Wanted,
        find_remotes: Callable[[], Remotes],
        listener: Listener,
        clock: Callable[[], Instant],
        timing: Timing,
        tls: TlsFiles | None = None,
    ) -> None:
        self._wanted = wanted
        self._find_remotes = find_remotes
        self._listener = listener
        self._clock = clock
        self._timing = timing
        self._tls = tls
        self._is_stopped = threading.Event()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._wake_fd)  # stop() may come after run() has returned
        self._random = random.Random()  # noqa: S311 - spreads attempts over time, keeps no secret
        self._session = 0
        self._faults = 0
        self._next_remote = self._random.randrange(1 << 16)
        self._refusals: dict[Remote, str] = {}
        self._told: set[str] = set()

    @property
    def faults(self) -> int:
        """How often the IDL itself failed since the start."""
        return self._faults

    def run(self) -> None:
        """Follow the database until `stop` is called."""
        failures = 0
        while not self._is_stopped.is_set():
            choice = self._find_remotes()
            if not choice.remotes:
                self._tell(choice.why, is_configured=choice.is_configured)
                self._pause(LOOK_AROUND_S)
                continue
            started = self._clock()
            cpu_started_s = time.thread_time()
            self._attempt(choice)
            lasted_s = self._clock().since(started)
            cpu_s = time.thread_time() - cpu_started_s
            failures = 1 if lasted_s >= STABLE_S else failures + 1
            if self._find_remotes() == choice:
                # One attempt more is always affordable; only their repetition is not.
                costly_s = cpu_s / CPU_RATIO - lasted_s if failures > 1 else 0.0
                self._pause(min(max(self._backoff_s(failures), costly_s), LONGEST_PAUSE_S))

    def stop(self) -> None:
        """Make `run` return within a second; callable from any thread."""
        self._is_stopped.set()
        self.wake()

    def wake(self) -> None:
        """Make `run` ask for the remotes now; callable from any thread."""
        os.eventfd_write(self._wake_fd, 1)

    def _attempt(self, choice: Remotes) -> None:
        """Connect to the next of the remotes and follow it until something goes wrong."""
        remote = choice.remotes[self._next_remote % len(choice.remotes)]
        try:
            self._follow(remote, choice)
        except ReplicaFaultError as e:
            self._faults += 1
            self._refuse(remote, choice, str(e))
        except CtctlError as e:
            self._refuse(remote, choice, str(e))

    def _refuse(self, remote: Remote, choice: Remotes, why: str) -> None:
        if self._is_stopped.is_set():
            return
        self._next_remote += 1
        self._refusals = {r: w for r, w in self._refusals.items() if r in choice.remotes} | {remote: why}
        # One reason for all addresses, always in the same order, so that trying them in turn is not news.
        self._tell(" | ".join(dict.fromkeys(self._refusals[r] for r in choice.remotes if r in self._refusals)))

    def _tell(self, why: str, *, is_configured: bool = True) -> None:
        if why not in self._told:
            self._told.add(why)
            self._listener.connection_lost(why, is_configured=is_configured)

    def _follow(self, remote: Remote, choice: Remotes) -> None:
        """Returns when the database is to be looked for elsewhere, or on stop; everything else raises."""
        deadline = Deadline(self._timing.answer_timeout_s, self._is_stopped.is_set)
        inode = socket_inode(remote)
        with OvsdbConnection(remote, self._tls, deadline) as connection:
            schema = fetch_schema(connection, self._wanted.database, deadline)
            # The library looks up no names, and this address has just answered.
            address = connection.peer_address()
        replica = Replica(address, schema, self._wanted.selects, self._wanted.optional, self._tls, self._clock)
        session = ReplicaSession(
            replica, self._session + 1, self._timing, self._clock, self._read, self._listener.content_confirmed
        )
        try:
            self._drive(session, remote, choice, inode)
        finally:
            replica.close()

    def _drive(self, session: ReplicaSession, remote: Remote, choice: Remotes, inode: tuple[int, int] | None) -> None:
        checked_s = time.monotonic()
        while not self._is_stopped.is_set():
            session.turn(self._wake_fd)
            if not self._drain_wake_fd() and time.monotonic() - checked_s < LOOK_AROUND_S:
                continue
            checked_s = time.monotonic()
            if self._find_remotes() != choice:
                return
            if (found := socket_inode(remote)) is not None and found != inode:
                raise ConnectionLostError(f"{remote} was re-created by another server")

    def _read(self, content: Content) -> None:
        self._session = content.session
        self._refusals.clear()
        self._told.clear()
        self._listener.content_read(content)

    def _backoff_s(self, failures: int) -> float:
        """Full jitter above a floor: a fleet that lost one server does not come back as one."""
        longest = min(self._timing.longest_pause_s, FIRST_PAUSE_S * 2.0 ** min(failures, 16))
        return self._random.uniform(longest / 2, longest)

    def _pause(self, duration_s: float) -> None:
        """Wait; a wake-up ends it early."""
        end_s = time.monotonic() + duration_s
        poller = select.poll()
        poller.register(self._wake_fd, select.POLLIN)
        while (left_s := end_s - time.monotonic()) > 0 and not self._is_stopped.is_set():
            if poller.poll(left_s * 1000):
                self._drain_wake_fd()
                return

    def _drain_wake_fd(self) -> bool:
        try:
            os.eventfd_read(self._wake_fd)
        except BlockingIOError:
            return False
        return True
