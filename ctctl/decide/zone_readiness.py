"""How long a router waits for its zones: from the moment ovn-controller chose the numbers to the keys on the bridge.

Between the two lies nothing but vswitchd flushing the zones, so this is what a stall costs a router.
"""

from __future__ import annotations

from collections.abc import Collection

from ctctl.model.actions import ReportRouter, RouterChange
from ctctl.model.events import Event, LocalViewRead, ZonesListed
from ctctl.model.histogram import VERDICT_BOUNDS_S, Histogram
from ctctl.model.instant import Instant


class ZoneReadiness:
    """Compares ovn-controller's list with the keys. Waits shorter than the list is asked for are not seen at all."""

    def __init__(self) -> None:
        self.seconds = Histogram.empty(VERDICT_BOUNDS_S)
        self._visible: set[tuple[str, str]] | None = None
        self._allocated: dict[tuple[str, str], Instant] = {}

    def handle(self, event: Event, reports: Collection[ReportRouter]) -> None:
        """Take one event in, and the reports about routers that it led to."""
        match event:
            case ZonesListed(zones, at) if self._visible is not None:
                waiting = {(owner, str(zone)) for owner, zone in zones.items()} - self._visible
                self._allocated = {pair: self._allocated.get(pair, at) for pair in waiting}
            case LocalViewRead(view):
                self._visible = {pair for bridge in view.bridges for pair in bridge.zone_keys.items()}
            case _:
                pass
        for report in reports:
            if report.change is RouterChange.READY:
                self._observe(report)
        if isinstance(event, LocalViewRead) and self._visible is not None:
            self._allocated = {pair: at for pair, at in self._allocated.items() if pair not in self._visible}

    def _observe(self, report: ReportRouter) -> None:
        numbers = {str(zone) for zone in report.zones}
        chosen = [at for (_, number), at in self._allocated.items() if number in numbers]
        if chosen:
            self.seconds = self.seconds.observe(report.at.since(min(chosen)))
