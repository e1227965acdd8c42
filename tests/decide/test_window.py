"""The budget bounds any sixty seconds; the brake trips on mass changes and lets go by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ctctl.decide.window import Brake, Budget
from ctctl.model.instant import Instant


def at(seconds: float) -> Instant:
    return Instant(seconds, 1e9 + seconds)


def test_a_budget_is_spent_and_comes_back_after_a_minute() -> None:
    budget = Budget()
    for second in range(3):
        assert budget.has_room(3, at(second))
        budget.spend(at(second))
    assert not budget.has_room(3, at(59.9))
    assert budget.has_room(3, at(60))
    assert not budget.has_room(2, at(60))


def test_a_budget_of_none_has_no_room() -> None:
    assert not Budget().has_room(0, at(0))


def test_a_refund_gives_back_one_and_no_more() -> None:
    budget = Budget()
    budget.refund()
    budget.spend(at(0))
    assert not budget.has_room(1, at(1))
    budget.refund()
    assert budget.has_room(1, at(1))
    budget.refund()
    budget.spend(at(2))
    assert not budget.has_room(1, at(2))


@given(st.lists(st.floats(0, 300), max_size=60), st.integers(0, 5))
def test_no_sixty_seconds_ever_hold_more_than_the_limit(times: list[float], limit: int) -> None:
    budget, spent = Budget(), []
    for time in sorted(times):
        if budget.has_room(limit, at(time)):
            budget.spend(at(time))
            spent.append(time)
    assert all(sum(1 for t in spent if start <= t < start + 60) <= limit for start in spent)


def test_the_brake_trips_above_its_limit() -> None:
    brake = Brake()
    brake.note(10, 10, at(0))
    assert not brake.is_on(at(0))
    brake.note(1, 10, at(1))
    assert brake.is_on(at(1))
    assert brake.changes(at(1)) == 11


def test_changes_that_lie_apart_do_not_trip_the_brake() -> None:
    brake = Brake()
    for minute in range(10):
        brake.note(10, 10, at(minute * 61))
        assert not brake.is_on(at(minute * 61))


def test_the_brake_lets_go_after_five_stable_minutes() -> None:
    brake = Brake()
    brake.note(11, 10, at(0))
    assert brake.is_on(at(299.9))
    assert not brake.is_on(at(300))
    assert not brake.is_on(at(301))


def test_another_mass_change_holds_the_brake_longer() -> None:
    brake = Brake()
    brake.note(11, 10, at(0))
    brake.note(11, 10, at(200))
    assert brake.is_on(at(499))
    assert not brake.is_on(at(500))


def test_a_limit_of_none_trips_at_the_first_change_and_not_before() -> None:
    brake = Brake()
    brake.note(0, 0, at(0))
    assert not brake.is_on(at(0))
    brake.note(1, 0, at(1))
    assert brake.is_on(at(1))
