"""Zones and counting passes as families, with a bound on the number of zones that get series of their own."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Final

from ctctl.metrics.families import Families
from ctctl.model.ids import HOST_ZONE, ZoneId
from ctctl.model.instant import Instant
from ctctl.model.snapshot import Snapshot
from ctctl.model.zone import Zone, ZoneKind

ALWAYS_LISTED_LARGEST: Final = 16
"""So many of the largest zones are listed whoever owns them: the zone that fills the table is never hidden."""


def listed_zones(
    zones: Iterable[Zone], entries: Mapping[ZoneId, int], stale: Mapping[ZoneId, int], limit: int
) -> list[Zone]:
    """The at most `limit` zones that get series, ascending by number.

    First the host's zone, zones with stale entries and the largest few of any kind, then router zones, then the
    others; within each the larger first.
    """
    all_zones = list(zones)
    if len(all_zones) <= limit:
        return all_zones
    first = {zone for zone, _ in heapq.nlargest(ALWAYS_LISTED_LARGEST, entries.items(), key=lambda item: item[1])}
    first.add(HOST_ZONE)
    first.update(stale)

    def rank(zone: Zone) -> tuple[bool, bool, int, int]:
        return zone.zone in first, zone.kind.is_router, entries.get(zone.zone, 0), -zone.zone

    return sorted(heapq.nlargest(limit, all_zones, key=rank), key=lambda zone: zone.zone)


class ZoneCollector:
    """Fills in the families of `Subject.ZONES`.

    `max_zone_series`: zones that may have series of their own, at least 1.
    """

    def __init__(self, max_zone_series: int) -> None:
        self._max_zone_series = max_zone_series

    def __call__(self, snapshot: Snapshot, now: Instant, into: Families) -> None:  # noqa: ARG002 one shape for all
        """One scrape's worth."""
        count = snapshot.count
        entries: Mapping[ZoneId, int] = {} if count is None else count.entries_by_zone
        listed = listed_zones(snapshot.zones, entries, snapshot.stale_entries, self._max_zone_series)
        listed_entries = 0
        for zone in listed:
            label = str(zone.zone)
            owner = "" if zone.kind is ZoneKind.CONFLICT else zone.owner
            into.put("ctctl_ct_zone_info", 1, label, zone.kind, owner, zone.alias)
            if zone.limit is not None:
                into.put("ctctl_ct_zone_limit", zone.limit, label)
            if stale := snapshot.stale_entries.get(zone.zone):
                into.put("ctctl_ct_zone_stale_entries", stale, label)
            if inside := entries.get(zone.zone):
                into.put("ctctl_ct_zone_entries", inside, label)
                listed_entries += inside
        into.put("ctctl_ct_zone_series_limit", self._max_zone_series)
        into.put("ctctl_ct_zone_series_dropped", len(snapshot.zones) - len(listed))
        if count is not None:
            into.put("ctctl_ct_zone_entries_unlisted", sum(entries.values()) - listed_entries)
        _put_totals(snapshot, entries, into)
        _put_counting(snapshot, into)


def _put_totals(snapshot: Snapshot, entries: Mapping[ZoneId, int], into: Families) -> None:
    """Figures over all zones, listed or not."""
    into.put("ctctl_ct_zones", sum(zone.key is not None for zone in snapshot.zones), "assigned")
    into.put("ctctl_ct_zones", sum(zone.kind is ZoneKind.CONFLICT for zone in snapshot.zones), "conflicting")
    if snapshot.count is not None:
        ownerless = [entries.get(z.zone, 0) for z in snapshot.zones if z.kind is ZoneKind.OWNERLESS]
        into.put("ctctl_ct_zones", sum(inside > 0 for inside in entries.values()), "nonempty")
        into.put("ctctl_ct_zones", sum(inside > 0 for inside in ownerless), "ownerless")
        into.put("ctctl_ct_ownerless_entries", sum(ownerless))
    if snapshot.zones_available is not None:
        into.put("ctctl_ct_zones_available", snapshot.zones_available)
    if snapshot.tallies.zones_renumbered is not None:
        into.put("ctctl_ct_zones_renumbered_total", snapshot.tallies.zones_renumbered)


def _put_counting(snapshot: Snapshot, into: Families) -> None:
    """The passes themselves."""
    for method, seconds in snapshot.tallies.count_seconds.items():
        into.put_histogram("ctctl_count_duration_seconds", seconds, method)
    for reason, passes in snapshot.tallies.counts_incomplete.items():
        into.put("ctctl_count_incomplete_total", passes, reason)
    count = snapshot.count
    if count is None:
        return
    into.put("ctctl_count_entries", count.entries)
    into.put("ctctl_count_sampling_ratio", count.sampling_ratio)
    if count.detail is not None:
        for protocol, inside in count.detail.by_protocol.items():
            into.put("ctctl_count_protocol_entries", inside, protocol)
        for state, inside in count.detail.by_tcp_state.items():
            into.put("ctctl_count_tcp_state_entries", inside, state)
        into.put("ctctl_count_assured_entries", count.detail.assured, "true")
        into.put("ctctl_count_assured_entries", count.detail.unassured, "false")
