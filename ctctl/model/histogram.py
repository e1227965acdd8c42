"""A histogram as a value: fixed bounds, counts and sum, copied on every observation."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

FLUSH_BOUNDS_S: tuple[float, ...] = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Upper bounds for everything a flush takes: half a millisecond on an empty table, seconds on a huge one."""

STALL_BOUNDS_S: tuple[float, ...] = (
    0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0,
)  # fmt: skip
"""Upper bounds for main-loop times: vswitchd's own warnings double from 1 s on."""

VERDICT_BOUNDS_S: tuple[float, ...] = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds for waits that end with a counting pass, and for router creation to readiness."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts[i]` observations were ≤ `bounds[i]` and > `bounds[i-1]`; the last count is everything above."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total_s: float = 0.0

    @classmethod
    def empty(cls, bounds: tuple[float, ...]) -> Histogram:
        """A histogram without observations."""
        return cls(bounds, (0,) * (len(bounds) + 1))

    def observe(self, seconds: float) -> Histogram:
        """This histogram with one observation more."""
        at = bisect_left(self.bounds, seconds)
        counts = (*self.counts[:at], self.counts[at] + 1, *self.counts[at + 1 :])
        return Histogram(self.bounds, counts, self.total_s + seconds)

    @property
    def count(self) -> int:
        """All observations."""
        return sum(self.counts)
