"""All that the control loop has to know about stalls: tell it what happens, take records and sums from it.

It knows from the reports about routers which of them are being set up, and from the zone keys that appear with them
how many zones a router needs here; the rest is `stalls` and `stall_prediction`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from ctctl.decide.stall_prediction import path_in_use, predictions, zones_per_router
from ctctl.decide.stall_record import stall_record
from ctctl.decide.stalls import StallTracker
from ctctl.decide.zone_readiness import ZoneReadiness
from ctctl.model.actions import Action, ReportRouter, RouterChange
from ctctl.model.daemon import Daemon
from ctctl.model.events import CountFinished, Event, LocalViewRead
from ctctl.model.histogram import Histogram
from ctctl.model.ids import RouterId
from ctctl.model.instant import Instant
from ctctl.model.ovs import LocalView
from ctctl.model.record import Record
from ctctl.model.snapshot import TargetInfo
from ctctl.model.stalls import StallTallies

SETUP_S: Final = 15.0
"""A router that has no zones here so long after it was created, and no stall to blame, is not being set up here."""

_REMEMBERED_ROUTERS: Final = 50
_APPEARS: Final = frozenset({RouterChange.READY, RouterChange.ARRIVED, RouterChange.RENUMBERED})


class StallWatch:
    """Stalls, whom they coincide with, and what the next router would cost."""

    def __init__(self, timeout_s: float) -> None:
        """`timeout_s`: `stalls.timeout`."""
        self._tracker = StallTracker(timeout_s)
        self._readiness = ZoneReadiness()
        self._created: dict[RouterId, tuple[str, Instant]] = {}
        self._zones_brought: deque[float] = deque(maxlen=_REMEMBERED_ROUTERS)
        self._local: LocalView | None = None
        self._new_keys = 0
        self._entries: int | None = None

    @property
    def probe_seconds(self) -> Mapping[Daemon, Histogram]:
        """Round trips of answered probes."""
        return self._tracker.probe_seconds

    @property
    def router_zone_ready(self) -> Histogram:
        """Waits of routers from the choice of their zones' numbers to the keys."""
        return self._readiness.seconds

    @property
    def wants_zone_list(self) -> bool:
        """Claims that a router is being set up, so that it matters when its numbers are chosen."""
        return bool(self._created)

    def handle(self, event: Event, actions: Collection[Action], now: Instant) -> list[Record]:
        """Take one event in, and what the planner made of it; return a record for each stall that is over."""
        self._new_keys = 0
        match event:
            case LocalViewRead(view):
                self._see_keys(view)
            case CountFinished(count):
                self._entries = count.entries
            case _:
                pass
        reports = [action for action in actions if isinstance(action, ReportRouter)]
        self._readiness.handle(event, reports)
        routers = self._in_setup(reports, now)
        return [stall_record(e, self._entries) for e in self._tracker.handle(event, now, routers)]

    def tallies(self, dump_s: float | None, flush_s: float | None, target: TargetInfo) -> StallTallies:
        """Sums so far and the prediction for now.

        `dump_s`: reading the whole table; `flush_s`: one zone by the kernel's filter; None where not known yet.
        """
        predicted = None
        if dump_s is not None and flush_s is not None:
            predicted = predictions(dump_s, flush_s, zones_per_router(self._zones_brought))
        return replace(
            self._tracker.tallies,
            predicted_router_stall_s=predicted or {},
            path_in_use=path_in_use(target.ovs_version or None, target.kernel_release, target.datapath_type),
        )

    def _see_keys(self, view: LocalView) -> None:
        before, self._local = self._local, view
        if before is not None and before.session == view.session:
            self._new_keys = len(_keys(view) - _keys(before))

    def _in_setup(self, reports: Collection[ReportRouter], now: Instant) -> set[str]:
        for report in reports:
            if report.change is RouterChange.CREATED:
                self._created[report.router] = (report.name, report.at)
        names = {name for name, _ in self._created.values()}
        appeared = [report for report in reports if report.change in _APPEARS]
        names |= {report.name for report in appeared}
        if self._new_keys and any(report.change is RouterChange.READY for report in appeared):
            self._zones_brought.append(self._new_keys / len(appeared))
        for report in reports:
            if report.change is not RouterChange.CREATED:
                self._created.pop(report.router, None)
        if not self._tracker.lasting(now):
            self._created = {r: c for r, c in self._created.items() if now.since(c[1]) <= SETUP_S}
        return names


def _keys(view: LocalView) -> set[tuple[str, str]]:
    return {(bridge.name, key) for bridge in view.bridges for key in bridge.zone_keys}
