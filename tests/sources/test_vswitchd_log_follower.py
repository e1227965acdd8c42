"""Promises of following a log, on real files and with a clock of the test's own."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctctl.clients import clock
from ctctl.model.capability import Capability
from ctctl.model.daemon import Daemon
from ctctl.model.events import Event, Probed
from ctctl.model.instant import Instant
from ctctl.model.stalls import LogRead, LongPoll, RcuBlocked
from ctctl.sources.vswitchd_log import BYTES_PER_TURN, MAX_BACKLOG_BYTES, FollowedLog, LogFollower

START = Instant(boot_s=9000.0, wall_s=1796048800.0)  # 2026-11-30T14:26:40Z
FILLER = "2026-11-30T14:26:50.000Z|00045|connmgr|INFO|br-int<->unix#3: 12 flow_mods in the last 0 s (12 adds)\n"


def blocked(ms: int, time: str = "14:26:50.123") -> str:
    return f"2026-11-30T{time}Z|00001|ovs_rcu(urcu2)|WARN|blocked {ms} ms waiting for main to quiesce\n"


class Writer:
    """What vswitchd does with its log: appends, and reopens when told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("a")

    def write(self, text: str) -> None:
        self.file.write(text)
        self.file.flush()

    def reopen(self) -> None:
        self.file.close()
        self.file = self.path.open("a")


class Bench:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "ovs-vswitchd.log"
        self.now = START
        self.log = FollowedLog(Daemon.VSWITCHD, self.path, START)
        self.events: list[Event] = []
        self.writers: list[Writer] = []

    def writer(self) -> Writer:
        self.writers.append(Writer(self.path))
        return self.writers[-1]

    def turn(self, seconds: float = 0.25) -> list[int]:
        """One turn; returns the milliseconds of the blocked lines it told of."""
        self.now = Instant(self.now.boot_s + seconds, self.now.wall_s + seconds)
        events = self.log.turn(self.now)
        self.events += events
        return [round(e.blocked_s * 1000) for e in events if isinstance(e, RcuBlocked)]

    def told(self) -> list[int]:
        return [round(e.blocked_s * 1000) for e in self.events if isinstance(e, RcuBlocked)]

    def progress(self) -> LogRead:
        self.turn(10)
        return [e for e in self.events if isinstance(e, LogRead)][-1]

    def close(self) -> None:
        self.log.close()
        for writer in self.writers:
            writer.file.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def test_what_was_there_before_the_start_is_not_replayed(bench: Bench) -> None:
    writer = bench.writer()
    writer.write(blocked(1000) * 3)
    assert bench.turn() == []
    writer.write(blocked(2000))
    assert bench.turn() == [2000]
    assert bench.progress().lines == 1


def test_a_line_written_in_pieces_is_told_once_and_when_whole(bench: Bench) -> None:
    writer = bench.writer()
    bench.turn()
    line = blocked(1000)
    for piece in (line[:10], line[10:60], line[60:-1]):
        writer.write(piece)
        assert bench.turn() == []
    writer.write("\n")
    assert bench.turn() == [1000]


def test_a_log_that_appears_later_is_read_from_its_beginning_but_old_lines_are_not_told(bench: Bench) -> None:
    assert bench.turn() == []
    assert "there is no" in bench.progress().why_not
    bench.writer().write(blocked(1000, "14:26:38.999") + blocked(2000))
    assert bench.turn() == [2000]
    assert bench.progress().why_not == ""


def test_rotation_by_renaming_loses_and_repeats_nothing(bench: Bench) -> None:
    writer = bench.writer()
    bench.turn()
    writer.write(blocked(1000))
    bench.path.rename(bench.path.with_suffix(".log.1"))
    writer.write(blocked(2000))  # still the old file
    assert bench.turn() == [1000, 2000]
    bench.path.touch()  # logrotate's `create`, before the daemon reopens
    writer.write(blocked(3000))
    assert bench.turn() == [3000]
    writer.write(blocked(4000))
    writer.reopen()
    writer.write(blocked(5000))
    assert bench.turn() == [4000, 5000]
    assert bench.progress().lines == 5


def test_rotation_by_truncating_is_noticed_and_repeats_nothing(bench: Bench) -> None:
    writer = bench.writer()
    bench.turn()
    writer.write(FILLER * 50 + blocked(1000))
    assert bench.turn() == [1000]
    os.truncate(bench.path, 0)
    writer.write(blocked(2000))
    assert bench.turn() == [2000]


def test_a_truncated_log_that_has_grown_past_the_old_place_is_noticed(bench: Bench) -> None:
    writer = bench.writer()
    bench.turn()
    writer.write(blocked(1000))
    bench.turn()
    os.truncate(bench.path, 0)
    writer.write(blocked(2000) + FILLER * 100)
    assert bench.turn() == [2000]


def test_an_unfinished_line_is_not_continued_by_another_files_first_bytes(bench: Bench) -> None:
    writer = bench.writer()
    bench.turn()
    writer.write(blocked(1000)[:40])
    bench.turn()
    bench.path.rename(bench.path.with_suffix(".log.1"))
    writer.reopen()
    writer.write(blocked(3000)[40:] + blocked(2000))
    assert bench.turn() == [2000]


@pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to become somebody who may not read the log")
def test_a_log_that_may_not_be_read_is_named_and_followed_from_its_end_once_it_may(bench: Bench) -> None:
    writer = bench.writer()
    writer.write(blocked(1000))
    bench.path.chmod(0o600)
    for parent in bench.path.parents[:3]:
        parent.chmod(0o755)
    os.seteuid(65534)
    try:
        bench.turn()
        why_not = bench.progress().why_not
    finally:
        os.seteuid(0)
    assert str(bench.path) in why_not
    assert "uid 65534" in why_not
    assert "group" in why_not
    bench.turn()
    writer.write(blocked(2000))
    assert bench.turn() == [2000]
    assert bench.told() == [2000]
    assert bench.progress().why_not == ""


@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_what_is_no_file_is_named_and_holds_nothing_up(bench: Bench, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(bench.path)
    else:
        bench.path.mkdir()
    bench.turn()
    assert "is not a file" in bench.progress().why_not


def test_whether_the_log_can_be_read_is_a_capability_reported_when_it_changes(bench: Bench) -> None:
    for _ in range(20):
        bench.turn(1)
    bench.writer().write(FILLER)
    for _ in range(20):
        bench.turn(1)
    probes = [e.probes[0] for e in bench.events if isinstance(e, Probed)]
    assert [(p.capability, p.is_supported) for p in probes] == [
        (Capability.OVS_LOG, False),
        (Capability.OVS_LOG, True),
    ]


def test_progress_is_reported_every_few_seconds_and_not_every_turn(bench: Bench) -> None:
    writer = bench.writer()
    for _ in range(40):
        bench.turn()  # idle for 10 s
    idle = sum(isinstance(e, LogRead) for e in bench.events)
    assert 2 <= idle <= 3
    for _ in range(40):
        writer.write(FILLER)
        bench.turn()
    assert 10 <= sum(isinstance(e, LogRead) for e in bench.events) - idle <= 11


def test_a_turn_reads_a_bounded_amount_and_the_next_goes_on(bench: Bench) -> None:
    writer = bench.writer()
    bench.turn()
    writer.write(FILLER * (2 * BYTES_PER_TURN // len(FILLER)) + blocked(1000))
    assert bench.turn() == []
    assert bench.turn() == []
    assert bench.turn() == [1000]


def test_a_flood_too_large_to_catch_up_with_is_skipped_visibly(bench: Bench) -> None:
    writer = bench.writer()
    bench.turn()
    flood = FILLER * (MAX_BACKLOG_BYTES // len(FILLER) + 1)
    writer.write(blocked(1000) + flood + blocked(2000))
    assert bench.turn() == [2000]
    progress = bench.progress()
    assert progress.skipped_bytes == len(blocked(1000) + flood + blocked(2000)) - BYTES_PER_TURN


STEPS = ("line", "half", "turn", "rename", "create", "reopen", "truncate")


@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=40))
def test_every_stall_is_told_once_however_the_log_is_rotated(steps: list[str]) -> None:
    """Except for what a truncation destroys unread, and what was written two rotations ago."""
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory))
        try:
            written = play(bench, steps)
            bench.turn()
            assert bench.told() == list(range(1, written + 1))
        finally:
            bench.close()


def play(bench: Bench, steps: list[str]) -> int:
    """Write numbered stalls, turn and rotate; returns how many lines are complete."""
    writer = bench.writer()
    bench.turn()
    number, rest_of_line, is_renamed = 0, "", False
    for step in steps:
        match step:
            case "line":
                writer.write(rest_of_line)
                writer.write(blocked(number + 1) if not rest_of_line else "")
                number, rest_of_line = number + 1, ""
            case "half" if not rest_of_line:
                line = blocked(number + 1)
                writer.write(line[:30])
                rest_of_line = line[30:]
            case "turn":
                bench.turn()
            case "rename" if not is_renamed:
                bench.path.rename(bench.path.with_suffix(".log.1"))
                is_renamed = True
            case "create" if is_renamed:
                bench.path.touch()
            case "reopen" if not rest_of_line:
                writer.reopen()
                number += 1
                writer.write(blocked(number))
                bench.turn()
                is_renamed = False
            case "truncate" if not rest_of_line and not is_renamed:
                bench.turn()
                os.truncate(bench.path, 0)
            case _:
                pass
    return number


def test_the_source_follows_both_logs_and_stops(tmp_path: Path) -> None:
    paths = {daemon: tmp_path / f"{daemon}.log" for daemon in Daemon}
    for path in paths.values():
        path.touch()
    reported: SimpleQueue[Event] = SimpleQueue()
    follower = LogFollower(paths, reported.put, clock.now)
    thread = threading.Thread(target=follower.run)
    thread.start()
    heard: set[Daemon] = set()
    while heard != set(Daemon):  # both files are open now
        event = reported.get(timeout=10)
        if isinstance(event, LogRead):
            heard.add(event.daemon)
    for path in paths.values():
        with path.open("a") as file:
            file.write("Nov 30 14:26:35 n ovs: ovs|00001|timeval|WARN|")
            file.write("Unreasonably long 1500ms poll interval (10ms user, 20ms system)\n")
    polled: set[Daemon] = set()
    while polled != set(Daemon):
        event = reported.get(timeout=10)
        if isinstance(event, LongPoll):
            polled.add(event.daemon)
    follower.stop()
    thread.join(timeout=2)
    assert not thread.is_alive()
