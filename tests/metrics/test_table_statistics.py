"""Kernel statistics: counters that wrap made into ones that do not, and a kernel that does not answer."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctctl.errors import TimedOutError, UnavailableError
from ctctl.metrics.collect_table import PatientReader
from ctctl.metrics.wrapping import WrapAccumulator
from ctctl.model.counts import TableStats
from tests.metrics.snapshots import table_stats

TOP = 2**32


def test_the_first_reading_counts_as_it_is_summed_over_cpus() -> None:
    assert WrapAccumulator().add({0: {"drop": 5}, 1: {"drop": 7}}) == {"drop": 12}


def test_a_counter_that_wraps_goes_on_growing() -> None:
    counters = WrapAccumulator()
    counters.add({0: {"found": TOP - 10}})
    assert counters.add({0: {"found": 5}}) == {"found": TOP + 5}
    assert counters.add({0: {"found": 6}}) == {"found": TOP + 6}


def test_one_cpu_wraps_while_the_other_does_not() -> None:
    counters = WrapAccumulator()
    counters.add({0: {"found": TOP - 1}, 1: {"found": 100}})
    assert counters.add({0: {"found": 0}, 1: {"found": 101}}) == {"found": TOP + 101}


def test_counters_set_back_by_a_module_reload_count_on_from_zero() -> None:
    counters = WrapAccumulator()
    counters.add({0: {"found": 3_000_000_000, "drop": 40}})
    assert counters.add({0: {"found": 10, "drop": 0}}) == {"found": 3_000_000_010, "drop": 40}


def test_a_cpu_that_appears_later_adds_all_it_has() -> None:
    counters = WrapAccumulator()
    counters.add({0: {"drop": 1}})
    assert counters.add({0: {"drop": 1}, 1: {"drop": 2**31 + 5}}) == {"drop": 2**31 + 6}


def test_a_cpu_that_vanishes_takes_nothing_away() -> None:
    counters = WrapAccumulator()
    counters.add({0: {"drop": 1}, 1: {"drop": 9}})
    assert counters.add({0: {"drop": 2}}) == {"drop": 11}


@given(st.lists(st.lists(st.integers(0, TOP - 1), min_size=2, max_size=2), min_size=1, max_size=20))
def test_totals_never_go_back_whatever_the_kernel_says(readings: list[list[int]]) -> None:
    counters, last = WrapAccumulator(), 0
    for one, other in readings:
        total = counters.add({0: {"found": one}, 1: {"found": other}})["found"]
        assert total >= last
        last = total


@given(st.integers(0, TOP - 1), st.lists(st.integers(0, 2**31 - 1), max_size=20))
def test_steps_below_half_the_range_are_counted_exactly(start: int, steps: list[int]) -> None:
    counters = WrapAccumulator()
    counters.add({0: {"found": start}})
    total = {"found": start}
    true = start
    for step in steps:
        true += step
        total = dict(counters.add({0: {"found": true % TOP}}))
    assert total["found"] == true


def test_a_reader_passes_on_what_it_reads_and_what_is_raised() -> None:
    assert PatientReader(table_stats)() == table_stats()

    def gone() -> TableStats:
        raise UnavailableError("nf_conntrack is not loaded")

    with pytest.raises(UnavailableError, match="not loaded"):
        PatientReader(gone)()


def test_a_kernel_that_hangs_costs_each_caller_a_moment_and_one_thread_in_all() -> None:
    release, calls = threading.Event(), []

    def hang() -> TableStats:
        calls.append(1)
        release.wait(60)
        return table_stats()

    reader = PatientReader(hang, timeout_s=0.01)
    for _ in range(5):
        with pytest.raises(TimedOutError, match=r"0\.01 s"):
            reader()
    assert len(calls) == 1
    release.set()
    for thread in threading.enumerate():
        if thread.name == "ctctl-table-stats":
            thread.join()
    patient = PatientReader(reader._read, timeout_s=30)
    assert patient() == table_stats()


def test_callers_at_the_same_time_share_one_answer() -> None:
    release, calls = threading.Event(), []

    def slow() -> TableStats:
        calls.append(1)
        release.wait(60)
        return table_stats()

    reader = PatientReader(slow, timeout_s=30)
    answers: list[TableStats] = []
    callers = [threading.Thread(target=lambda: answers.append(reader())) for _ in range(4)]
    for caller in callers:
        caller.start()
    release.set()
    for caller in callers:
        caller.join()
    assert answers == [table_stats()] * 4
    assert len(calls) <= 4
