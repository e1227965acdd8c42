"""Zones in which old entries were found, until a pass shows that none is left: repaired, held or persisting alike."""

from __future__ import annotations

from collections.abc import Mapping

from ctctl.decide.evidence import examine
from ctctl.decide.watch import Watch
from ctctl.model.counts import CountPass
from ctctl.model.ids import ZoneId
from ctctl.model.zone import ZoneMap


class Remains:
    """One entry per zone; the latest assignment of it counts."""

    def __init__(self) -> None:
        self._watches: dict[ZoneId, Watch] = {}
        self._entries: dict[ZoneId, int] = {}

    def note(self, watch: Watch) -> None:
        """Old entries were found for this assignment."""
        if watch.finding is not None and watch.finding.stale:
            self._watches[watch.zone] = watch
            self._entries[watch.zone] = len(watch.finding.stale)

    def review(self, count: CountPass, zone_map: ZoneMap) -> None:
        """Look again: forget what is gone, and what belongs to another assignment by now."""
        for zone, watch in list(self._watches.items()):
            owner = zone_map.zones.get(zone)
            if owner is None or owner.router != watch.assignment.router:
                self._forget(zone)
            elif count.is_complete and count.started.boot_s >= watch.since.boot_s and zone in count.kept:
                left = len(examine(zone, count, watch.baseline, watch.assignment.cutoff).stale)
                if left:
                    self._entries[zone] = left
                else:
                    self._forget(zone)

    @property
    def entries(self) -> Mapping[ZoneId, int]:
        """Old entries left per zone, as of the last pass that looked; zones with at least one only."""
        return dict(self._entries)

    def _forget(self, zone: ZoneId) -> None:
        del self._watches[zone]
        del self._entries[zone]
