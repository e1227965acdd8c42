"""Makes episodes of what probes, /proc and logs tell about stalls: one stall, one episode, whoever told of it.

Facts and the time in, ended episodes out. The same stall of a main thread is told up to a dozen times: by a probe
that stays unanswered, by every thread that waits for it (1, 2, 4 … s, lower bounds) and, when it is over, by the
daemon's exact figure. Facts of one thread whose times overlap belong together; two exact figures never do. Which
routers were being set up meanwhile is remembered beside it, as a correlation: most stalls are a lack of CPU time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from ctctl.decide.stall_evidence import Evidence
from ctctl.model.daemon import Daemon, DaemonView
from ctctl.model.events import DaemonSeen, Event
from ctctl.model.histogram import STALL_BOUNDS_S, Histogram
from ctctl.model.instant import Instant
from ctctl.model.stalls import CpuMode, DaemonThread, LogRead, LongPoll, RcuBlocked, StallEpisode, StallTallies

MAIN: Final = "main"

REMEMBERED_SETUPS_S: Final = 600.0

NEAR_S: Final = 1.0
"""A zone's key becomes visible up to this long after the flush that held vswitchd up."""

THREADS: Final[Mapping[Daemon, tuple[DaemonThread, ...]]] = {
    Daemon.VSWITCHD: tuple(DaemonThread),
    Daemon.OVN_CONTROLLER: (DaemonThread.MAIN, DaemonThread.OTHER),
}


_NO_SECONDS: Final = Histogram.empty(STALL_BOUNDS_S)


def thread_kind(name: str) -> DaemonThread:
    """The kind of a thread, from its name in the daemon: "revalidator9" → revalidator, "pmd-c01/id:8" → pmd."""
    if name == MAIN:
        return DaemonThread.MAIN
    for kind in (DaemonThread.HANDLER, DaemonThread.REVALIDATOR, DaemonThread.PMD):
        if name.startswith(kind):
            return kind
    return DaemonThread.OTHER


