"""Which entries of a zone are provably older than its assignment.

The kernel's ids are not identity: a tuple that is deleted and re-created usually gets its old id back. What tells an
old entry from a reborn one is its start timestamp, or an expiry instant that has not moved since before the
assignment: an entry that nothing refreshed. Whatever cannot be proved old is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ctctl.model.conntrack import EntryKey, Sighting
from ctctl.model.counts import CountPass, Keep
from ctctl.model.ids import HOST_ZONE, ZoneId, flushable_zone_id
from ctctl.model.instant import Instant
from ctctl.model.verdict import Verdict
from ctctl.model.zone import ZoneMap

START_MARGIN_S: Final = 2.0
"""A start timestamp counts as old when it precedes the cutoff by at least this much."""

EXPIRY_TOLERANCE_S: Final = 1.25
"""An expiry instant within this of the former one has not moved: the kernel tells timeouts in whole seconds, and some
time passes between its answer and the look at the clock.
"""

BASELINE_MARGIN_S: Final = 2.5
"""A baseline ends at least this long before the cutoff. A shorter gap could not tell an idle entry from one that was
deleted and re-created at once: both would expire at the same instant, within the tolerance and two roundings.
"""

CLOCK_STEP_S: Final = 0.5
"""Wall and boot clock drifted apart by more than this: somebody set the clock, and start timestamps prove nothing."""

SAMPLES_PER_ZONE: Final = 16
"""Long-lived entries of every owned zone that a pass keeps, for the day on which its router is replaced."""

MIN_BASELINE_ENTRIES: Final = 10_000
"""Entries of zones without owner that a pass may always keep, however small the table."""

HORIZON_S: Final = 10.0
"""A cutoff lies at most this far back while a database is connected: it confirms every five seconds."""

MAX_YOUNG_PASSES: Final = 12
"""Passes within the horizon that are kept; that many come in a row only while the table is small."""

_Identity = tuple[int, bytes, int]


@dataclass(frozen=True, slots=True)
class Baseline:
    """One zone as a complete pass saw it. `is_whole`: every entry is among `expiries` (also when there was none)."""

    ended: Instant
    is_whole: bool
    expiries: Mapping[_Identity, float | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a pass says about one assignment: the verdict, the entries there, and which of them are provably old."""

    verdict: Verdict
    entries: int
    stale: tuple[Sighting, ...] = ()


@dataclass(slots=True)
class Memory:
    """The last complete passes, zone by zone: an assignment is compared with one that ended well before it."""

    _passes: list[_Remembered] = field(default_factory=list)

    def note(self, count: CountPass) -> None:
        """Remember a pass. Sampled ones prove nothing and are not remembered."""
        if count.is_complete:
            # All young ones, for an assignment whose cutoff may lie some seconds back, and one that is old enough.
            old = [p for p in self._passes if count.ended.since(p.count.ended) >= HORIZON_S]
            young = [p for p in self._passes if count.ended.since(p.count.ended) < HORIZON_S]
            self._passes = [*old[-1:], *young[-MAX_YOUNG_PASSES:], _Remembered.of(count)]

    def before(self, zone: ZoneId, cutoff: Instant | None) -> Baseline | None:
        """The zone in the last remembered pass that ended well before `cutoff`, None without one."""
        for remembered in reversed(self._passes):
            if cutoff is not None and cutoff.since(remembered.count.ended) >= BASELINE_MARGIN_S:
                return remembered.baseline(zone)
        return None


