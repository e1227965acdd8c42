"""Promises of the episode tracker: scripts of what is told about stalls, and what it adds up to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctctl.decide.stall_record import stall_record
from ctctl.decide.stalls import StallTracker, thread_kind
from ctctl.model.daemon import Daemon, DaemonView, ThreadSample, ThreadState
from ctctl.model.events import DaemonSeen, Event, TimePassed
from ctctl.model.instant import Instant
from ctctl.model.stalls import CpuMode, DaemonThread, LogRead, LongPoll, Occupation, RcuBlocked, StallEpisode

VSWITCHD = Daemon.VSWITCHD
EPOCH_WALL_S = 1_800_000_000.0


def at(seconds: float) -> Instant:
    return Instant(1000.0 + seconds, EPOCH_WALL_S + seconds)


def sample(seconds: float, state: ThreadState, user_s: float, system_s: float, waiting_s: float) -> ThreadSample:
    return ThreadSample(at(seconds), state, user_s, system_s, waiting_s)


class Script:
    """Events at given seconds, and the episodes they led to."""

    def __init__(self, timeout_s: float = 1.0) -> None:
        self.tracker = StallTracker(timeout_s)
        self.ended: list[StallEpisode] = []
        self.view = DaemonView(VSWITCHD, is_up=True)
        self.routers: set[str] = set()

    def tell(self, seconds: float, event: Event) -> None:
        self.ended += self.tracker.handle(event, at(seconds), self.routers)

    def unanswered(self, seconds: float, since: float, thread: ThreadSample | None = None) -> None:
        self.view = replace(self.view, unanswered_since=at(since), thread=thread)
        self.tell(seconds, DaemonSeen(self.view))

    def answered(self, seconds: float, round_trip_s: float) -> None:
        self.view = replace(
            self.view, unanswered_since=None, last_round_trip_s=round_trip_s, answers=self.view.answers + 1
        )
        self.tell(seconds, DaemonSeen(self.view))

    def blocked(self, seconds: float, ms: int, name: str = "main") -> None:
        self.tell(seconds + 0.2, RcuBlocked(VSWITCHD, name, ms / 1000, at(seconds)))

    def polled(self, seconds: float, ms: int, user_ms: int, system_ms: int, name: str = "main") -> None:
        self.tell(seconds + 0.2, LongPoll(VSWITCHD, name, ms / 1000, user_ms / 1000, system_ms / 1000, at(seconds)))

    def pass_until(self, seconds: float) -> None:
        self.tell(seconds, TimePassed())

    def lasting(self, seconds: float) -> tuple[StallEpisode, ...]:
        return self.tracker.lasting(at(seconds))


@pytest.fixture
def script() -> Script:
    return Script()


def test_one_stall_told_by_everybody_is_one_episode_with_its_exact_length(script: Script) -> None:
    script.routers = {"r1"}
    script.unanswered(0.7, since=0.2)
    script.unanswered(1.2, since=0.2)
    for elapsed, ms in ((1.1, 1000), (2.1, 2001), (4.1, 4001), (8.1, 8001)):
        script.blocked(elapsed, ms)
        script.unanswered(elapsed + 0.3, since=0.2)
    script.answered(10.6, round_trip_s=10.4)
    script.routers = set()
    script.polled(10.61, 10587, 1515, 9050)
    assert script.ended == []
    script.pass_until(13.0)
    [episode] = script.ended
    assert episode.thread is DaemonThread.MAIN
    assert episode.is_exact
    assert episode.duration_s == 10.587
    assert (episode.user_s, episode.system_s) == (1.515, 9.05)
    assert episode.occupation is Occupation.KERNEL_WORK
    assert episode.rcu_blocked_s == 8.001
    assert episode.routers == ("r1",)
    tallies = script.tracker.tallies
    assert tallies.episodes[VSWITCHD, DaemonThread.MAIN] == 1
    assert tallies.near_router_change == 1
    assert tallies.rcu_stall_seconds[DaemonThread.MAIN].count == 1
    assert tallies.long_poll_seconds[VSWITCHD, DaemonThread.MAIN].count == 1
    assert tallies.long_poll_cpu_s[VSWITCHD, CpuMode.SYSTEM] == 9.05
    assert script.tracker.probe_seconds[VSWITCHD].count == 1


def test_a_stall_is_known_while_it_lasts_and_grows(script: Script) -> None:
    script.unanswered(0.5, since=0.0)
    assert script.lasting(0.9) == ()
    script.pass_until(1.0)
    [episode] = script.lasting(1.5)
    assert episode.ended is None
    assert episode.duration_s == pytest.approx(1.5)
    [episode] = script.lasting(7.5)
    assert episode.duration_s == pytest.approx(7.5)
    assert script.ended == []


def test_a_probe_alone_makes_an_episode_of_about_its_length(script: Script) -> None:
    script.unanswered(0.5, since=0.0)
    script.unanswered(1.0, since=0.0)
    script.answered(3.0, round_trip_s=3.0)
    script.pass_until(6.0)
    [episode] = script.ended
    assert not episode.is_exact
    assert episode.duration_s == pytest.approx(3.0)
    assert episode.ended == at(3.0)


def test_a_late_answer_below_the_time_out_is_no_episode(script: Script) -> None:
    script.unanswered(0.5, since=0.0)
    script.answered(0.9, round_trip_s=0.9)
    script.pass_until(60)
    assert script.ended == []
    assert script.tracker.probe_seconds[VSWITCHD].count == 1


def test_the_same_view_again_is_no_second_answer(script: Script) -> None:
    script.answered(0.1, round_trip_s=0.01)
    script.tell(0.2, DaemonSeen(replace(script.view, is_up=False)))
    assert script.tracker.probe_seconds[VSWITCHD].count == 1


def test_a_log_alone_makes_an_episode_and_waits_for_the_next_doubling(script: Script) -> None:
    script.blocked(1.0, 1000, "revalidator9")
    script.pass_until(3.5)
    script.blocked(2.0, 2000, "revalidator9")
    script.pass_until(5.5)
    script.blocked(4.0, 4000, "revalidator9")
    script.pass_until(10.0)
    assert script.ended == []
    script.pass_until(12.3)
    [episode] = script.ended
    assert episode.thread is DaemonThread.REVALIDATOR
    assert episode.duration_s == pytest.approx(4.0)
    assert not episode.is_exact
    assert script.tracker.tallies.rcu_stall_seconds[DaemonThread.REVALIDATOR].count == 1


def test_two_exact_lengths_are_two_episodes_however_close(script: Script) -> None:
    script.polled(2.0, 1900, 100, 1700)
    script.polled(4.0, 1990, 100, 1800)
    script.pass_until(9.0)
    assert [e.duration_s for e in script.ended] == [1.9, 1.99]


def test_waits_in_one_stall_and_in_the_next_stay_with_their_own(script: Script) -> None:
    script.blocked(1.2, 1000)
    script.polled(2.0, 2000, 0, 2000)
    script.blocked(3.2, 1100)
    script.polled(4.5, 2480, 0, 2400)
    script.pass_until(9.0)
    assert [(e.duration_s, e.rcu_blocked_s) for e in script.ended] == [(2.0, 1.0), (2.48, 1.1)]


def test_a_probe_sent_at_the_end_of_one_stall_and_held_up_by_the_next_belongs_to_the_next(script: Script) -> None:
    script.unanswered(0.7, since=0.2)
    script.unanswered(1.3, since=0.2)
    script.answered(3.0, round_trip_s=2.8)  # asked again at once
    script.polled(3.01, 3000, 0, 2900)
    script.unanswered(3.5, since=3.0)
    script.unanswered(4.1, since=3.0)
    script.answered(6.0, round_trip_s=3.0)
    script.polled(6.02, 3005, 0, 2900)
    script.pass_until(9.0)
    assert [e.duration_s for e in script.ended] == [3.0, 3.005]
    assert script.tracker.tallies.episodes[VSWITCHD, DaemonThread.MAIN] == 2


def test_a_probe_that_spans_two_stalls_is_counted_with_both(script: Script) -> None:
    script.unanswered(1.5, since=0.5)
    script.polled(2.0, 2000, 0, 1900)
    script.unanswered(3.1, since=0.5)
    [lasting] = script.lasting(3.2)
    assert lasting.started == at(2.0)
    script.answered(4.0, round_trip_s=3.5)
    script.polled(4.0, 2000, 0, 1900)
    script.pass_until(9.0)
    assert [e.duration_s for e in script.ended] == [2.0, 2.0]


def test_threads_are_kept_apart_and_have_no_numbers(script: Script) -> None:
    script.blocked(1.0, 1000, "revalidator8")
    script.blocked(1.0, 1000, "revalidator9")
    script.blocked(1.0, 1000, "main")
    script.polled(1.0, 1500, 10, 10, "handler1")
    script.pass_until(60.0)
    assert sorted(e.thread for e in script.ended) == ["handler", "main", "revalidator", "revalidator"]


def test_a_daemon_that_goes_away_ends_its_stall(script: Script) -> None:
    script.unanswered(1.0, since=0.0)
    script.tell(5.0, DaemonSeen(replace(script.view, is_up=False, unanswered_since=None)))
    script.pass_until(8.0)
    [episode] = script.ended
    assert episode.duration_s == pytest.approx(5.0)
    assert script.lasting(8.0) == ()


def test_an_exact_length_that_arrives_before_the_answer_is_noticed_is_joined(script: Script) -> None:
    script.unanswered(1.0, since=0.0)
    script.polled(4.0, 4100, 50, 60)
    script.answered(4.3, round_trip_s=4.0)
    script.pass_until(9.0)
    [episode] = script.ended
    assert episode.duration_s == 4.1


def test_a_prober_that_is_late_to_notice_the_answer_makes_no_second_episode(script: Script) -> None:
    script.unanswered(1.0, since=0.0)
    script.polled(4.0, 4100, 50, 60)
    for seconds in (4.5, 5.0, 5.5, 6.0):
        script.pass_until(seconds)
    script.answered(6.4, round_trip_s=6.4)
    script.pass_until(12.0)
    [episode] = script.ended
    assert episode.duration_s == 4.1


@pytest.mark.parametrize(
    ("state", "used", "doing"),
    [
        (ThreadState.RUNNING, (0.2, 3.5, 0.0), Occupation.KERNEL_WORK),
        (ThreadState.RUNNING, (3.5, 0.2, 0.0), Occupation.USER_WORK),
        (ThreadState.RUNNING, (0.1, 0.1, 3.6), Occupation.STARVED),
        (ThreadState.RUNNING, (0.1, 0.1, 0.0), Occupation.STARVED),
        (ThreadState.UNINTERRUPTIBLE, (0.0, 0.0, 0.0), Occupation.BLOCKED),
        (ThreadState.SLEEPING, (0.0, 0.1, 0.1), Occupation.BLOCKED),
        (ThreadState.STOPPED, (0.0, 0.0, 0.0), Occupation.STOPPED),
        (ThreadState.OTHER, (0.0, 0.0, 0.0), Occupation.OFF_CPU),
    ],
)
def test_proc_tells_busy_from_starved(
    script: Script, state: ThreadState, used: tuple[float, float, float], doing: Occupation
) -> None:
    script.view = replace(script.view, thread_when_asked=sample(0.0, ThreadState.SLEEPING, 10.0, 20.0, 5.0))
    for seconds in (1.0, 2.0, 4.0):
        share = seconds / 4.0
        user_s, system_s, waiting_s = (10.0 + used[0] * share, 20.0 + used[1] * share, 5.0 + used[2] * share)
        script.unanswered(seconds, 0.0, sample(seconds, state, user_s, system_s, waiting_s))
    [episode] = script.lasting(4.0)
    assert episode.occupation is doing
    assert episode.user_s == pytest.approx(used[0])
    assert episode.system_s == pytest.approx(used[1])


@pytest.mark.parametrize(
    ("user_ms", "system_ms", "doing"),
    [(1515, 9050, Occupation.KERNEL_WORK), (9000, 50, Occupation.USER_WORK), (20, 30, Occupation.OFF_CPU)],
)
def test_the_daemons_own_figures_tell_work_from_waiting(
    script: Script, user_ms: int, system_ms: int, doing: Occupation
) -> None:
    script.polled(11.0, 10587, user_ms, system_ms)
    script.pass_until(20.0)
    assert script.ended[0].occupation is doing


def test_a_stall_nobody_can_explain_is_not_explained(script: Script) -> None:
    script.blocked(1.0, 1000)
    script.pass_until(60.0)
    assert script.ended[0].occupation is Occupation.UNKNOWN


def test_routers_set_up_at_another_time_are_not_named(script: Script) -> None:
    script.routers = {"early"}
    script.pass_until(0.0)
    script.routers = set()
    script.pass_until(1.0)
    script.routers = {"during"}
    script.pass_until(5.0)
    script.routers = set()
    script.pass_until(6.0)
    script.routers = set()
    script.pass_until(9.55)
    script.routers = {"late"}
    script.pass_until(9.6)
    script.polled(8.5, 4000, 10, 10)
    script.pass_until(20.0)
    assert script.ended[0].routers == ("during",)
    assert script.tracker.tallies.near_router_change == 1


def test_a_router_whose_zones_appear_right_after_the_stall_is_named(script: Script) -> None:
    script.polled(8.5, 4000, 10, 10)
    script.routers = {"arrived"}
    script.pass_until(9.4)
    script.routers = set()
    script.pass_until(9.5)
    script.pass_until(20.0)
    assert script.ended[0].routers == ("arrived",)


def test_a_stall_of_ovn_controller_is_not_counted_near_a_router(script: Script) -> None:
    script.routers = {"r1"}
    script.tell(5.0, LongPoll(Daemon.OVN_CONTROLLER, "main", 2.0, 1.0, 1.0, at(5.0)))
    script.pass_until(20.0)
    assert script.tracker.tallies.near_router_change == 0


def test_a_stall_with_no_router_near_counts_as_none(script: Script) -> None:
    script.polled(8.5, 4000, 10, 10)
    script.pass_until(20.0)
    assert script.ended[0].routers == ()
    assert script.tracker.tallies.near_router_change == 0


def test_every_label_is_there_from_the_start() -> None:
    tallies = StallTracker(1.0).tallies
    assert set(tallies.episodes) == set(tallies.long_poll_seconds)
    assert all(number == 0 for number in tallies.episodes.values())
    assert (Daemon.OVN_CONTROLLER, DaemonThread.PMD) not in tallies.episodes
    assert set(tallies.rcu_stall_seconds) == set(DaemonThread)
    assert set(tallies.long_poll_cpu_s) == {(d, m) for d in Daemon for m in CpuMode}


def test_a_thread_a_daemon_should_not_have_is_counted_all_the_same(script: Script) -> None:
    script.tell(5.0, LongPoll(Daemon.OVN_CONTROLLER, "handler1", 2.0, 1.0, 1.0, at(5.0)))
    script.pass_until(20.0)
    assert script.tracker.tallies.episodes[Daemon.OVN_CONTROLLER, DaemonThread.HANDLER] == 1


def test_the_logs_progress_and_the_coverage_counter_are_passed_on(script: Script) -> None:
    script.tell(1.0, LogRead(VSWITCHD, lines=7, read=at(1.0), suppressed=3, skipped_bytes=9))
    script.tell(2.0, LogRead(VSWITCHD, lines=8, read=None, why_not="there is no log"))
    script.tell(2.0, DaemonSeen(replace(script.view, long_poll_intervals=5)))
    tallies = script.tracker.tallies
    assert tallies.log_lines[VSWITCHD] == 8
    assert tallies.log_read[VSWITCHD] == at(1.0)
    assert tallies.coverage_long_poll_intervals == {VSWITCHD: 5}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("main", DaemonThread.MAIN),
        ("handler12", DaemonThread.HANDLER),
        ("revalidator9", DaemonThread.REVALIDATOR),
        ("pmd7", DaemonThread.PMD),
        ("pmd-c01/id:8", DaemonThread.PMD),
        ("urcu2", DaemonThread.OTHER),
        ("main2", DaemonThread.OTHER),
        ("", DaemonThread.OTHER),
    ],
)
def test_a_threads_name_gives_its_kind(name: str, kind: DaemonThread) -> None:
    assert thread_kind(name) is kind


def test_the_record_says_when_how_long_with_what_and_near_whom(script: Script) -> None:
    script.routers = {"r2", "r1"}
    script.blocked(9.0, 8001)
    script.polled(11.0, 10587, 1515, 9050)
    script.pass_until(20.0)
    record = stall_record(script.ended[0], entries=150_000)
    assert record.at == at(11.0)
    assert record.text == (
        "ovs-vswitchd main stalled for 10.59s doing=kernel_work user=1.51s system=9.05s blocked_others=8.00s "
        "routers_in_setup=r1,r2 entries=150000"
    )
    assert record.fields["routers_in_setup"] == ["r1", "r2"]


def test_a_record_of_little_knowledge_claims_little(script: Script) -> None:
    script.unanswered(1.0, since=0.0)
    script.answered(3.0, round_trip_s=3.0)
    script.pass_until(6.0)
    assert stall_record(script.ended[0], None).text == "ovs-vswitchd main stalled for about 3.0s doing=unknown"


FACTS = st.one_of(
    st.tuples(st.just("blocked"), st.integers(1000, 9000), st.sampled_from(["main", "handler1", "pmd-c00/id:3"])),
    st.tuples(st.just("polled"), st.integers(1000, 9000), st.sampled_from(["main", "handler1"])),
    st.tuples(st.just("unanswered"), st.integers(0, 9000), st.just("main")),
    st.tuples(st.just("answered"), st.integers(0, 9000), st.just("main")),
    st.tuples(st.just("gone"), st.just(0), st.just("main")),
)


@given(st.lists(st.tuples(st.floats(0.0, 5.0), FACTS), max_size=30))
def test_whatever_is_told_every_exact_length_is_one_episode_and_nothing_stays_open(
    steps: list[tuple[float, tuple[str, int, str]]],
) -> None:
    script = Script()
    now, polls, asked = 100.0, 0, None
    for wait_s, (what, ms, name) in steps:
        now += wait_s
        match what:
            case "blocked":
                script.blocked(now, ms, name)
            case "polled":
                script.polled(now, ms, ms // 3, ms // 3, name)
                polls += 1
            case "unanswered":
                asked = asked or now
                script.unanswered(now, since=asked)
            case "answered" if asked is not None:
                script.answered(now, round_trip_s=now - asked)
                asked = None
            case _:
                script.view = replace(script.view, unanswered_since=None)
                script.tell(now, DaemonSeen(script.view))
                asked = None
        for lasting in script.lasting(now):
            assert lasting.duration_s >= 0
    script.view = replace(script.view, unanswered_since=None)
    script.tell(now, DaemonSeen(script.view))
    script.pass_until(now + 100.0)
    assert script.lasting(now + 100.0) == ()
    assert sum(e.is_exact for e in script.ended) == polls
    assert sum(script.tracker.tallies.episodes.values()) == len(script.ended)
    for episode in script.ended:
        assert episode.ended is not None
        assert episode.ended.since(episode.started) == pytest.approx(episode.duration_s)
        assert episode.duration_s >= 0
    assert script.tracker._open == {}
