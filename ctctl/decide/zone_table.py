"""Every zone worth a row: what the keys assign, joined with the zones that hold entries without any key."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

from ctctl.model.counts import CountPass
from ctctl.model.ids import HOST_ZONE, MAX_ZONE, ZoneId
from ctctl.model.ovs import LocalView
from ctctl.model.zone import Zone, ZoneKind, ZoneMap

_OUTSIDE_OVN: Final = range(64000, 64005)
"""Zones that ovn-kubernetes' node gateway uses outside the map (`go-controller/pkg/node`)."""


def rows(zone_map: ZoneMap, count: CountPass | None, local: LocalView | None) -> tuple[Zone, ...]:
    """Mapped zones and unmapped ones with entries, ascending by number.

    An unmapped zone is `foreign` when OVN on this host would not use its number, else `ownerless`.
    """
    counted: Iterable[ZoneId] = () if count is None else count.entries_by_zone
    unmapped = [_unmapped(zone, local) for zone in counted if zone not in zone_map.zones]
    return tuple(sorted([*zone_map.zones.values(), *unmapped], key=lambda row: row.zone))


def available(zone_map: ZoneMap, local: LocalView | None) -> int | None:
    """Zone numbers that OVN could still assign here, None while the map is unknown."""
    if local is None:
        return None
    ranges = local.zone_ranges or ((1, MAX_ZONE),)
    usable = [range(max(1, first), min(last, MAX_ZONE) + 1) for first, last in ranges]
    # Ranges of several chassis may overlap.
    size = len(usable[0]) if len(usable) == 1 else len(set(chain.from_iterable(usable)))
    return size - sum(1 for zone in zone_map.zones if any(zone in numbers for numbers in usable))


def _unmapped(zone: ZoneId, local: LocalView | None) -> Zone:
    if zone == HOST_ZONE:
        return Zone(zone, ZoneKind.HOST)
    ranges = () if local is None else local.zone_ranges
    is_foreign = zone in _OUTSIDE_OVN if not ranges else not any(first <= zone <= last for first, last in ranges)
    return Zone(zone, ZoneKind.FOREIGN if is_foreign else ZoneKind.OWNERLESS)
