"""A point in time, as an argument: decisions never ask a clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """One moment on both clocks.

    `boot_s`: seconds of CLOCK_BOOTTIME: never steps, runs on while the machine or the process is suspended; every
    comparison of times uses it. `wall_s`: Unix time, for people and for comparison with kernel start timestamps.
    """

    boot_s: float
    wall_s: float

    def since(self, earlier: Instant) -> float:
        """Seconds from `earlier` to this instant."""
        return self.boot_s - earlier.boot_s
