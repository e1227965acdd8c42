from __future__ import annotations

import pytest

from ctctl.cli.watch import Rates, Sort, order


def zone(number: int, entries: int | None, owner: str = "") -> dict[str, object]:
    return {"ct_zone": number, "owner": owner, "entries": entries}


def rates(found: list[dict[str, object]]) -> list[object]:
    return [report["rate"] for report in found]


def test_a_rate_needs_two_different_counts() -> None:
    watched = Rates()
    assert rates(watched.add([zone(1, 100)], 10.0)) == [None]
    assert rates(watched.add([zone(1, 100)], 11.0)) == [None]
    assert rates(watched.add([zone(1, 130)], 13.0)) == [10.0]


def test_a_rate_counts_from_the_last_change_because_listings_repeat_the_same_count() -> None:
    watched = Rates()
    watched.add([zone(1, 100)], 0.0)
    watched.add([zone(1, 160)], 15.0)
    watched.add([zone(1, 160)], 29.0)
    assert rates(watched.add([zone(1, 100)], 30.0)) == [-4.0]


def test_a_zone_that_was_not_counted_has_no_rate() -> None:
    assert rates(Rates().add([zone(1, None)], 0.0)) == [None]


@pytest.mark.parametrize(
    ("sort", "numbers"),
    [(Sort.ZONE, [1, 2, 3]), (Sort.ENTRIES, [2, 1, 3]), (Sort.OWNER, [3, 1, 2]), (Sort.RATE, [3, 1, 2])],
)
def test_figures_are_sorted_downwards_names_and_numbers_upwards(sort: Sort, numbers: list[int]) -> None:
    found = [
        {**zone(1, 5, "b"), "rate": 0.5},
        {**zone(2, 9, "c"), "rate": None},
        {**zone(3, None, "a"), "rate": 2.0},
    ]
    assert [report["ct_zone"] for report in order(found, sort)] == numbers
