"""Everything told about one stall of one thread, while more of it may come in, and the episode it adds up to."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ctctl.decide.occupation import occupation
from ctctl.model.daemon import Daemon, DaemonView, ThreadSample, ThreadState
from ctctl.model.instant import Instant
from ctctl.model.stalls import DaemonThread, LongPoll, RcuBlocked, StallEpisode

SETTLE_S: Final = 2.0
"""How long a stall that seems over is kept for others that tell of it: a log is read up to a second late."""

SLACK_S: Final = 0.2
"""How far apart two facts of one stall may seem, being timed by different clocks and rounded."""


class Evidence:
    """What has been told of one stall. `asked`: when the probe was sent that it keeps, None without one."""

    def __init__(self, daemon: Daemon, kind: DaemonThread, started: Instant, now: Instant) -> None:
        self.asked: Instant | None = None
        self.poll: LongPoll | None = None
        self._daemon = daemon
        self._kind = kind
        self._started = started
        self._ended = started
        self._told = now
        self._is_answered = False
        self._rcu_blocked_s = 0.0
        self._first: ThreadSample | None = None
        self._last: ThreadSample | None = None
        self._states: Counter[ThreadState] = Counter()

    @property
    def awaits_answer(self) -> bool:
        """Claims that its probe is still unanswered."""
        return self.asked is not None and not self._is_answered

    @property
    def is_lasting(self) -> bool:
        """Claims that its probe is still unanswered, and that the daemon has not given its length either."""
        return self.awaits_answer and self.poll is None

    def is_settled(self, now: Instant) -> bool:
        """Claims that nothing more is to be expected.

        A wait for RCU is logged again when it has lasted twice as long, and its end is not logged.
        """
        if self.awaits_answer:
            return False
        is_over = self.asked is not None or self.poll is not None
        return now.since(self._told) > SETTLE_S + (0.0 if is_over else self._rcu_blocked_s)

    def overlaps(self, started: Instant, ended: Instant) -> bool:
        """Claims that something from `started` to `ended` was a part of this stall."""
        if ended.since(self._started) < -SLACK_S:
            return False
        if self.poll is not None:  # the next stall may begin at once: whose is the greater part?
            return (started.boot_s + ended.boot_s) / 2 < self._ended.boot_s
        return self.is_lasting or started.since(self._ended) <= SLACK_S

    def may_take_probe(self, asked: Instant) -> bool:
        """Claims that a probe sent then, and still unanswered, waits for this stall to end."""
        return self.asked is None and self.poll is None and asked.since(self._ended) <= SLACK_S

    def ask(self, asked: Instant, since: Instant, view: DaemonView, now: Instant) -> None:
        """The probe sent at `asked` has been unanswered for too long, `since` then or the end of an earlier stall."""
        self.asked = asked
        self._started = min(self._started, since)
        self._first = view.thread_when_asked
        self.watch(view, now)

    def watch(self, view: DaemonView, now: Instant) -> None:
        """The probe is still unanswered."""
        self._told = now
        if view.thread is not None and view.thread != self._last:
            self._last = view.thread
            self._states[view.thread.state] += 1

    def answer(self, view: DaemonView, now: Instant) -> None:
        """The probe was answered, or its daemon has gone."""
        self._is_answered = True
        self._last = view.thread or self._last
        self._tell(self._started, now if view.thread is None else view.thread.at, now)

    def block(self, fact: RcuBlocked, started: Instant, now: Instant) -> None:
        """Another thread has been waiting for this one since `started`."""
        self._rcu_blocked_s = max(self._rcu_blocked_s, fact.blocked_s)
        self._tell(started, fact.at, now)

    def measure(self, fact: LongPoll, started: Instant, now: Instant) -> None:
        """The daemon has logged the exact length."""
        self.poll = fact
        self._started = started
        self._ended = fact.at
        self._told = now

    def episode(self, now: Instant) -> StallEpisode:
        """What it adds up to by now, without the routers."""
        ended = None if self.is_lasting else self._ended
        user_s, system_s = self._cpu_s()
        return StallEpisode(
            daemon=self._daemon,
            thread=self._kind,
            started=self._started,
            ended=ended,
            duration_s=(ended or now).since(self._started) if self.poll is None else self.poll.duration_s,
            is_exact=self.poll is not None,
            occupation=occupation(self.poll, self._first, self._last, self._states),
            user_s=user_s,
            system_s=system_s,
            rcu_blocked_s=self._rcu_blocked_s,
        )

    def _cpu_s(self) -> tuple[float, float] | tuple[None, None]:
        if self.poll is not None:
            return self.poll.user_s, self.poll.system_s
        if self._first is None or self._last is None:
            return None, None
        return self._last.user_s - self._first.user_s, self._last.system_s - self._first.system_s

    def _tell(self, started: Instant, ended: Instant, now: Instant) -> None:
        self._told = now
        if self.poll is None:  # that one is exact
            self._started = min(self._started, started)
            self._ended = max(self._ended, ended)