class StallTracker:
    """The stalls of both daemons. Tell it every event, and the time passing; it forgets an episode once it is told."""

    def __init__(self, timeout_s: float) -> None:
        """`timeout_s`: age in seconds from which an unanswered probe is a stall."""
        self._timeout_s = timeout_s
        self._open: dict[tuple[Daemon, str], Evidence] = {}
        self._views: dict[Daemon, DaemonView] = {}
        self._said: dict[Daemon, Instant] = {}
        self._setups: deque[tuple[Instant, frozenset[str]]] = deque()
        keys = [(daemon, thread) for daemon, threads in THREADS.items() for thread in threads]
        self._probe_seconds = dict.fromkeys(Daemon, _NO_SECONDS)
        self._tallies = StallTallies(
            episodes=dict.fromkeys(keys, 0),
            rcu_stall_seconds=dict.fromkeys(DaemonThread, _NO_SECONDS),
            long_poll_seconds=dict.fromkeys(keys, _NO_SECONDS),
            long_poll_cpu_s={(daemon, mode): 0.0 for daemon in Daemon for mode in CpuMode},
            near_router_change=0,
        )

    @property
    def tallies(self) -> StallTallies:
        """Sums so far, without the prediction, which is made elsewhere."""
        return self._tallies

    @property
    def probe_seconds(self) -> Mapping[Daemon, Histogram]:
        """Round trips of all answered probes."""
        return dict(self._probe_seconds)

    def lasting(self, now: Instant) -> tuple[StallEpisode, ...]:
        """The stalls that go on, as far as they are known by now."""
        return tuple(self._episode(e, now) for e in self._open.values() if e.is_lasting)

    def handle(self, event: Event, now: Instant, routers_in_setup: Collection[str] = ()) -> list[StallEpisode]:
        """Take one event in; return the episodes known to be over by now, each exactly once.

        `routers_in_setup`: names of the routers whose zones are being set up at this moment.
        """
        self._remember(frozenset(routers_in_setup), now)
        ended: list[StallEpisode] = []
        match event:
            case DaemonSeen(view):
                self._see(view, now)
            case RcuBlocked():
                ended += self._rcu_blocked(event, now)
            case LongPoll():
                ended += self._long_poll(event, now)
            case LogRead():
                self._log_read(event)
            case _:
                pass
        for view in self._views.values():
            ended += self._wait(view, now)
        ended += [e for key in list(self._open) if self._open[key].is_settled(now) for e in self._end(key, now)]
        return ended

    def _see(self, view: DaemonView, now: Instant) -> None:
        before = self._views.get(view.daemon)
        self._views[view.daemon] = view
        self._said[view.daemon] = now
        if view.long_poll_intervals is not None:
            counters = {**self._tallies.coverage_long_poll_intervals, view.daemon: view.long_poll_intervals}
            self._tallies = replace(self._tallies, coverage_long_poll_intervals=counters)
        is_answer = view.last_round_trip_s is not None and (before is None or view.answers > before.answers)
        if is_answer and view.last_round_trip_s is not None:
            self._probe_seconds[view.daemon] = self._probe_seconds[view.daemon].observe(view.last_round_trip_s)
        evidence = self._open.get((view.daemon, MAIN))
        if evidence is not None and evidence.awaits_answer and evidence.asked != view.unanswered_since:
            evidence.answer(view, now)

    def _wait(self, view: DaemonView, now: Instant) -> list[StallEpisode]:
        """A probe that has been unanswered for too long is a stall, or belongs to the one that is known."""
        asked = view.unanswered_since
        if asked is None:
            return []
        key = (view.daemon, MAIN)
        known = self._open.get(key)
        since = asked
        if known is not None and known.poll is not None:
            # That stall is over. What the prober says is still unanswered a while later waits for another one; that
            # it has said nothing yet about the end may only mean that it did not get to run.
            since = max(asked, known.poll.at)
            if self._said[view.daemon].since(since) < self._timeout_s:
                return []
        elif known is not None and known.asked == asked:
            known.watch(view, now)
            return []
        if now.since(since) < self._timeout_s:
            return []
        ended: list[StallEpisode] = []
        if known is None or not known.may_take_probe(since):
            ended = self._end(key, now)
            known = self._open[key] = Evidence(view.daemon, DaemonThread.MAIN, since, now)
        known.ask(asked, since, view, now)
        return ended

    def _rcu_blocked(self, fact: RcuBlocked, now: Instant) -> list[StallEpisode]:
        started = before(fact.at, fact.blocked_s)
        evidence, ended = self._evidence((fact.daemon, fact.thread_name), started, fact.at, now)
        evidence.block(fact, started, now)
        return ended

    def _long_poll(self, fact: LongPoll, now: Instant) -> list[StallEpisode]:
        self._sum_up(fact)
        key = (fact.daemon, fact.thread_name)
        known = self._open.get(key)
        ended = self._end(key, now) if known is not None and known.poll is not None else []
        started = before(fact.at, fact.duration_s)
        evidence, others = self._evidence(key, started, fact.at, now)
        evidence.measure(fact, started, now)
        return ended + others

    def _sum_up(self, fact: LongPoll) -> None:
        seconds, cpu_s = dict(self._tallies.long_poll_seconds), dict(self._tallies.long_poll_cpu_s)
        key = (fact.daemon, thread_kind(fact.thread_name))
        seconds[key] = seconds.get(key, _NO_SECONDS).observe(fact.duration_s)
        cpu_s[fact.daemon, CpuMode.USER] += fact.user_s
        cpu_s[fact.daemon, CpuMode.SYSTEM] += fact.system_s
        self._tallies = replace(self._tallies, long_poll_seconds=seconds, long_poll_cpu_s=cpu_s)

    def _evidence(
        self, key: tuple[Daemon, str], started: Instant, ended: Instant, now: Instant
    ) -> tuple[Evidence, list[StallEpisode]]:
        """The open stall of a thread that this time is a part of, or a new one; and what that ends."""
        known = self._open.get(key)
        if known is not None and known.overlaps(started, ended):
            return known, []
        over = self._end(key, now)
        made = self._open[key] = Evidence(key[0], thread_kind(key[1]), started, now)
        return made, over

    def _end(self, key: tuple[Daemon, str], now: Instant) -> list[StallEpisode]:
        evidence = self._open.pop(key, None)
        if evidence is None:
            return []
        episode = self._episode(evidence, now)
        episodes, rcu = dict(self._tallies.episodes), dict(self._tallies.rcu_stall_seconds)
        episodes[episode.daemon, episode.thread] = episodes.get((episode.daemon, episode.thread), 0) + 1
        if episode.rcu_blocked_s > 0:
            rcu[episode.thread] = rcu[episode.thread].observe(episode.rcu_blocked_s)
        is_near = episode.daemon is Daemon.VSWITCHD and bool(episode.routers)
        near = (self._tallies.near_router_change or 0) + is_near
        self._tallies = replace(self._tallies, episodes=episodes, rcu_stall_seconds=rcu, near_router_change=near)
        return [episode]

    def _episode(self, evidence: Evidence, now: Instant) -> StallEpisode:
        episode = evidence.episode(now)
        return replace(episode, routers=self._routers_between(episode.started, episode.ended or now))

    def _log_read(self, fact: LogRead) -> None:
        tallies, daemon = self._tallies, fact.daemon
        self._tallies = replace(
            tallies,
            log_lines={**tallies.log_lines, daemon: fact.lines},
            log_read=tallies.log_read if fact.read is None else {**tallies.log_read, daemon: fact.read},
            log_suppressed={**tallies.log_suppressed, daemon: fact.suppressed},
            log_skipped_bytes={**tallies.log_skipped_bytes, daemon: fact.skipped_bytes},
        )

    def _remember(self, routers: frozenset[str], now: Instant) -> None:
        if not self._setups or self._setups[-1][1] != routers:
            self._setups.append((now, routers))
        while len(self._setups) > 1 and now.since(self._setups[1][0]) > REMEMBERED_SETUPS_S:
            self._setups.popleft()

    def _routers_between(self, started: Instant, ended: Instant) -> tuple[str, ...]:
        found: set[str] = set()
        until = Instant(float("inf"), float("inf"))
        for since, routers in reversed(self._setups):
            if since.boot_s <= ended.boot_s + NEAR_S and until.boot_s >= started.boot_s:
                found |= routers
            until = since
        return tuple(sorted(found))


def before(instant: Instant, seconds: float) -> Instant:
    """The instant so many seconds earlier."""
    return Instant(instant.boot_s - seconds, instant.wall_s - seconds)
