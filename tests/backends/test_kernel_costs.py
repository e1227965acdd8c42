"""Filter each zone, or dump once: the cheaper by what both took here, and never a guess where nothing was measured."""

from __future__ import annotations

import pytest

from ctctl.backends.kernel import KernelDeleter
from ctctl.backends.kernel.costs import DELETE_S, FLUSH_PER_DUMP, FlushCosts
from ctctl.model.flush import FlushResult, Strategy
from ctctl.model.instant import Instant
from tests.backends.contract import many, zones
from tests.fake_kernel import DELETE, STATS, FakeKernel, Request

TABLE = dict.fromkeys(zones(*range(1, 501)), 2000)
MILLION = 1_000_000


def test_nothing_is_estimated_before_anything_was_measured() -> None:
    costs = FlushCosts()
    assert costs.filtered_flush_s(MILLION) is None
    assert costs.dump_flush_s(zones(1), MILLION) is None
    assert not costs.is_dump_cheaper(zones(*range(1, 500)), MILLION)


def test_a_dump_alone_tells_what_a_filtered_flush_may_take() -> None:
    costs = FlushCosts()
    costs.note_dump(2.5, TABLE)
    assert costs.filtered_flush_s(MILLION) == pytest.approx(2.5 * FLUSH_PER_DUMP)
    assert costs.filtered_flush_s(MILLION // 2) == pytest.approx(1.25 * FLUSH_PER_DUMP)
    assert costs.dump_flush_s(zones(1, 2), MILLION) == pytest.approx(2.5 + 4000 * DELETE_S)
    assert costs.dump_flush_s(zones(600), MILLION) == 2.5


def test_a_filtered_flush_alone_tells_what_a_dump_may_take() -> None:
    costs = FlushCosts()
    costs.note_filtered_flush(0.3, MILLION)
    assert costs.filtered_flush_s(2 * MILLION) == pytest.approx(0.6)
    assert costs.dump_flush_s(zones(1), MILLION) == pytest.approx(0.3 / FLUSH_PER_DUMP)


def test_measurements_replace_estimates() -> None:
    costs = FlushCosts()
    costs.note_dump(2.5, TABLE)
    costs.note_filtered_flush(0.4, MILLION)
    costs.note_deletes(0.01, 1000)
    assert costs.filtered_flush_s(MILLION) == pytest.approx(0.4)
    assert costs.dump_flush_s(zones(1), MILLION) == pytest.approx(2.5 + 2000 * 1e-5)
    costs.note_deletes(100, 999)
    assert costs.dump_flush_s(zones(1), MILLION) == pytest.approx(2.5 + 2000 * 1e-5), "a few deletes measure nothing"


def test_an_empty_table_does_not_divide_by_its_size() -> None:
    costs = FlushCosts()
    costs.note_dump(0.001, {})
    assert costs.filtered_flush_s(50) == pytest.approx(0.001 * FLUSH_PER_DUMP)


@pytest.mark.parametrize("dump_s", [0.23, 1.2, 2.5])
@pytest.mark.parametrize("flush_share", [0.08, 0.1, 0.14, 0.2])
def test_the_choice_changes_where_the_costs_cross(dump_s: float, flush_share: float) -> None:
    costs = FlushCosts()
    costs.note_dump(dump_s, TABLE)
    costs.note_filtered_flush(dump_s * flush_share, MILLION)
    for number in range(2, 40):
        chosen = zones(*range(1, number + 1))
        filtered_s = number * dump_s * flush_share
        by_dump_s = dump_s + number * 2000 * DELETE_S
        if abs(filtered_s - by_dump_s) > 1e-9:
            assert costs.is_dump_cheaper(chosen, MILLION) == (by_dump_s < filtered_s)


def test_one_zone_is_always_filtered_so_that_a_spoilt_measurement_does_not_last() -> None:
    costs = FlushCosts()
    costs.note_dump(0.01, TABLE)
    costs.note_filtered_flush(30.0, MILLION)
    assert not costs.is_dump_cheaper(zones(1), MILLION)
    assert not costs.is_dump_cheaper((), MILLION)
    assert costs.is_dump_cheaper(zones(1, 2), MILLION)


class CostlyKernel(FakeKernel):
    """A kernel whose clock moves by what each request costs."""

    def __init__(self, *, dump_s: float, flush_s: float) -> None:
        super().__init__()
        self.boot_s = 0.0
        self.prices = {"dump": dump_s, "flush": flush_s}

    def handle(self, request: Request) -> list:  # type: ignore[type-arg]
        attributes = request.attributes()
        if request.kind == DELETE and 1 not in attributes:
            self.boot_s += self.prices["flush"]
        elif request.is_dump and not attributes and request.kind != STATS:
            self.boot_s += self.prices["dump"]
        return super().handle(request)

    def clock(self) -> Instant:
        return Instant(self.boot_s, self.boot_s)


@pytest.mark.parametrize("asked", [2, 8, 9, 30, 50])
def test_without_any_knowledge_a_flush_of_many_zones_learns_from_its_first(
    monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    kernel = CostlyKernel(dump_s=2.5, flush_s=0.3)
    kernel.install(monkeypatch)
    kernel.insert(flow for zone in range(1, 61) for flow in many(zone, 2))
    outcomes = KernelDeleter(kernel.clock).flush_zones(zones(*range(1, asked + 1)))
    assert all(isinstance(outcome, FlushResult) for outcome in outcomes)
    strategies = [outcome.strategy for outcome in outcomes if isinstance(outcome, FlushResult)]
    best = min(asked * 0.3, 2.5)
    assert kernel.boot_s <= best + 0.3 + 1e-9
    assert strategies[0] is Strategy.KERNEL_FILTER
    assert (Strategy.ENTRY_DELETE in strategies) == (asked > 9)
    assert {flow.zone for flow in kernel.table} == set(range(asked + 1, 61))


@pytest.mark.parametrize(("asked", "by_dump"), [(8, False), (9, True)])
def test_with_knowledge_the_cheaper_way_is_taken_at_once(
    monkeypatch: pytest.MonkeyPatch, asked: int, by_dump: bool
) -> None:
    kernel = CostlyKernel(dump_s=2.5, flush_s=0.3)
    kernel.install(monkeypatch)
    kernel.insert(flow for zone in range(1, 61) for flow in many(zone, 2))
    costs = FlushCosts()
    costs.note_dump(2.5, dict.fromkeys(zones(*range(1, 61)), 2))
    costs.note_filtered_flush(0.3, 120)
    outcomes = KernelDeleter(kernel.clock, costs=costs).flush_zones(zones(*range(1, asked + 1)))
    expected = Strategy.ENTRY_DELETE if by_dump else Strategy.KERNEL_FILTER
    assert {outcome.strategy for outcome in outcomes if isinstance(outcome, FlushResult)} == {expected}
