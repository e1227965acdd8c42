"""Entries of one pass, counted: per zone, in detail where wanted, and those kept as sightings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ctctl.model.conntrack import Sighting
from ctctl.model.counts import CountDetail, CountMethod, CountPass, Keep
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant
from ctctl.wire import netlink
from ctctl.wire.conntrack_entry import PROTOCOL_NAMES, TCP_STATE_NAMES, Entry, entry
from ctctl.wire.conntrack_walk import zone_of

LONG_LIVED_S = 300
"""An entry with less time left is no use as a sample: it will be gone before anyone compares."""
TRIES_PER_SAMPLE = 4
"""Entries of a zone that are decoded for each sample wanted, before the zone is taken to hold no long-lived ones."""


class Tally:
    """Adds up one dump."""

    def __init__(self, keep: Keep, clock: Callable[[], Instant], *, wants_detail: bool) -> None:
        self._keep = keep
        self._clock = clock
        self._wants_detail = wants_detail
        self._zones: Counter[ZoneId] = Counter()
        self._protocols: Counter[int] = Counter()
        self._tcp_states: Counter[int] = Counter()
        self._assured = 0
        self._sightings: list[Sighting] = []
        self._samples: Counter[ZoneId] = Counter()
        self._tries: Counter[ZoneId] = Counter()

    @property
    def entries(self) -> int:
        """Entries added so far."""
        return self._zones.total()

    def add(self, block: netlink.Bytes, start: int, end: int) -> None:
        """Count the entry whose message is `block[start:end]`.

        Raises:
            MalformedMessageError: it is no whole entry.
        """
        zone = zone_of(block, start, end)
        self._zones[zone] += 1
        if self._wants_detail or self._wants(zone):
            found = entry(memoryview(block)[start + netlink.HEADER.size : end])
            if self._wants_detail:
                self._add_detail(found)
            if self._wants(zone):
                self._keep_one(found)

    def finish(self, started: Instant, ended: Instant, entries: int, *, is_sampled: bool) -> CountPass:
        """The pass, scaled to `entries` if it is a sampled one."""
        ratio = self.entries / entries if is_sampled and entries else 1.0
        ratio = min(ratio, 1.0)
        return CountPass(
            started=started,
            ended=ended,
            method=CountMethod.SAMPLED_DUMP if is_sampled else CountMethod.FULL_DUMP,
            entries_by_zone={zone: round(count / ratio) for zone, count in self._zones.items()},
            entries=entries,
            sampling_ratio=ratio,
            detail=self._detail() if self._wants_detail else None,
            sightings=tuple(self._sightings),
            kept=self._keep.zones,
        )

    def _wants(self, zone: ZoneId) -> bool:
        if len(self._sightings) >= self._keep.max_sightings:
            return False
        if zone in self._keep.zones:
            return True
        wanted = self._keep.samples_per_zone
        return self._samples[zone] < wanted and self._tries[zone] < wanted * TRIES_PER_SAMPLE

    def _keep_one(self, found: Entry) -> None:
        if found.zone not in self._keep.zones:
            self._tries[found.zone] += 1
            if found.timeout_s is None or found.timeout_s < LONG_LIVED_S:
                return
            self._samples[found.zone] += 1
        self._sightings.append(found.sighting(self._clock()))

    def _add_detail(self, found: Entry) -> None:
        self._protocols[found.protocol] += 1
        if found.tcp_state is not None:
            self._tcp_states[found.tcp_state] += 1
        self._assured += found.is_assured

    def _detail(self) -> CountDetail:
        by_state = {
            TCP_STATE_NAMES[state] if state < len(TCP_STATE_NAMES) else str(state): count
            for state, count in self._tcp_states.items()
        }
        return CountDetail(
            by_protocol={PROTOCOL_NAMES.get(n, str(n)): count for n, count in self._protocols.items()},
            by_tcp_state=by_state,
            assured=self._assured,
            unassured=self.entries - self._assured,
        )
