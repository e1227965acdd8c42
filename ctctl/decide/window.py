"""Sliding windows: the flush budget, and the brake that mass changes trip."""

from __future__ import annotations

from collections import deque
from typing import Final

from ctctl.model.instant import Instant

WINDOW_S: Final = 60.0
BRAKE_RELEASE_S: Final = 300.0
"""The brake lets go after this long without a mass change."""


class Budget:
    """At most `limit` spendings in any 60 seconds."""

    def __init__(self) -> None:
        self._spent: deque[float] = deque()

    def has_room(self, limit: int, now: Instant) -> bool:
        """Claims that one more spending now stays within `limit`."""
        _drop_before(self._spent, now.boot_s - WINDOW_S)
        return len(self._spent) < limit

    def spend(self, now: Instant) -> None:
        """Take one from the budget."""
        self._spent.append(now.boot_s)

    def refund(self) -> None:
        """Give the last spending back: nothing was sent for it."""
        if self._spent:
            self._spent.pop()


class Brake:
    """On from the moment that more than `limit` changes fall within 60 seconds, until 5 stable minutes passed."""

    def __init__(self) -> None:
        self._changes: deque[float] = deque()
        self._last_trip: float | None = None

    def note(self, changes: int, limit: int, now: Instant) -> None:
        """Count `changes` that happened now."""
        self._changes.extend([now.boot_s] * changes)
        if self.changes(now) > limit:
            self._last_trip = now.boot_s

    def changes(self, now: Instant) -> int:
        """Changes within the last 60 seconds."""
        _drop_before(self._changes, now.boot_s - WINDOW_S)
        return len(self._changes)

    def is_on(self, now: Instant) -> bool:
        """Claims that automatic flushes must wait."""
        if self._last_trip is not None and now.boot_s - self._last_trip >= BRAKE_RELEASE_S:
            self._last_trip = None
        return self._last_trip is not None


def _drop_before(times: deque[float], limit: float) -> None:
    while times and times[0] <= limit:
        times.popleft()
