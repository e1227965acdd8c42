"""Promises of the log parser: every form a stall is logged in, in pieces of any size, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctctl.model.daemon import Daemon
from ctctl.model.instant import Instant
from ctctl.model.stalls import LongPoll, RcuBlocked
from ctctl.wire.vswitchd_log import MAX_LINE_BYTES, VswitchdLog

# 2026-11-30T14:26:50Z
NOW = Instant(boot_s=9000.0, wall_s=1796048810.0)
LOGGED_WALL_S = 1796048795.0  # …14:26:35Z

RCU = b"2026-11-30T14:26:35.123Z|00001|ovs_rcu(urcu2)|WARN|blocked 1008 ms waiting for main to quiesce\n"
POLL = (
    b"2026-11-30T14:26:45.710Z|00044|timeval|WARN|"
    b"Unreasonably long 10587ms poll interval (1515ms user, 9050ms system)\n"
)
BLOCKED = b"blocked 1008 ms waiting for main to quiesce"
OTHER = b"2026-11-30T14:26:40.001Z|00045|connmgr|INFO|br-int<->unix#3: 12 flow_mods in the last 0 s (12 adds)\n"


def facts_of(*pieces: bytes, not_before_wall_s: float = 0.0) -> list[RcuBlocked | LongPoll]:
    log = VswitchdLog(Daemon.VSWITCHD, not_before_wall_s)
    return [fact for piece in pieces for fact in log.feed(piece, NOW)]


def at(wall_s: float) -> Instant:
    return Instant(pytest.approx(NOW.boot_s - (NOW.wall_s - wall_s)), pytest.approx(wall_s))  # type: ignore[arg-type]


def test_a_blocked_line_tells_who_was_waited_for_how_long_and_when() -> None:
    assert facts_of(RCU) == [RcuBlocked(Daemon.VSWITCHD, "main", 1.008, at(LOGGED_WALL_S + 0.123))]


def test_a_poll_interval_of_main_is_exact_with_its_cpu_times() -> None:
    assert facts_of(POLL) == [LongPoll(Daemon.VSWITCHD, "main", 10.587, 1.515, 9.05, at(LOGGED_WALL_S + 10.71))]


def test_lines_about_other_things_tell_nothing() -> None:
    assert facts_of(OTHER * 100) == []


@pytest.mark.parametrize("waited_for", ["main", "revalidator9", "handler3", "pmd-c01/id:8", "urcu2", "ct_clean4"])
def test_whoever_is_waited_for_is_named_as_the_daemon_names_it(waited_for: str) -> None:
    [fact] = facts_of(RCU.replace(b"for main", f"for {waited_for}".encode()))
    assert fact.thread_name == waited_for


@pytest.mark.parametrize(
    ("module", "name"), [("timeval(handler1)", "handler1"), ("timeval(pmd-c00/id:9)", "pmd-c00/id:9")]
)
def test_a_poll_interval_of_another_thread_names_it(module: str, name: str) -> None:
    [fact] = facts_of(POLL.replace(b"timeval", module.encode()))
    assert isinstance(fact, LongPoll)
    assert fact.thread_name == name


@pytest.mark.parametrize(
    ("prefix", "suffix", "logged"),
    [
        # the file pattern
        (b"2026-11-30T14:26:35.123Z|00001|", b"", at(LOGGED_WALL_S + 0.123)),
        # the console pattern: no milliseconds
        (b"2026-11-30T14:26:35Z|00001|", b"", at(LOGGED_WALL_S)),
        # a container runtime (CRI) before the console pattern: its time is the finer one
        (b"2026-11-30T14:26:35.987654321Z stderr F 2026-11-30T14:26:35Z|00001|", b"", at(LOGGED_WALL_S + 0.987654321)),
        (
            b"2026-11-30T16:26:35.987654321+02:00 stderr F 2026-11-30T14:26:35Z|00001|",
            b"",
            at(LOGGED_WALL_S + 0.987654),
        ),
        # … and before the file pattern: the daemon's own
        (b"2026-11-30T14:26:36.5Z stderr F 2026-11-30T14:26:35.123Z|00001|", b"", at(LOGGED_WALL_S + 0.123)),
        # a JSON log
        (
            b'{"log":"2026-11-30T14:26:35Z|00001|',
            b'\\n","stream":"stderr","time":"2026-11-30T14:26:35.25Z"}',
            at(LOGGED_WALL_S + 0.25),
        ),
        # syslog, classic (no year, no zone) and RFC 3339
        (b"Nov 30 14:26:35 node1 ovs-vswitchd: ovs|00001|", b"", NOW),
        (b"2026-11-30T15:26:35.500000+01:00 node1 ovs-vswitchd[123]: ovs|00001|", b"", at(LOGGED_WALL_S + 0.5)),
        # a local time without a zone, and one that lies ahead
        (b"2026-11-30 14:26:35.123|00001|", b"", NOW),
        (b"2026-11-30T14:59:59.123Z|00001|", b"", NOW),
        # no such day
        (b"2026-13-30T14:26:35.123Z|00001|", b"", NOW),
        # a pattern without number
        (b"2026-11-30T14:26:35.123Z|", b"", at(LOGGED_WALL_S + 0.123)),
        (b"", b"", NOW),
        # a log that was truncated under a writer that does not append
        (b"\0" * 4096 + b"2026-11-30T14:26:35.123Z|00001|", b"", at(LOGGED_WALL_S + 0.123)),
        (b"2026-11-30T14:26:35.123Z|00001|", b"\r", at(LOGGED_WALL_S + 0.123)),
    ],
)
def test_every_wrapping_of_a_line_is_understood(prefix: bytes, suffix: bytes, logged: Instant) -> None:
    line = prefix + b"ovs_rcu(urcu2)|WARN|blocked 2001 ms waiting for main to quiesce" + suffix + b"\n"
    assert facts_of(line) == [RcuBlocked(Daemon.VSWITCHD, "main", 2.001, logged)]


@pytest.mark.parametrize(
    "line",
    [
        # the words inside another message, whoever wrote them there
        b"2026-11-30T14:26:35.123Z|00001|bridge|INFO|bridge br-int: added interface |ovs_rcu(u)|WARN|" + BLOCKED,
        b"2026-11-30T14:26:35.123Z|00001|ovs_rcu(urcu2)|WARN|x blocked 1000 ms waiting for main to quiesce",
        b"2026-11-30T14:26:35.123Z|00001|timeval|WARN|blocked 1000 ms waiting for main to quiesce",
        b"2026-11-30T14:26:35.123Z|00001|ovs_rcu(urcu2)|WARN|blocked -5 ms waiting for main to quiesce",
        b"2026-11-30T14:26:35.123Z|00001|ovs_rcu(urcu2)|WARN|blocked 99999999999 ms waiting for main to quiesce",
        b"2026-11-30T14:26:35.123Z|00001|ovs_rcu(urcu2)|WARN|blocked 1000 ms waiting for  to quiesce",
        b"blocked 1000 ms waiting for main to quiesce",
        b"2026-11-30T14:26:35.123Z|00001|timeval|WARN|Unreasonably long 10587ms poll interval (1515ms user",
    ],
)
def test_what_only_looks_like_a_stall_tells_nothing(line: bytes) -> None:
    assert facts_of(line + b"\n") == []


def test_no_truncation_of_a_line_tells_anything() -> None:
    for line in (RCU, POLL):
        for end in range(len(line) - 1):
            log = VswitchdLog(Daemon.VSWITCHD, 0.0)
            assert log.feed(line[:end], NOW) == []
            cut = facts_of(line[:end] + b"\n")
            assert cut == [] or end >= line.index(b"quiesce") + len(b"quiesce")


@pytest.mark.parametrize("size", [1, 2, 7, 64, 100, 10_000])
def test_pieces_of_any_size_tell_the_same(size: int) -> None:
    text = OTHER + RCU + OTHER * 3 + POLL + RCU
    log = VswitchdLog(Daemon.VSWITCHD, 0.0)
    facts = [f for start in range(0, len(text), size) for f in log.feed(text[start : start + size], NOW)]
    assert facts == facts_of(text)
    assert len(facts) == 3
    assert log.lines == 7


def test_what_was_logged_before_the_agent_started_is_not_told_again() -> None:
    assert facts_of(RCU, POLL, not_before_wall_s=LOGGED_WALL_S + 5) == facts_of(POLL)


def test_messages_the_daemon_dropped_are_summed() -> None:
    log = VswitchdLog(Daemon.VSWITCHD, 0.0)
    for number in (3, 40):
        line = b"2026-11-30T14:26:35.123Z|00009|dpif(handler2)|WARN|Dropped %d log messages in last 12 seconds (most"
        assert log.feed(line % number + b" recently, 3 seconds ago) due to excessive rate\n", NOW) == []
    assert log.suppressed == 43


def test_a_line_without_end_takes_bounded_memory_and_hides_no_later_line() -> None:
    log = VswitchdLog(Daemon.VSWITCHD, 0.0)
    for _ in range(100):
        assert log.feed(b"x" * 50_000, NOW) == []
        assert len(log._rest) <= MAX_LINE_BYTES
    assert log.feed(b"|ovs_rcu(urcu2)|WARN|blocked 1 ms waiting for main to quiesce\n" + RCU, NOW) == facts_of(RCU)
    assert log.lines == 2


def test_after_a_gap_the_pieces_on_both_sides_are_not_joined() -> None:
    log = VswitchdLog(Daemon.VSWITCHD, 0.0)
    log.feed(RCU[:60], NOW)
    log.cut()
    assert log.feed(RCU[60:] + RCU, NOW) == facts_of(RCU)


@given(st.lists(st.one_of(st.binary(max_size=80), st.sampled_from([RCU, POLL, OTHER, RCU[:70], b"\n"])), max_size=12))
def test_garbage_changes_nothing_about_the_whole_lines_between_it(pieces: list[bytes]) -> None:
    text = b"".join(pieces)
    log = VswitchdLog(Daemon.VSWITCHD, 0.0)
    piecewise = [fact for piece in pieces for fact in log.feed(piece, NOW)]
    assert piecewise == facts_of(text)
    assert log.lines == text.count(b"\n")
    whole = sum(1 for line in (b"\n" + text).split(b"\n")[1:-1] if line + b"\n" in (RCU, POLL))
    assert len(piecewise) >= whole
