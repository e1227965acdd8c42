"""Zones that this agent saw lose their router: cleaned once they are certainly nobody's and still hold entries.

Certain means: no key assigns the zone, and none did throughout the grace time and two complete passes that began after
it; what ovn-controller itself says is asked right before sending. A zone that was without owner when the agent started
is never touched: nobody saw whose it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ctctl.model.counts import CountPass
from ctctl.model.flush import Reason
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant
from ctctl.model.zone import Zone, ZoneMap

PASSES: Final = 2
"""Complete passes after the grace time that must find entries before anything is deleted."""


@dataclass(slots=True)
class Orphan:
    """One such zone. `zone`: as the map had it last. `vanished`: when its key was first seen gone, None while it is
    there. `order_id`: of the flush that is out. `held_for`: the reason last reported; `not_before_s`: boot time before
    which it is not tried again.
    """

    zone: Zone
    vanished: Instant | None = None
    passes: int = 0
    order_id: int | None = None
    held_for: Reason | None = None
    not_before_s: float = 0.0

    def is_due(self, now: Instant) -> bool:
        """Claims that a flush may be ordered, as far as time and passes go."""
        return self.passes >= PASSES and self.order_id is None and now.boot_s >= self.not_before_s


class Orphans:
    """One entry per zone number."""

    def __init__(self) -> None:
        self._orphans: dict[ZoneId, Orphan] = {}
        self._session: int | None = None

    def note(self, lost: Iterable[Zone]) -> None:
        """These zones' routers no longer hold them; their keys may still be there."""
        for zone in lost:
            self._orphans.setdefault(zone.zone, Orphan(zone))

    def look(self, zone_map: ZoneMap, session: int, now: Instant) -> None:
        """The map changed. `session`: of the local connection; across two of them nobody knows what was in between."""
        is_same_session, self._session = session == self._session, session
        for number, orphan in list(self._orphans.items()):
            owner = zone_map.zones.get(number)
            if owner is not None and (owner.key != orphan.zone.key or owner.router is not None):
                del self._orphans[number]  # it has an owner again, or several
            elif owner is not None:
                orphan.vanished, orphan.passes = None, 0
            elif orphan.vanished is None or not is_same_session:
                orphan.vanished, orphan.passes = now, 0

    def count(self, count: CountPass, grace_s: float) -> None:
        """A pass ended. A zone that it found empty after the grace time needs nothing."""
        for number, orphan in list(self._orphans.items()):
            if orphan.vanished is None or not count.is_complete or orphan.order_id is not None:
                continue
            if count.started.since(orphan.vanished) < grace_s:
                continue
            if count.entries_in(number):
                orphan.passes += 1
            else:
                del self._orphans[number]

    def due(self, now: Instant) -> list[Orphan]:
        """Zones for which a flush may be ordered."""
        return [orphan for orphan in self._orphans.values() if orphan.is_due(now)]

    def waiting_for(self, order_id: int) -> Orphan | None:
        """The zone whose flush this order is."""
        return next((orphan for orphan in self._orphans.values() if orphan.order_id == order_id), None)

    def forget(self, orphan: Orphan) -> None:
        """Its one attempt was made, or refused for good."""
        self._orphans.pop(orphan.zone.zone, None)
