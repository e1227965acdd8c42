"""Counting keeps to its share of a core, answers requests, and tells what failed without ending."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ctctl.model.counts import CountIncompleteError, CountMethod, CountPass, IncompleteReason, Keep
from ctctl.model.events import CountFailed, CountFinished, Event
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant
from ctctl.sources import counts as module
from ctctl.sources.counts import MAX_CREDIT_S, RESERVE_S, Allowance, CountSettings, CountSource
from tests.agent.orders import Clock

WAIT_S = 10.0


def at(seconds: float) -> Instant:
    return Instant(seconds, 1e9 + seconds)


# The share of a core.


def test_at_first_there_is_credit_for_a_few_passes() -> None:
    allowance = Allowance(0.02, at(0))
    assert allowance.wait_s(at(0)) == 0
    assert allowance.wait_s(at(0), RESERVE_S) == 0


def test_a_pass_costs_what_it_used_and_waiting_earns_its_share() -> None:
    allowance = Allowance(0.02, at(0))
    allowance.spend(MAX_CREDIT_S + 1.0, at(0))
    assert allowance.wait_s(at(0)) == pytest.approx(50.0)
    assert allowance.wait_s(at(20)) == pytest.approx(30.0)
    assert allowance.wait_s(at(51)) == 0


def test_credit_does_not_grow_beyond_its_bound() -> None:
    allowance = Allowance(0.5, at(0))
    allowance.spend(MAX_CREDIT_S, at(10_000))
    assert allowance.wait_s(at(10_000)) == pytest.approx(0.0, abs=1e-9)
    allowance.spend(1.0, at(10_000))
    assert allowance.wait_s(at(10_000)) == pytest.approx(2.0)


def test_a_reserve_makes_a_regular_pass_wait_where_a_request_need_not() -> None:
    allowance = Allowance(0.1, at(0))
    allowance.spend(MAX_CREDIT_S - 1.0, at(0))
    assert allowance.wait_s(at(0)) == 0
    assert allowance.wait_s(at(0), RESERVE_S) == pytest.approx((RESERVE_S - 1.0) / 0.1)


@pytest.mark.parametrize("cost_s", [0.001, 0.2, 3.0, 20.0])
def test_over_an_hour_no_more_than_the_share_is_used(cost_s: float) -> None:
    allowance = Allowance(0.02, at(0))
    now_s = used_s = 0.0
    for _ in range(3000):
        now_s += max(1.0, allowance.wait_s(at(now_s), RESERVE_S))
        if now_s > 3600:
            break
        allowance.spend(cost_s, at(now_s))
        used_s += cost_s
    assert used_s <= 0.02 * 3600 + MAX_CREDIT_S + cost_s


# The source.


class Table:
    """Answers one pass after the other; when none is left it stops the source."""

    def __init__(self, *answers: CountPass | CountIncompleteError, interval_s: float = 1e-3) -> None:
        self.answers = list(answers)
        self.events: list[Event] = []
        self.kept: list[Keep] = []
        self.clock = Clock()
        self.meanwhile: Callable[[], None] = lambda: None
        self.source = CountSource(CountSettings(interval_s, 1.0), self, self.events.append, self.clock)

    def count(self, should_stop: Callable[[], bool], keep: Keep) -> CountPass:
        self.kept.append(keep)
        self.meanwhile()
        if not self.answers:
            self.source.stop()
            assert should_stop()
            raise CountIncompleteError(IncompleteReason.STOPPED, "stopped")
        answer = self.answers.pop(0)
        if isinstance(answer, CountIncompleteError):
            raise answer
        return answer

    def run(self) -> list[str]:
        thread = threading.Thread(target=self.source.run)
        thread.start()
        thread.join(WAIT_S)
        assert not thread.is_alive()
        return [
            "finished" if isinstance(e, CountFinished) else e.reason.value
            for e in self.events
            if isinstance(e, CountFinished | CountFailed)
        ]


def whole() -> CountPass:
    return CountPass(at(0), at(0.1), CountMethod.FULL_DUMP, {ZoneId(5): 1}, 1)


def failed(reason: IncompleteReason) -> CountIncompleteError:
    return CountIncompleteError(reason, f"because of {reason}", remedy="do something")


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_AFTER_FAILURE_S", 1e-3)


def test_every_pass_is_reported() -> None:
    assert Table(whole(), whole(), whole()).run() == ["finished"] * 3


@pytest.mark.parametrize("reason", [r for r in IncompleteReason if r is not IncompleteReason.STOPPED])
def test_a_failed_pass_is_reported_with_its_reason_and_counting_goes_on(reason: IncompleteReason) -> None:
    table = Table(failed(reason), whole())
    assert table.run() == [reason.value, "finished"]
    (told,) = (e for e in table.events if isinstance(e, CountFailed))
    assert told.why == f"because of {reason}; do something"


def test_a_pass_that_was_stopped_is_no_failure() -> None:
    assert Table().run() == []


def test_a_request_is_answered_long_before_the_next_regular_pass() -> None:
    table = Table(whole(), whole(), interval_s=3600)
    table.meanwhile = table.source.request
    assert table.run() == ["finished", "finished"]


def test_requests_made_during_a_pass_lead_to_one_more() -> None:
    table = Table(whole(), whole(), interval_s=3600)

    def ask_often() -> None:
        if len(table.kept) == 1:
            for _ in range(10):
                table.source.request()
        elif len(table.kept) == 2:
            table.source.stop()

    table.meanwhile = ask_often
    table.run()
    assert len(table.kept) == 2


def test_what_is_to_be_kept_is_read_when_a_pass_starts() -> None:
    table = Table(whole(), whole())
    wanted = Keep(zones=frozenset({ZoneId(5)}))
    table.meanwhile = lambda: setattr(table.source, "keep", wanted)
    table.run()
    assert table.kept[:2] == [Keep(), wanted]


def test_a_defect_in_the_reader_is_not_swallowed() -> None:
    table = Table(whole())

    def broken() -> None:
        raise ZeroDivisionError

    table.meanwhile = broken
    with pytest.raises(ZeroDivisionError):
        table.source.run()


def test_a_stop_ends_the_wait_for_the_next_pass() -> None:
    table = Table(whole(), interval_s=3600)
    counted = threading.Event()
    table.source._report = lambda event: counted.set()
    thread = threading.Thread(target=table.source.run)
    thread.start()
    assert counted.wait(WAIT_S)
    table.source.stop()
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_a_stop_before_the_start_means_no_pass() -> None:
    table = Table(whole())
    table.source.stop()
    table.source.run()
    assert table.kept == []
