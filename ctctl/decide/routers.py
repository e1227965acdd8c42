"""Logical routers over time: which are new, which zones they hold here, and what a change of either means.

An assignment is (router identity, zone). Databases are replayed, rebuilt and reconnected to; none of that makes a
router new. A router is new only when a view shows it that an earlier view did not, and neither its identity nor,
across a rebuilt database, its name was known before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ctctl.model.actions import ReportRouter, RouterChange
from ctctl.model.flush import Trigger
from ctctl.model.ids import RouterId, ZoneId
from ctctl.model.instant import Instant
from ctctl.model.ovn import LogicalRouter
from ctctl.model.zone import Zone, ZoneKind, ZoneMap

PENDING_EXPIRY_S: Final = 3600.0
"""A router created without a local port gets no zones; after this long its first zones count as an arrival."""

NAME_MEMORY_S: Final = 600.0
"""A router that left with a database session can be recognised by its name for this long."""

FLAP_S: Final = 60.0
"""A (router, zone) pair that comes back within this time never left."""

CONTINUOUS_S: Final = 10.0
"""A database that was not heard for longer than this may show as new what happened at any time meanwhile."""

READY_WINDOW_S: Final = 300.0
"""Longer waits from creation to zones are a port that was added later, not a slow controller."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A zone newly assigned to a router.

    `is_timely`: when it became visible is known, because the connection that showed it was up before; without that
    nobody can say how late a flush would be. `cutoff`: the last instant at which the databases were known not to have
    the assignment; None when there is no such instant, and then no entry can be proved older than it.
    """

    router: RouterId
    owner: str
    zone: Zone
    trigger: Trigger
    visible: Instant
    is_timely: bool
    cutoff: Instant | None
    router_seen: Instant | None


@dataclass(frozen=True, slots=True)
class Changes:
    """What one comparison found. `lost`: zones that a router no longer holds, as the map had them before."""

    assignments: tuple[Assignment, ...] = ()
    reports: tuple[ReportRouter, ...] = ()
    lost: tuple[Zone, ...] = ()


@dataclass(frozen=True, slots=True)
class Sight:
    """The routers and the map as they are now. `sessions`: of the OVN connections they came through. `is_baseline`: a
    database speaks for the first time, so nothing in it is new. `last_confirmed`: when the former state of the OVN
    database that speaks now was last known to hold, None across a reconnect. `is_continuous`: the database
    that speaks now was heard a moment ago, so what it shows for the first time is new.
    """

    routers: Mapping[RouterId, LogicalRouter]
    zone_map: ZoneMap
    sessions: tuple[int, ...]
    is_baseline: bool = False
    last_confirmed: Instant | None = None
    is_continuous: bool = True


@dataclass(frozen=True, slots=True)
class _KeySight:
    """Since when a key assigns its zone, and when it was last known not to."""

    visible: Instant
    absent: Instant | None


@dataclass(slots=True)
class _Router:
    name: str
    seen: Instant
    is_new: bool
    absent: Instant | None = None
    """When a view was last known not to have it."""
    zones: dict[ZoneKind, ZoneId] = field(default_factory=dict)
    lost: dict[ZoneId, Instant] = field(default_factory=dict)
    """Zones it no longer holds, with since when."""
    gone: Instant | None = None
    left_with_session: bool = False


class RouterTracker:
    """Compares each sight with all before it. The first one is the baseline and yields nothing."""

    def __init__(self) -> None:
        self._routers: dict[RouterId, _Router] = {}
        self._key_seen: dict[tuple[str, ZoneId], _KeySight] = {}
        self._last: Sight | None = None

    def note_keys(self, zone_map: ZoneMap, last_confirmed: Instant | None, now: Instant) -> None:
        """Remember since when each key is visible, also while its owner cannot be resolved yet.

        `last_confirmed`: when the former map was last known to hold, None for the first map of a connection.
        """
        new = _KeySight(now, last_confirmed)
        seen = self._key_seen
        # While a number is claimed twice the map names no key for it; its keys are remembered all the same.
        shared = {number for number, zone in zone_map.zones.items() if zone.kind is ZoneKind.CONFLICT}
        kept = {pair: sight for pair, sight in seen.items() if pair[1] in shared}
        self._key_seen = kept | {
            (zone.key, number): seen.get((zone.key, number), new)
            for number, zone in zone_map.zones.items()
            if zone.key is not None and zone.kind is not ZoneKind.PORT
        }

    def compare(self, sight: Sight, now: Instant) -> Changes:
        """What changed since the last sight."""
        before, self._last = self._last, sight
        if before is None:
            self._adopt(sight, now)
            return Changes()
        is_same_session = before.sessions == sight.sessions
        reports = [*self._departures(sight, is_same_session=is_same_session, now=now)]
        reports += self._arrivals(sight, now)
        assignments: list[Assignment] = []
        zones_by_router = _zones_by_router(sight.zone_map)
        for router_id, router in self._routers.items():
            zones = zones_by_router.get(router_id, ())
            found = self._assignments(router_id, router, zones, before.zone_map, now)
            if not (is_same_session and sight.is_continuous):
                found = [replace(a, is_timely=False) for a in found]
            assignments += found
            reports += _readiness(router_id, router, found, now)
            reports += _loss(router_id, router, zones, now)
        self._forget(now)
        return Changes(tuple(assignments), tuple(reports), _given_up(before.zone_map, sight.zone_map))

    def pending(self) -> int:
        """Routers created since the agent started that have no zones here yet."""
        return sum(1 for r in self._routers.values() if r.gone is None and r.is_new and not r.zones)

    def _adopt(self, sight: Sight, now: Instant) -> None:
        for router_id, row in sight.routers.items():
            self._routers[router_id] = _Router(row.name, now, is_new=False)
        for router_id, zones in _zones_by_router(sight.zone_map).items():
            if router_id in self._routers:
                self._routers[router_id].zones = {z.kind: z.zone for z in zones}

    def _departures(self, sight: Sight, *, is_same_session: bool, now: Instant) -> Iterable[ReportRouter]:
        for router_id, router in self._routers.items():
            if router.gone is None and router_id not in sight.routers:
                router.gone = now
                router.left_with_session = not is_same_session
                zones = tuple(sorted(router.zones.values()))
                yield ReportRouter(router_id, router.name, RouterChange.REMOVED, zones, now)

    def _arrivals(self, sight: Sight, now: Instant) -> Iterable[ReportRouter]:
        for router_id, row in sight.routers.items():
            known = self._routers.get(router_id)
            if known is not None:
                known.gone = None
                if known.name != row.name:
                    known.name = row.name
                    zones = tuple(sorted(known.zones.values()))
                    yield ReportRouter(router_id, row.name, RouterChange.RENAMED, zones, now)
                continue
            former = self._take_former(row.name)
            if former is not None:
                former.gone = None
                self._routers[router_id] = former
                continue
            self._routers[router_id] = _Router(row.name, now, is_new=not sight.is_baseline, absent=sight.last_confirmed)
            if not sight.is_baseline:
                yield ReportRouter(router_id, row.name, RouterChange.CREATED, (), now)

    def _take_former(self, name: str) -> _Router | None:
        """The router of this name that vanished with a database session: the same one, under a new identity."""
        for router_id, router in self._routers.items():
            if router.name == name and router.gone is not None and router.left_with_session:
                return self._routers.pop(router_id)
        return None

    def _assignments(
        self, router_id: RouterId, router: _Router, zones: tuple[Zone, ...], former_map: ZoneMap, now: Instant
    ) -> list[Assignment]:
        found = []
        # Noted after the loop: a number that moved from one key of the router to the other did not come back.
        left: dict[ZoneId, Instant] = {}
        for zone in zones:
            number = zone.zone
            former = router.zones.get(zone.kind)
            if former == number:
                continue
            router.zones[zone.kind] = number
            if former is not None:
                left[former] = now
            if number in router.lost and now.since(router.lost[number]) <= FLAP_S:
                continue
            key = self._key_seen.get((zone.key or "", number), _KeySight(now, None))
            is_handover = _had_other_router(former_map.zones.get(number), router_id)
            if is_handover:
                # From one router to the next under the same key, which was never absent in between.
                key = _KeySight(now, None)
            trigger = _trigger(router, former, now)
            found.append(
                Assignment(
                    router_id,
                    zone.owner,
                    zone,
                    trigger,
                    key.visible,
                    is_timely=is_handover or (key.absent is not None and key.visible.since(key.absent) <= CONTINUOUS_S),
                    cutoff=_cutoff(trigger, key, router),
                    router_seen=router.seen if router.is_new else None,
                )
            )
        router.lost |= left
        return found

    def _forget(self, now: Instant) -> None:
        stale = [i for i, r in self._routers.items() if r.gone is not None and now.since(r.gone) > NAME_MEMORY_S]
        for router_id in stale:
            del self._routers[router_id]
        for router in self._routers.values():
            router.lost = {zone: lost for zone, lost in router.lost.items() if now.since(lost) <= FLAP_S}


def _zones_by_router(zone_map: ZoneMap) -> dict[RouterId, tuple[Zone, ...]]:
    zones: dict[RouterId, list[Zone]] = {}
    for zone in zone_map.zones.values():
        if zone.router is not None:
            zones.setdefault(zone.router, []).append(zone)
    return {router: tuple(sorted(found, key=lambda z: z.zone)) for router, found in zones.items()}


def _given_up(before: ZoneMap, now: ZoneMap) -> tuple[Zone, ...]:
    """Zones of `before` that had a router and have another one, or none, now."""
    return tuple(
        zone
        for number, zone in before.zones.items()
        if zone.router is not None and (number not in now.zones or now.zones[number].router != zone.router)
    )


def _had_other_router(former: Zone | None, router: RouterId) -> bool:
    return former is not None and former.router not in (None, router)


def _cutoff(trigger: Trigger, key: _KeySight, router: _Router) -> Instant | None:
    """An instant before the assignment: for a new router also one at which it did not exist."""
    if trigger is not Trigger.ROUTER_CREATED:
        return key.absent
    if key.absent is None or router.absent is None:
        return None
    return min(key.absent, router.absent)


def _trigger(router: _Router, former: ZoneId | None, now: Instant) -> Trigger:
    if former is not None:
        return Trigger.RENUMBERED
    if router.is_new and now.since(router.seen) <= PENDING_EXPIRY_S:
        return Trigger.ROUTER_CREATED
    return Trigger.ROUTER_ARRIVED


def _readiness(router_id: RouterId, router: _Router, found: list[Assignment], now: Instant) -> list[ReportRouter]:
    if not found:
        return []
    zones = tuple(sorted(a.zone.zone for a in found))
    change = {
        Trigger.ROUTER_CREATED: RouterChange.READY,
        Trigger.RENUMBERED: RouterChange.RENUMBERED,
    }.get(found[0].trigger, RouterChange.ARRIVED)
    ready_s = None
    if change is RouterChange.READY:
        waited = max(a.visible for a in found).since(router.seen)
        # A key can be visible before the OVN database's update arrives here: the router was ready at once.
        ready_s = max(0.0, waited) if waited < READY_WINDOW_S else None
    return [ReportRouter(router_id, found[0].owner, change, zones, now, created_to_ready_s=ready_s)]


def _loss(router_id: RouterId, router: _Router, zones: tuple[Zone, ...], now: Instant) -> list[ReportRouter]:
    present = {zone.kind for zone in zones}
    lost = {kind: number for kind, number in router.zones.items() if kind not in present}
    for kind, number in lost.items():
        del router.zones[kind]
        router.lost[number] = now
    if not lost or router.zones:
        return []
    # From here on zones that it gets are those of a router that comes back, not of a new one.
    router.is_new = False
    if router.gone is not None:
        return []
    return [ReportRouter(router_id, router.name, RouterChange.LEFT, tuple(sorted(lost.values())), now)]
