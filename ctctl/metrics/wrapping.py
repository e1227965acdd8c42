"""Kernel counters of 32 bits made into counters that never wrap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_RANGE: Final = 1 << 32
_HALF: Final = _RANGE >> 1


class WrapAccumulator:
    """Sums per-CPU u32 counters into totals that only grow.

    The first reading counts as it is. Later a CPU's counter that went back has wrapped, and the distance modulo
    2**32 is added; unless some counter of that reading would thereby have advanced by half the range or more, which
    means that the counters were set back (the module was loaded again), and then all of them count from 0. More
    than one wrap between two readings cannot be seen. Not thread-safe.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[int, str], int] = {}
        self._totals: dict[str, int] = {}

    def add(self, counters_by_cpu: Mapping[int, Mapping[str, int]]) -> Mapping[str, int]:
        """Take in one reading (cpu → name → u32) and return the totals by name."""
        reading = {(cpu, name): value for cpu, own in counters_by_cpu.items() for name, value in own.items()}
        advances = {at: (value - self._last.get(at, 0)) % _RANGE for at, value in reading.items()}
        was_set_back = any(advance >= _HALF for at, advance in advances.items() if at in self._last)
        for at, value in reading.items():
            _, name = at
            self._totals[name] = self._totals.get(name, 0) + (value if was_set_back else advances[at])
        self._last = reading
        return dict(self._totals)
