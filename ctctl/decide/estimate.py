"""What flushing one zone would cost now, from the last counting pass and from real flushes."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from ctctl.model.counts import CountPass
from ctctl.model.flush import FlushResult, Strategy

_FILTER_SHARE: Final = ((100_000, 0.10), (500_000, 0.12), (1_000_000, 0.14))
"""A kernel-filtered flush takes this share of a full dump's time, by table size (measured on Linux 6.18)."""

_DELETE_ONE_S: Final = 2e-6
"""One pipelined delete by tuple, zone and id (measured on Linux 6.18)."""

_WEIGHT: Final = 0.5
"""How much one real flush moves the correction towards itself."""


class FlushEstimate:
    """Seconds per zone and strategy; corrected by every flush that was really sent."""

    def __init__(self) -> None:
        self._correction: dict[Strategy, float] = {}

    def seconds(self, count: CountPass | None) -> dict[Strategy, float]:
        """The present estimate per strategy; empty before the first pass."""
        if count is None or count.duration_s <= 0:
            return {}
        dump_s = count.duration_s / count.sampling_ratio
        per_zone = count.entries / max(1, len(count.entries_by_zone))
        raw = {
            Strategy.KERNEL_FILTER: dump_s * _share(count.entries),
            Strategy.ENTRY_DELETE: dump_s + per_zone * _DELETE_ONE_S,
        }
        return {strategy: value * self._correction.get(strategy, 1.0) for strategy, value in raw.items()}

    def learn(self, result: FlushResult, count: CountPass | None) -> None:
        """Move the estimate of the flush's strategy towards what it really took."""
        estimated_s = self.seconds(count).get(result.strategy)
        if estimated_s and result.duration_s > 0:
            ratio = result.duration_s / estimated_s
            self._correction[result.strategy] = self._correction.get(result.strategy, 1.0) * ratio**_WEIGHT


def _share(entries: int) -> float:
    sizes = [size for size, _ in _FILTER_SHARE]
    at = bisect_left(sizes, entries)
    if at == 0:
        return _FILTER_SHARE[0][1]
    if at == len(_FILTER_SHARE):
        return _FILTER_SHARE[-1][1]
    (low, low_share), (high, high_share) = _FILTER_SHARE[at - 1 : at + 1]
    return low_share + (high_share - low_share) * (entries - low) / (high - low)
