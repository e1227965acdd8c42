"""What one counting pass takes out of a dump: entries per zone, detail where wanted, and entries kept as sightings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from ctctl.model.conntrack import Sighting
from ctctl.model.counts import CountDetail, CountMethod, CountPass, Keep
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant
from ctctl.wire import netlink
from ctctl.wire.conntrack_count import ZoneCounter
from ctctl.wire.conntrack_detail import DetailCounter
from ctctl.wire.conntrack_quick import sighting
from ctctl.wire.conntrack_walk import DumpEnd

LONG_LIVED_S: Final = 300.0
"""An entry with less time left is no use as a sample: it may be gone before anything is compared with it."""
LOOKS_PER_SAMPLE: Final = 4
"""Entries of a zone looked at for each sample wanted, before it is taken to hold no long-lived ones."""
BLOCKS_PER_SIZE_CHECK: Final = 64
"""Adding up all zones costs as much as counting a hundred entries; 64 blocks hold some 8,000."""


class Tally:
    """The sink of one counting pass.

    `stop_at`: entries after which the rest of the dump is not needed, None to read it all.
    """

    def __init__(
        self, keep: Keep, clock: Callable[[], Instant], *, wants_detail: bool, stop_at: int | None = None
    ) -> None:
        self._keep = keep
        self._clock = clock
        self._wants_detail = wants_detail
        self._stop_at = stop_at
        self.begin(0, 0)

    def begin(self, seq: int, portid: int) -> None:
        """Forget everything and expect the dump `seq` for `portid`."""
        self._counter = ZoneCounter(seq, portid, self._on_wanted)
        self._detail = DetailCounter()
        self._sightings: list[Sighting] = []
        self._samples: Counter[ZoneId] = Counter()
        self._looks: Counter[ZoneId] = Counter()
        self._blocks = 0
        self._seen: Instant | None = None
        for zone in self._keep.zones:
            self._counter.want(zone)
        if self._wants_detail or self._keep.samples_per_zone:
            self._counter.want_all()

    def feed(self, block: bytearray, end: int) -> DumpEnd | None:
        """Count the entries in `block[:end]`; returns how the dump ended once it has.

        Raises:
            MalformedMessageError: the block is not what the kernel sends.
        """
        self._blocks += 1
        self._seen = None
        return self._counter.feed(block, end)

    def is_enough(self) -> bool:
        """Claims that `stop_at` entries have been read, looking every few blocks."""
        if self._stop_at is None or self._blocks % BLOCKS_PER_SIZE_CHECK:
            return False
        return self._counter.entries() >= self._stop_at

    def whole(self, started: Instant, ended: Instant, attempts: int) -> CountPass:
        """The pass, after a dump that came to its end."""
        zones = self._counter.entries_by_zone()
        return CountPass(
            started=started,
            ended=ended,
            method=CountMethod.FULL_DUMP,
            entries_by_zone=zones,
            entries=sum(zones.values()),
            attempts=attempts,
            detail=self._detail.result() if self._wants_detail else None,
            sightings=tuple(self._sightings),
            kept=self._keep.zones,
        )

    def scaled(self, started: Instant, ended: Instant, attempts: int, total: int) -> CountPass:
        """The pass, after a dump that was left early, scaled to the `total` that the kernel gives exactly.

        A dump comes in hash order, so what was read is a fair sample of what was not.
        """
        read = self._counter.entries()
        entries = max(total, read)
        ratio = read / entries if entries else 1.0
        return CountPass(
            started=started,
            ended=ended,
            method=CountMethod.SAMPLED_DUMP,
            entries_by_zone=_up(self._counter.entries_by_zone(), ratio),
            entries=entries,
            sampling_ratio=ratio,
            attempts=attempts,
            detail=_detail_up(self._detail.result(), ratio) if self._wants_detail else None,
        )

    def _on_wanted(self, block: netlink.Block, start: int, end: int, zone: ZoneId) -> None:
        if self._wants_detail:
            self._detail.add(block, start, end)
        if len(self._sightings) >= self._keep.max_sightings:
            return
        if zone in self._keep.zones:
            self._sightings.append(sighting(block, start, end, self._now()))
        elif self._samples[zone] < self._keep.samples_per_zone:
            self._sample(sighting(block, start, end, self._now()))

    def _now(self) -> Instant:
        """When this block was received; asked for once per block, and only if an entry of it is kept."""
        if self._seen is None:
            self._seen = self._clock()
        return self._seen

    def _sample(self, found: Sighting) -> None:
        """Keep an entry as a sample of its zone if it will live; stop looking when there are enough."""
        zone, wanted = found.zone, self._keep.samples_per_zone
        self._looks[zone] += 1
        if found.expires_boot_s is not None and found.expires_boot_s - self._now().boot_s >= LONG_LIVED_S:
            self._samples[zone] += 1
            self._sightings.append(found)
        if self._looks[zone] >= wanted * LOOKS_PER_SAMPLE:
            self._samples[zone] = wanted
        if self._samples[zone] >= wanted and not self._wants_detail:
            self._counter.forget(zone)


K = TypeVar("K")


def _up(counts: Mapping[K, int], ratio: float) -> dict[K, int]:
    return {key: round(count / ratio) for key, count in counts.items()}


def _detail_up(detail: CountDetail, ratio: float) -> CountDetail:
    return CountDetail(
        by_protocol=_up(detail.by_protocol, ratio),
        by_tcp_state=_up(detail.by_tcp_state, ratio),
        assured=round(detail.assured / ratio),
        unassured=round(detail.unassured / ratio),
    )
