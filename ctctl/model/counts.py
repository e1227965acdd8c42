"""What counting the conntrack table yields: entries per zone, the exact total, per-CPU statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil, sqrt

from ctctl.errors import CtctlError
from ctctl.model.conntrack import Sighting
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant


class CountMethod(StrEnum):
    """How a pass got its numbers."""

    FULL_DUMP = "full_dump"
    SAMPLED_DUMP = "sampled_dump"
    USERSPACE = "userspace"


class IncompleteReason(StrEnum):
    """Why a pass was thrown away instead of published."""

    INTERRUPTED = "interrupted"
    TABLE_RESIZED = "table_resized"
    OVERRUN = "overrun"
    KERNEL_ERROR = "kernel_error"
    TIMEOUT = "timeout"
    MALFORMED = "malformed"
    PERMISSION = "permission"
    UNAVAILABLE = "unavailable"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Keep:
    """Which entries a pass keeps as sightings, for comparison with a later pass.

    `zones`: every entry of these zones. `samples_per_zone`: at most so many long-lived entries of every other zone.
    `max_sightings`: bound over all zones; what is beyond it is counted but not kept.
    """

    zones: frozenset[ZoneId] = frozenset()
    samples_per_zone: int = 0
    max_sightings: int = 100_000


class CountIncompleteError(CtctlError):
    """A pass did not see the whole table; none of its figures is to be used."""

    def __init__(self, reason: IncompleteReason, what: str, *, remedy: str | None = None) -> None:
        super().__init__(what, remedy=remedy)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class CountDetail:
    """Entries by layer-4 protocol name, TCP state name and (assured, not assured); opt-in, None keys never occur."""

    by_protocol: Mapping[str, int]
    by_tcp_state: Mapping[str, int]
    assured: int
    unassured: int


@dataclass(frozen=True, slots=True)
class CountPass:
    """One finished pass over the whole table.

    `entries_by_zone` holds only zones with at least one entry; a zone not named has none. In a sampled pass the
    figures are scaled estimates and `sampling_ratio` (0 … 1] says how much of the table was read; such a pass
    creates, clears and proves nothing. `sightings` are the entries kept for later comparison (may be empty),
    `kept` the zones of which every entry was to be kept.
    """

    started: Instant
    ended: Instant
    method: CountMethod
    entries_by_zone: Mapping[ZoneId, int]
    entries: int
    sampling_ratio: float = 1.0
    attempts: int = 1
    detail: CountDetail | None = None
    sightings: tuple[Sighting, ...] = ()
    kept: frozenset[ZoneId] = frozenset()

    @property
    def duration_s(self) -> float:
        """Wall seconds from first request to last byte."""
        return self.ended.since(self.started)

    @property
    def is_complete(self) -> bool:
        """Claims that every entry that lived throughout the pass was seen."""
        return self.method is not CountMethod.SAMPLED_DUMP

    def entries_in(self, zone: ZoneId) -> int:
        """Entries of one zone; 0 for a zone without any."""
        return self.entries_by_zone.get(zone, 0)

    def margin_of(self, zone: ZoneId) -> int:
        """Entries by which `entries_in(zone)` may be off in either direction, with 95 % confidence; 0 if complete.

        A dump comes in hash order, so its beginning is a sample drawn without replacement. Wilson's interval, because
        it stays honest for zones of which few entries, or none, were seen.
        """
        if self.is_complete or self.sampling_ratio >= 1 or self.entries == 0:
            return 0
        z = 1.96
        read = self.entries * self.sampling_ratio
        seen = self.entries_in(zone) * self.sampling_ratio
        share = seen / read
        centre = (share + z * z / (2 * read)) / (1 + z * z / read)
        spread = z * sqrt(share * (1 - share) / read + z * z / (4 * read * read)) / (1 + z * z / read)
        furthest = max(centre + spread - share, share - (centre - spread))
        return ceil(furthest * self.entries * sqrt(1 - self.sampling_ratio))


@dataclass(frozen=True, slots=True)
class TableStats:
    """The table's exact size and limits, and statistics summed over CPUs, as the kernel gives them in microseconds.

    `limit`: `nf_conntrack_max`, 0 = unlimited. `buckets`: hash buckets, None where unreadable.
    `counters`: name → u32 sum per CPU as read (found, invalid, insert, insert_failed, drop, early_drop, error,
    search_restart, clash_resolve, chain_toolong), each CPU's own value wraps at 2**32.
    """

    entries: int
    limit: int | None
    buckets: int | None
    counters_by_cpu: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
