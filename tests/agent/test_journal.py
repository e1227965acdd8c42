"""What was about to be flushed survives a kill, is reported once, and never costs more than it holds."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ctctl.agent import journal as journal_module
from ctctl.agent.journal import Journal
from ctctl.errors import UnavailableError
from ctctl.model.flush import FailureReason, FlushFailure, FlushRefusal, FlushResult, Reason, Strategy
from ctctl.model.ids import flushable_zone_id
from tests.agent.orders import Clock, order

NOW = Clock()()
DONE = FlushResult(flushable_zone_id(12), Strategy.KERNEL_FILTER, 0.001, None)


def opened(directory: Path) -> Journal:
    journal = Journal(directory)
    journal.open(NOW)
    return journal


def interrupted(directory: Path) -> list[object]:
    journal = Journal(directory)
    found = journal.open(NOW)
    journal.close()
    return [line["zone"] for line in found]


def lines(directory: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (directory / "journal.jsonl").read_text().splitlines()]


def test_a_new_journal_holds_its_start_and_nothing_is_interrupted(tmp_path: Path) -> None:
    assert interrupted(tmp_path / "a/b") == []
    assert [list(line) for line in lines(tmp_path / "a/b")] == [["start"]]


def test_intent_and_outcome_name_the_order_in_full(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.intend(order(7, request_id=3), NOW)
    journal.conclude(order(7, request_id=3), DONE, NOW)
    intent, outcome = lines(tmp_path)[1:]
    for line in (intent, outcome):
        assert (line["zone"], line["trigger"], line["owner"]) == (12, "router_created", "r1")
        assert (line["router"], line["key"], line["request"], line["at"]) == ("nb-r1", "r1_dnat", 3, NOW.wall_s)
    assert (intent["intent"], outcome["outcome"], outcome["kind"], outcome["reason"]) == (7, 7, "FlushResult", None)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (FlushFailure(flushable_zone_id(12), FailureReason.PERMISSION, "EPERM"), "permission"),
        (FlushRefusal(flushable_zone_id(12), Reason.OWNER_CHANGED, "gone"), "owner_changed"),
    ],
)
def test_an_outcome_says_why(tmp_path: Path, outcome: FlushFailure | FlushRefusal, reason: str) -> None:
    opened(tmp_path).conclude(order(), outcome, NOW)
    assert lines(tmp_path)[-1]["reason"] == reason


def test_an_intent_is_on_disk_when_intend_returns(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.intend(order(), NOW)
    assert lines(tmp_path)[-1]["intent"] == 1


def test_a_flush_that_a_kill_interrupted_is_reported_once(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.intend(order(1, 12), NOW)
    journal.conclude(order(1, 12), DONE, NOW)
    journal.intend(order(2, 13), NOW)
    assert interrupted(tmp_path) == [13]
    assert interrupted(tmp_path) == []


def test_order_numbers_of_an_earlier_agent_are_not_confused_with_those_of_the_last(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.intend(order(1, 12), NOW)
    second = opened(tmp_path)
    second.intend(order(1, 13), NOW)
    second.conclude(order(1, 13), DONE, NOW)
    assert interrupted(tmp_path) == []


@pytest.mark.parametrize("keep", [1, 10, -1])
def test_a_torn_last_line_loses_only_itself(tmp_path: Path, keep: int) -> None:
    journal = opened(tmp_path)
    journal.intend(order(1, 12), NOW)
    journal.intend(order(2, 13), NOW)
    file = tmp_path / "journal.jsonl"
    whole = file.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    file.write_bytes(whole[:last] + whole[last:][:keep].rstrip(b"\n}"))
    assert interrupted(tmp_path) == [12]
    assert all("start" in line or "intent" in line for line in lines(tmp_path))


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\xff\xfe\x00",
        b"[1, 2]",
        b'"text"',
        b"{}",
        b'{"intent": [1]}',
        b'{"outcome": {}}',
        b"[" * 100_000,
        b"1" * 9000,
        b"\n",
    ],
)
def test_rubbish_between_the_lines_is_passed_over(tmp_path: Path, rubbish: bytes) -> None:
    opened(tmp_path).intend(order(1, 12), NOW)
    file = tmp_path / "journal.jsonl"
    file.write_bytes(rubbish + b"\n" + file.read_bytes() + rubbish + b"\n")
    assert interrupted(tmp_path) == [12]


def test_a_short_write_is_an_error_and_the_next_line_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(tmp_path)
    write = os.write
    monkeypatch.setattr(journal_module.os, "write", lambda descriptor, data: write(descriptor, data[: len(data) // 2]))
    with pytest.raises(UnavailableError, match="No space left on device"):
        journal.intend(order(1, 12), NOW)
    monkeypatch.undo()
    journal.intend(order(2, 13), NOW)
    assert interrupted(tmp_path) == [13]


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    assert journal._descriptor is not None
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, journal._descriptor)
    os.close(full)
    with pytest.raises(UnavailableError, match=r"cannot write the journal .*/journal.jsonl: No space left on device"):
        journal.intend(order(), NOW)


def test_a_directory_that_cannot_be_made_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match=r"cannot write the journal .*; make state.dir writable"):
        Journal(tmp_path / "file" / "state").open(NOW)


def test_a_journal_that_is_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").mkdir()
    with pytest.raises(UnavailableError, match="Is a directory"):
        Journal(tmp_path).open(NOW)


def test_a_journal_that_was_not_opened_refuses_every_intent(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="is not open"):
        Journal(tmp_path).intend(order(), NOW)


def test_a_start_keeps_only_the_last_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "KEPT_LINES", 10)
    journal = opened(tmp_path)
    for number in range(1, 31):
        journal.intend(order(number, number), NOW)
    assert len(interrupted(tmp_path)) == 30
    assert len(lines(tmp_path)) == 11
    assert lines(tmp_path)[0]["intent"] == 21


def test_a_running_journal_is_bounded_and_loses_no_open_intent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "KEPT_LINES", 10)
    monkeypatch.setattr(journal_module, "MAX_LINES", 20)
    journal = opened(tmp_path)
    for number in range(1, 101):
        journal.intend(order(number, number), NOW)
        assert len(lines(tmp_path)) <= 20
        if number < 100:
            journal.conclude(order(number, number), DONE, NOW)
    assert interrupted(tmp_path) == [100]


def test_a_draft_that_a_kill_left_behind_is_written_over(tmp_path: Path) -> None:
    opened(tmp_path).intend(order(1, 12), NOW)
    (tmp_path / "journal.new").write_text('{"intent": 9, "zone": 99}\n')
    assert interrupted(tmp_path) == [12]


def test_hostile_names_stay_on_their_line(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.intend(order(1, 12, key='x\n{"start": 1}\n', owner="\ud800\n\x1b"), NOW)
    assert len((tmp_path / "journal.jsonl").read_bytes().splitlines()) == 2
    assert interrupted(tmp_path) == [12]


def test_closing_twice_is_closing(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.close()
    journal.close()
