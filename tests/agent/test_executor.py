"""Nothing is sent that the last look at the map, the journal and the switches do not all allow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ctctl.agent.executor import CONFIRM_TRIES, Clearance, Executor, Work
from ctctl.agent.journal import Journal
from ctctl.decide.gate import Refusal
from ctctl.errors import ProtocolError, TimedOutError, UnavailableError
from ctctl.model.conntrack import EntryKey, Sighting
from ctctl.model.events import Event, FlushFinished
from ctctl.model.flush import FlushOrder, FlushRefusal, FlushResult, Reason
from tests.agent.orders import Clock, Deleter, Reader, order


class Bench:
    """An executor with a real journal, a map that can change and a kernel that remembers."""

    def __init__(self, directory: Path) -> None:
        self.clock = Clock()
        self.reader = Reader(self.clock)
        self.kernel = Deleter()
        self.journal = Journal(directory)
        self.journal.open(self.clock())
        self.events: list[Event] = []
        self.executor = Executor(self.reader, self.look_up, self.journal, self.events.append, self.clock)
        self.allow()

    def look_up(self, keys: Sequence[EntryKey]) -> tuple[Sighting | None, ...]:
        return (None,) * len(keys)

    def allow(self) -> None:
        self.executor.clear(Clearance(self.kernel))  # type: ignore[arg-type]  # whole zones only

    def refuse(self, reason: Reason) -> None:
        self.executor.clear(Clearance(self.kernel, Refusal(reason, "changed meanwhile")))  # type: ignore[arg-type]

    def carry_out(self, *orders: FlushOrder) -> list[FlushFinished]:
        for each in orders:
            self.executor.submit(Work(each))
        thread = threading.Thread(target=self.executor.run)
        thread.start()
        self.executor._orders.put(None)
        thread.join(10)
        assert not thread.is_alive()
        finished = [event for event in self.events if isinstance(event, FlushFinished)]
        assert [f.order for f in finished] == list(orders)
        return finished


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def reason(finished: FlushFinished) -> Reason | None:
    if isinstance(finished.outcome, FlushRefusal):
        assert finished.sent is None
        assert finished.outcome.why
        return finished.outcome.reason
    return None


def test_a_confirmed_order_is_sent_once_and_reported_with_its_times(bench: Bench) -> None:
    (finished,) = bench.carry_out(order())
    assert bench.kernel.flushed == [12]
    assert isinstance(finished.outcome, FlushResult)
    assert finished.sent == bench.clock()
    assert bench.reader.reads == 1


def test_orders_are_carried_out_in_the_order_of_their_submission(bench: Bench) -> None:
    bench.carry_out(order(1, 13, "r1_snat"), order(2, 12, "r1_dnat"), order(3, 13, "r1_snat"))
    assert bench.kernel.flushed == [13, 12, 13]


def test_before_the_loop_has_spoken_nothing_is_sent(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    fresh = Executor(bench.reader, bench.look_up, bench.journal, bench.events.append, bench.clock)
    bench.executor = fresh
    (finished,) = bench.carry_out(order())
    assert reason(finished) is Reason.NOT_THE_FLUSHER
    assert bench.kernel.flushed == []


@pytest.mark.parametrize("what", [Reason.OBSERVE, Reason.DRY_RUN, Reason.PAUSED, Reason.NOT_THE_FLUSHER])
def test_a_switch_that_changes_while_the_map_is_read_again_still_stops_the_order(bench: Bench, what: Reason) -> None:
    bench.reader.meanwhile = lambda: bench.refuse(what)
    (finished,) = bench.carry_out(order())
    assert reason(finished) is what
    assert bench.kernel.flushed == []


def test_a_switch_that_changes_between_two_tries_stops_the_second(bench: Bench) -> None:
    bench.reader.delays_s = [0.2]
    bench.reader.meanwhile = lambda: bench.refuse(Reason.OBSERVE) if bench.reader.reads == 2 else None
    (finished,) = bench.carry_out(order())
    assert reason(finished) is Reason.OBSERVE
    assert bench.kernel.flushed == []


def test_without_a_deleter_nothing_can_be_sent(bench: Bench) -> None:
    bench.executor.clear(Clearance(None))
    (finished,) = bench.carry_out(order())
    assert reason(finished) is Reason.OBSERVE


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"r1_dnat": "22"}, Reason.OWNER_CHANGED),
        ({}, Reason.OWNER_CHANGED),
        ({"other_dnat": "12"}, Reason.OWNER_CHANGED),
        ({"r1_dnat": "12", "vm": "12"}, Reason.SHARED_ZONE),
    ],
)
def test_a_map_that_changed_since_the_order_was_made_stops_it(bench: Bench, keys: dict[str, str], what: Reason) -> None:
    bench.reader.keys = keys
    (finished,) = bench.carry_out(order())
    assert reason(finished) is what
    assert bench.kernel.flushed == []
    assert bench.reader.reads == 1


def test_a_reply_that_is_too_old_is_asked_for_again(bench: Bench) -> None:
    bench.reader.delays_s = [3600.0, 0.2]
    bench.carry_out(order())
    assert bench.kernel.flushed == [12]
    assert bench.reader.reads == 3


def test_an_agent_stopped_across_a_renumbering_acts_on_the_new_map(bench: Bench) -> None:
    bench.reader.delays_s = [3600.0]
    bench.reader.meanwhile = lambda: bench.reader.keys.update(r1_dnat="22") if bench.reader.reads == 2 else None
    (finished,) = bench.carry_out(order())
    assert reason(finished) is Reason.OWNER_CHANGED
    assert bench.kernel.flushed == []


def test_replies_that_are_never_fresh_are_not_acted_on(bench: Bench) -> None:
    bench.reader.delays_s = [0.11] * 10
    (finished,) = bench.carry_out(order())
    assert reason(finished) is Reason.MAP_NOT_FRESH
    assert bench.reader.reads == CONFIRM_TRIES
    assert bench.kernel.flushed == []


def test_an_order_that_waited_past_its_time_is_void(bench: Bench) -> None:
    late = order(not_after=bench.clock())
    bench.clock.pass_time(0.01)
    (finished,) = bench.carry_out(late)
    assert reason(finished) is Reason.TOO_LATE


@pytest.mark.parametrize("error", [UnavailableError("gone"), TimedOutError("slow"), ProtocolError("rubbish")])
def test_a_local_database_that_does_not_answer_stops_the_order(
    bench: Bench, error: UnavailableError | ProtocolError
) -> None:
    bench.reader.error = error
    (finished,) = bench.carry_out(order())
    assert reason(finished) is Reason.MAP_NOT_FRESH
    assert bench.kernel.flushed == []


def journalled(directory: Path) -> str:
    return (directory / "journal.jsonl").read_text()


def test_the_intent_is_journalled_before_the_kernel_is_asked(bench: Bench, tmp_path: Path) -> None:
    seen: list[str] = []
    bench.kernel.before = lambda: seen.append(journalled(tmp_path))
    bench.carry_out(order(9))
    assert '"intent": 9' in seen[0]
    assert '"outcome": 9' not in seen[0]
    assert '"outcome": 9' in journalled(tmp_path)


def test_nothing_is_sent_when_the_journal_cannot_be_written(bench: Bench) -> None:
    bench.journal.close()
    (finished,) = bench.carry_out(order())
    assert reason(finished) is Reason.JOURNAL_UNWRITABLE
    assert bench.kernel.flushed == []
    assert bench.reader.reads == 0


def test_a_journal_that_fails_after_the_deed_does_not_hide_the_deed(bench: Bench) -> None:
    bench.kernel.before = bench.journal.close
    (finished,) = bench.carry_out(order())
    assert isinstance(finished.outcome, FlushResult)
    assert bench.kernel.flushed == [12]


def test_a_stop_refuses_what_is_still_queued_and_finishes_what_is_in_hand(bench: Bench) -> None:
    stops: list[Callable[[], None]] = [bench.executor.stop]
    bench.kernel.before = lambda: stops.pop()() if stops else None
    first, second = bench.carry_out(order(1), order(2, 13, "r1_snat"))
    assert isinstance(first.outcome, FlushResult)
    assert reason(second) is Reason.MAP_NOT_FRESH
    assert bench.kernel.flushed == [12]


def test_a_stop_while_the_map_is_read_sends_nothing(bench: Bench) -> None:
    bench.reader.meanwhile = bench.executor.stop
    (finished,) = bench.carry_out(order())
    assert reason(finished) is Reason.MAP_NOT_FRESH
    assert bench.kernel.flushed == []


def test_a_defect_in_the_kernel_client_leaves_the_intent_and_ends_the_thread(bench: Bench, tmp_path: Path) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    bench.kernel.before = broken
    bench.executor.submit(Work(order(4)))
    with pytest.raises(ZeroDivisionError):
        bench.executor.run()
    assert '"intent": 4' in journalled(tmp_path)
    assert '"outcome": 4' not in journalled(tmp_path)
