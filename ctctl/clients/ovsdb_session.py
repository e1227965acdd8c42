"""What is told of one replica, from its first whole content to its end: content, confirmations, silence.

Decides when the rows are read and when the server is asked for a sign of life; connects nothing and retries nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ctctl.clients.ovsdb_idl import Replica
from ctctl.errors import TimedOutError
from ctctl.model.instant import Instant
from ctctl.wire.ovsdb import Row

READ_RATIO: Final = 1 / 3
"""While rows change without pause, reading them and building views may cost this share of one processor."""

LOOK_AROUND_S: Final = 1.0
"""How long a turn lasts at most, in seconds, so that its caller can look at the world."""

_SOONER: Final = 5
"""After a change the server is asked this much earlier than it would be."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How often the server is asked for a sign of life, and how long it may owe one, in seconds.

    A connection that is dead without saying so is noticed within `ask_interval_s + answer_timeout_s`.
    `longest_pause_s` bounds the growing pause between attempts, before the bound on their cost.
    """

    ask_interval_s: float
    answer_timeout_s: float
    longest_pause_s: float


@dataclass(frozen=True, slots=True)
class Content:
    """All rows of the wanted tables, each with its `_uuid`.

    Everything committed before `confirmed` is in them. `session` grows by one with each new replica.
    """

    tables: Mapping[str, Sequence[Row]]
    confirmed: Instant
    session: int


class ReplicaSession:
    """One replica being followed, as session number `number`. Not for several threads.

    `cpu_s`: processor time of the calling thread, in seconds.
    """

    def __init__(
        self,
        replica: Replica,
        number: int,
        timing: Timing,
        clock: Callable[[], Instant],
        tell_content: Callable[[Content], None],
        tell_confirmed: Callable[[Instant], None],
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._replica = replica
        self._number = number
        self._timing = timing
        self._clock = clock
        self._tell_content = tell_content
        self._tell_confirmed = tell_confirmed
        self._cpu_s = cpu_s
        self._tables: dict[str, Sequence[Row]] = {}
        self._changed: frozenset[str] = frozenset()
        self._confirmed: Instant | None = None
        self._next_read_s = clock().boot_s

    def turn(self, wake_fd: int) -> None:
        """Wait for news, for `wake_fd`, or for at most `LOOK_AROUND_S`, and tell what there is to tell.

        Raises:
            ReplicaLostError, ReplicaFaultError: as `Replica.step` says.
            TimedOutError: the server owes an answer for too long.
        """
        self._replica.step(self._wait_s(), wake_fd)
        now = self._clock()
        if self._replica.silence_s(now) > self._timing.answer_timeout_s:
            raise TimedOutError(
                f"{self._replica.address} sent nothing for {self._timing.answer_timeout_s:g} s although asked",
                remedy="look at the server's process and at the network in between",
            )
        confirmed = self._replica.confirmed
        if confirmed is None:
            return
        has_news = bool(news := self._replica.take_changed())
        self._changed |= news
        if self._changed and now.boot_s >= self._next_read_s:
            self._read(confirmed)
        # A confirmation is about what was told: none while a change waits to be.
        if not self._changed and confirmed != self._confirmed:
            self._confirmed = confirmed
            self._tell_confirmed(confirmed)
        if now.since(self._replica.asked) >= self._timing.ask_interval_s / (_SOONER if has_news else 1):
            self._replica.ask()

    def _read(self, confirmed: Instant) -> None:
        begun_s = self._cpu_s()
        self._tables |= {table: self._replica.rows(table) for table in self._changed}
        self._changed = frozenset()
        self._tell_content(Content(dict(self._tables), confirmed, self._number))
        cost_s = self._cpu_s() - begun_s
        self._next_read_s = self._clock().boot_s + cost_s * (1 / READ_RATIO - 1)

    def _wait_s(self) -> float:
        """How long nothing need be done unless the server sends something, in seconds."""
        now = self._clock()
        wait_s = LOOK_AROUND_S
        if self._replica.is_idle:
            wait_s = min(wait_s, self._timing.ask_interval_s - now.since(self._replica.asked))
        if self._changed:
            wait_s = min(wait_s, self._next_read_s - now.boot_s)
        return max(wait_s, 0.0)
