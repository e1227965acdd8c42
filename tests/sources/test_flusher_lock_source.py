"""The lock is tried for until it is held, kept until the end, and reported once each way."""

from __future__ import annotations

import threading

from ctctl.model.events import Event, FlusherLockChanged
from ctctl.sources import flusher_lock as module
from ctctl.sources.flusher_lock import FlusherLockSource


class Lock:
    """Free after so many attempts."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.is_held = False
        self.tried = threading.Event()

    def acquire(self) -> bool:
        self.refusals -= 1
        self.is_held = self.refusals < 0
        self.tried.set()
        return self.is_held

    def release(self) -> None:
        self.is_held = False


def run(lock: Lock, *, stop_when_held: bool) -> list[bool]:
    events: list[Event] = []

    def report(event: Event) -> None:
        events.append(event)
        if isinstance(event, FlusherLockChanged) and event.is_held is stop_when_held:
            source.stop()

    source = FlusherLockSource(report, lambda: None)
    source._lock = lock  # type: ignore[assignment]
    source.run()
    return [event.is_held for event in events if isinstance(event, FlusherLockChanged)]


def test_a_free_lock_is_taken_reported_and_released_at_the_end() -> None:
    lock = Lock(0)
    assert run(lock, stop_when_held=True) == [True]
    assert not lock.is_held


def test_somebody_elses_lock_is_reported_once_and_taken_when_it_is_free(monkeypatch: object) -> None:
    former, module.RETRY_S = module.RETRY_S, 0.001  # type: ignore[misc]
    try:
        assert run(Lock(5), stop_when_held=True) == [False, True]
    finally:
        module.RETRY_S = former  # type: ignore[misc]


def test_a_stop_while_somebody_else_holds_it_ends_the_wait() -> None:
    assert run(Lock(10**6), stop_when_held=False) == [False]


def test_what_only_the_flusher_may_do_is_done_with_the_lock_and_before_anybody_knows() -> None:
    told: list[str] = []
    lock = Lock(0)

    def report(event: Event) -> None:
        told.append("reported")
        source.stop()

    source = FlusherLockSource(report, lambda: told.append(f"prepared, held {lock.is_held}"))
    source._lock = lock  # type: ignore[assignment]
    source.run()
    assert told == ["prepared, held True", "reported"]
