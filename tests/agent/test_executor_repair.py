"""Repairs: entries go in batches, each looked up again and confirmed right before it is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from ctctl.agent.executor import ENTRIES_PER_LOOK, Clearance, Executor, Work
from ctctl.agent.journal import Journal
from ctctl.decide.gate import Refusal
from ctctl.errors import TimedOutError
from ctctl.model.conntrack import EntryKey, Sighting
from ctctl.model.events import Event
from ctctl.model.flush import (
    FailureReason,
    FlushFailure,
    FlushOutcome,
    FlushRefusal,
    FlushResult,
    Reason,
    Strategy,
    Trigger,
)
from ctctl.model.ids import FlushableZoneId, ZoneId
from tests.agent.orders import Clock, Reader, order


def sighting(number: int, expires: float = 5000.0) -> Sighting:
    return Sighting(ZoneId(12), 2, b"tuple%d" % number, number, expires, None)


class Kernel:
    """Entries by id; remembers every delete."""

    def __init__(self, entries: Sequence[Sighting]) -> None:
        self.entries = {entry.entry_id: entry for entry in entries}
        self.batches: list[list[int]] = []
        self.addresses: list[str] = []
        self.look_up_error: TimedOutError | None = None

    def look_up(self, keys: Sequence[EntryKey]) -> tuple[Sighting | None, ...]:
        if self.look_up_error is not None:
            raise self.look_up_error
        return tuple(self.entries.get(key.entry_id) for key in keys)

    def delete_entries(self, keys: Sequence[EntryKey], *, timeout_s: float) -> tuple[FlushOutcome, ...]:
        self.batches.append([key.entry_id for key in keys])
        for key in keys:
            self.entries.pop(key.entry_id, None)
        return (FlushResult(keys[0].zone, Strategy.ENTRY_DELETE, 0.001, len(keys)),)

    def delete_address(
        self, zones: Sequence[FlushableZoneId], address: object, *, timeout_s: float
    ) -> tuple[FlushOutcome, ...]:
        self.addresses.append(str(address))
        return (FlushResult(zones[0], Strategy.ENTRY_DELETE, 0.001, 1),)


class Bench:
    def __init__(self, directory: Path, entries: Sequence[Sighting]) -> None:
        self.clock = Clock()
        self.reader = Reader(self.clock)
        self.kernel = Kernel(entries)
        journal = Journal(directory)
        journal.open(self.clock())
        events: list[Event] = []
        self.executor = Executor(self.reader, self.kernel.look_up, journal, events.append, self.clock)
        self.allow(None)

    def allow(self, refusal: Refusal | None) -> None:
        self.executor.clear(Clearance(self.kernel, refusal))  # type: ignore[arg-type]  # entries only

    def repair(self, entries: Sequence[Sighting]) -> FlushOutcome:
        return self.executor._execute(Work(order(), tuple(entries))).outcome


def test_only_entries_that_are_still_what_was_judged_are_deleted(tmp_path: Path) -> None:
    judged = [sighting(number) for number in range(4)]
    now = [judged[0], sighting(1, expires=5040.0), judged[3]]
    bench = Bench(tmp_path, now)
    outcome = bench.repair(judged)
    assert bench.kernel.batches == [[0, 3]]
    assert isinstance(outcome, FlushResult)
    assert (outcome.deleted, outcome.already_gone) == (2, 2)


def test_a_long_list_goes_in_batches_each_confirmed_anew(tmp_path: Path) -> None:
    judged = [sighting(number) for number in range(2 * ENTRIES_PER_LOOK + 1)]
    bench = Bench(tmp_path, judged)
    bench.repair(judged)
    assert [len(batch) for batch in bench.kernel.batches] == [ENTRIES_PER_LOOK, ENTRIES_PER_LOOK, 1]
    assert bench.reader.reads == 3


def test_an_owner_that_changes_between_two_batches_ends_it(tmp_path: Path) -> None:
    judged = [sighting(number) for number in range(2 * ENTRIES_PER_LOOK)]
    bench = Bench(tmp_path, judged)

    def hand_over() -> None:
        if bench.reader.reads == 2:
            bench.reader.keys = {"other_dnat": "12"}

    bench.reader.meanwhile = hand_over
    outcome = bench.repair(judged)
    assert len(bench.kernel.batches) == 1
    assert isinstance(outcome, FlushRefusal)
    assert outcome.reason is Reason.OWNER_CHANGED


def test_a_pause_between_two_batches_ends_it(tmp_path: Path) -> None:
    judged = [sighting(number) for number in range(2 * ENTRIES_PER_LOOK)]
    bench = Bench(tmp_path, judged)
    bench.reader.meanwhile = lambda: bench.allow(Refusal(Reason.PAUSED, "paused")) if bench.reader.reads == 2 else None
    outcome = bench.repair(judged)
    assert len(bench.kernel.batches) == 1
    assert isinstance(outcome, FlushRefusal)
    assert outcome.reason is Reason.PAUSED


def test_entries_that_are_all_gone_need_no_delete_and_no_confirmation(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [])
    outcome = bench.repair([sighting(1), sighting(2)])
    assert bench.kernel.batches == []
    assert isinstance(outcome, FlushResult)
    assert (outcome.deleted, outcome.already_gone) == (0, 2)


def test_a_look_up_that_fails_deletes_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [sighting(1)])
    bench.kernel.look_up_error = TimedOutError("the kernel did not answer")
    outcome = bench.repair([sighting(1)])
    assert bench.kernel.batches == []
    assert isinstance(outcome, FlushFailure)
    assert outcome.reason is FailureReason.UNAVAILABLE


def test_an_order_for_one_address_deletes_that_address_only(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [])
    wanted = order(trigger=Trigger.MANUAL, address=ip_address("10.0.0.5"))
    assert isinstance(bench.executor._execute(Work(wanted)).outcome, FlushResult)
    assert bench.kernel.addresses == ["10.0.0.5"]


@pytest.mark.parametrize(
    "answer", [None, Refusal(Reason.OWNER_CHANGED, "allocated"), Refusal(Reason.CANNOT_CONFIRM, "")]
)
def test_a_zone_without_owner_goes_only_if_ovn_controller_has_not_allocated_it(
    tmp_path: Path, answer: Refusal | None
) -> None:
    bench = Bench(tmp_path, [])
    bench.executor._claimed_in_memory = lambda zone: answer
    bench.reader.keys = {}
    wanted = replace(order(trigger=Trigger.ROUTER_REMOVED), key=None, address=ip_address("10.0.0.5"))
    outcome = bench.executor._execute(Work(wanted)).outcome
    if answer is None:
        assert isinstance(outcome, FlushResult)
    else:
        assert isinstance(outcome, FlushRefusal)
        assert outcome.reason is answer.reason
        assert bench.kernel.addresses == []


def test_a_zone_that_has_a_key_again_is_no_orphan(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [])
    bench.executor._claimed_in_memory = lambda zone: None
    outcome = bench.executor._execute(Work(replace(order(trigger=Trigger.ROUTER_REMOVED), key=None))).outcome
    assert isinstance(outcome, FlushRefusal)
    assert outcome.reason is Reason.OWNER_CHANGED


def test_a_request_that_cannot_be_remembered_is_not_carried_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [])
    wanted = order(trigger=Trigger.REQUESTED, request="one", address=ip_address("10.0.0.5"))
    outcome = bench.executor._execute(Work(wanted)).outcome
    assert isinstance(outcome, FlushRefusal)
    assert outcome.reason is Reason.JOURNAL_UNWRITABLE
    assert bench.kernel.addresses == []
