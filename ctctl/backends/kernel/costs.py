"""What flushing costs on this host now, from what counting and flushing took: filter each zone, or dump once?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ctctl.model.ids import ZoneId

FLUSH_PER_DUMP: Final = 0.12
"""A filtered flush takes this share of a dump until one was measured here (0.10 at 100k entries, 0.14 at 1M)."""
DELETE_S: Final = 2e-6
"""A pipelined delete of one entry, until measured here."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """Seconds that something took when the table had so many entries."""

    seconds: float
    entries: int

    def at(self, entries: int) -> float:
        """Scaled to another size: dumps and filtered flushes both walk the whole table."""
        return self.seconds * entries / self.entries if self.entries else self.seconds


@dataclass(slots=True)
class FlushCosts:
    """Measurements of one host's table. Written by whoever measures, read by whoever chooses; any thread may do both,
    because each measurement is replaced whole.
    """

    _dump: _Measured | None = None
    _filtered_flush: _Measured | None = None
    _delete_s: float = DELETE_S
    _entries_by_zone: Mapping[ZoneId, int] = field(default_factory=dict)

    def note_dump(self, seconds: float, entries_by_zone: Mapping[ZoneId, int]) -> None:
        """A whole dump took so long and found so much."""
        self._dump = _Measured(seconds, sum(entries_by_zone.values()))
        self._entries_by_zone = entries_by_zone

    def note_filtered_flush(self, seconds: float, entries: int) -> None:
        """One filtered flush took so long, in a table of so many entries."""
        self._filtered_flush = _Measured(seconds, entries)

    def note_deletes(self, seconds: float, deletes: int) -> None:
        """So many pipelined deletes took so long. Few are no measurement."""
        if deletes >= 1000:  # noqa: PLR2004 (eight sends)
            self._delete_s = seconds / deletes

    def filtered_flush_s(self, entries: int) -> float | None:
        """Seconds one filtered flush of a table of `entries` would take; None while nothing was measured."""
        if self._filtered_flush is not None:
            return self._filtered_flush.at(entries)
        return None if self._dump is None else self._dump.at(entries) * FLUSH_PER_DUMP

    def dump_flush_s(self, zones: Iterable[ZoneId], entries: int) -> float | None:
        """Seconds one dump of `entries` and the deletes of all of `zones`' entries would take; None as above."""
        if self._dump is not None:
            entries_there = sum(self._entries_by_zone.get(zone, 0) for zone in zones)
            return self._dump.at(entries) + self._delete_s * entries_there
        if self._filtered_flush is not None:
            return self._filtered_flush.at(entries) / FLUSH_PER_DUMP
        return None

    def is_dump_cheaper(self, zones: tuple[ZoneId, ...], entries: int) -> bool:
        """Claims that one dump with entry deletes beats a filtered flush of each zone.

        False while nothing is known: the first filtered flush is a measurement. False for one zone, so that a
        measurement that was spoilt (the flush had to wait for another) is replaced by the next flush.
        """
        if len(zones) < 2:  # noqa: PLR2004 (one zone)
            return False
        filtered_s, dump_s = self.filtered_flush_s(entries), self.dump_flush_s(zones, entries)
        return filtered_s is not None and dump_s is not None and dump_s < len(zones) * filtered_s