def keep_for(watched: frozenset[ZoneId], zone_map: ZoneMap, count: CountPass | None) -> Keep:
    """What the next pass keeps: all of the `watched` zones, all of those that have no owner now and may get one, as
    far as that costs no more than a tenth of the pass, and a sample of every other zone.

    `count`: the last pass, which tells how large the zones are.
    """
    if count is None:
        return Keep(zones=watched, samples_per_zone=SAMPLES_PER_ZONE)
    unowned = [(n, z) for z, n in count.entries_by_zone.items() if z != HOST_ZONE and z not in zone_map.zones]
    room = max(MIN_BASELINE_ENTRIES, count.entries // 10)
    kept = set(watched)
    for entries, zone in sorted(unowned):
        room -= entries
        if room < 0:
            break
        kept.add(zone)
    return Keep(zones=frozenset(kept), samples_per_zone=SAMPLES_PER_ZONE)


@dataclass(frozen=True, slots=True)
class _Remembered:
    count: CountPass
    by_zone: Mapping[ZoneId, tuple[Sighting, ...]]

    @classmethod
    def of(cls, count: CountPass) -> _Remembered:
        by_zone: dict[ZoneId, list[Sighting]] = {}
        for sighting in count.sightings:
            by_zone.setdefault(sighting.zone, []).append(sighting)
        return cls(count, {zone: tuple(found) for zone, found in by_zone.items()})

    def baseline(self, zone: ZoneId) -> Baseline:
        sightings = self.by_zone.get(zone, ())
        return Baseline(
            self.count.ended,
            is_whole=len(sightings) == self.count.entries_in(zone),
            expiries={_identity(s): s.expires_boot_s for s in sightings},
        )


def examine(zone: ZoneId, count: CountPass, baseline: Baseline | None, cutoff: Instant | None) -> Finding:
    """Judge every entry that `count`, a complete pass after the assignment, sighted in `zone`.

    `cutoff`: an instant at which the assignment did not exist yet, None when nobody knows one; then nothing is
    provable. `baseline`: the zone before the cutoff.
    """
    entries = count.entries_in(zone)
    if entries == 0:
        return Finding(Verdict.EMPTY, 0)
    sightings = [s for s in count.sightings if s.zone == zone]
    has_clock = cutoff is not None and not _was_clock_set(cutoff, count.ended)
    stale = tuple(
        s
        for s in sightings
        if cutoff is not None
        and ((has_clock and _started_before(s, cutoff)) or (baseline is not None and _is_unmoved(s, baseline)))
    )
    if stale:
        return Finding(Verdict.STALE, entries, stale)
    is_whole = len(sightings) == entries
    if is_whole and cutoff is not None and (_all_dated(sightings, has_clock) or _all_unknown(sightings, baseline)):
        return Finding(Verdict.CLEAN, entries)
    return Finding(Verdict.UNVERIFIED, entries)


def is_still(then: Sighting, now: Sighting | None) -> bool:
    """Claims that the entry looked up as `now` is the one sighted as `then`: not gone, not reborn, not refreshed."""
    if now is None or now.entry_id != then.entry_id:
        return False
    if then.started_wall_s is not None and now.started_wall_s is not None:
        return now.started_wall_s == then.started_wall_s
    return _is_same_expiry(then.expires_boot_s, now.expires_boot_s)


def key_of(sighting: Sighting) -> EntryKey:
    """What names the sighted entry in a look-up or a delete.

    Raises:
        InvalidZoneError: it is in zone 0, from which nothing is ever deleted.
    """
    return EntryKey(flushable_zone_id(sighting.zone), sighting.family, sighting.tuple_orig, sighting.entry_id)


def _started_before(sighting: Sighting, cutoff: Instant) -> bool:
    return sighting.started_wall_s is not None and sighting.started_wall_s <= cutoff.wall_s - START_MARGIN_S


def _is_unmoved(sighting: Sighting, baseline: Baseline) -> bool:
    return _is_same_expiry(baseline.expiries.get(_identity(sighting)), sighting.expires_boot_s)


def _is_same_expiry(before: float | None, after: float | None) -> bool:
    # An offloaded entry carries no timeout: nothing can be said about it this way.
    return before is not None and after is not None and abs(after - before) <= EXPIRY_TOLERANCE_S


def _all_dated(sightings: list[Sighting], has_clock: bool) -> bool:
    return has_clock and all(s.started_wall_s is not None for s in sightings)


def _all_unknown(sightings: list[Sighting], baseline: Baseline | None) -> bool:
    """Claims that none of the entries was there before; one that was, but moved, may be either."""
    if baseline is None or not baseline.is_whole:
        return False
    return all(_identity(s) not in baseline.expiries for s in sightings)


def _was_clock_set(earlier: Instant, later: Instant) -> bool:
    return abs((later.wall_s - later.boot_s) - (earlier.wall_s - earlier.boot_s)) > CLOCK_STEP_S


def _identity(sighting: Sighting) -> _Identity:
    return sighting.family, sighting.tuple_orig, sighting.entry_id
