"""What a flush would cost: from the last pass, moved by what flushes really took."""

from __future__ import annotations

import pytest

from ctctl.decide.estimate import FlushEstimate
from ctctl.model.counts import CountMethod, CountPass
from ctctl.model.flush import FlushResult, Strategy
from ctctl.model.ids import ZoneId, flushable_zone_id
from ctctl.model.instant import Instant


def counted(entries: int, seconds: float, zones: int = 10, ratio: float = 1.0) -> CountPass:
    by_zone = {ZoneId(z): entries // zones for z in range(1, zones + 1)}
    method = CountMethod.FULL_DUMP if ratio == 1 else CountMethod.SAMPLED_DUMP
    return CountPass(Instant(0, 0), Instant(seconds, seconds), method, by_zone, entries, sampling_ratio=ratio)


def flushed(seconds: float, strategy: Strategy = Strategy.KERNEL_FILTER) -> FlushResult:
    return FlushResult(flushable_zone_id(5), strategy, seconds, None)


def test_before_the_first_pass_there_is_no_estimate() -> None:
    assert FlushEstimate().seconds(None) == {}
    assert FlushEstimate().seconds(counted(0, 0.0)) == {}


@pytest.mark.parametrize(
    ("entries", "share"), [(10, 0.10), (100_000, 0.10), (300_000, 0.11), (500_000, 0.12), (750_000, 0.13), (9**9, 0.14)]
)
def test_a_filtered_flush_takes_a_share_of_a_dump(entries: int, share: float) -> None:
    assert FlushEstimate().seconds(counted(entries, 2.0))[Strategy.KERNEL_FILTER] == pytest.approx(2.0 * share)


def test_deleting_entries_takes_a_dump_and_the_deletes() -> None:
    found = FlushEstimate().seconds(counted(100_000, 0.2, zones=10))[Strategy.ENTRY_DELETE]
    assert found == pytest.approx(0.2 + 10_000 * 2e-6)


def test_a_sampled_pass_stands_for_a_whole_one() -> None:
    assert FlushEstimate().seconds(counted(100_000, 0.02, ratio=0.1))[Strategy.KERNEL_FILTER] == pytest.approx(0.02)


def test_real_flushes_move_the_estimate_of_their_strategy_alone() -> None:
    estimate, count = FlushEstimate(), counted(100_000, 0.2)
    for _ in range(12):
        estimate.learn(flushed(0.2), count)
    assert estimate.seconds(count)[Strategy.KERNEL_FILTER] == pytest.approx(0.2, rel=0.01)
    assert estimate.seconds(count)[Strategy.ENTRY_DELETE] == pytest.approx(0.22)


def test_a_flush_too_quick_for_the_clock_does_not_end_learning() -> None:
    estimate, count = FlushEstimate(), counted(100_000, 0.2)
    estimate.learn(flushed(0.0), count)
    assert estimate.seconds(count)[Strategy.KERNEL_FILTER] == pytest.approx(0.02)


def test_without_a_pass_nothing_is_learned() -> None:
    estimate = FlushEstimate()
    estimate.learn(flushed(5.0), None)
    assert estimate.seconds(counted(100_000, 0.2))[Strategy.KERNEL_FILTER] == pytest.approx(0.02)
