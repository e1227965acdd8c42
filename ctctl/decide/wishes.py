"""Flushes that somebody asked for, by hand or through the requests file: judged, queued, and handed out one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ctctl.decide.gate import Refusal
from ctctl.decide.requests import RequestBook
from ctctl.decide.watch import RETRY_S
from ctctl.model.actions import AcceptRequest, Action, HoldZone
from ctctl.model.events import ManualFlushAsked
from ctctl.model.flush import FlushOrder, Reason, Trigger
from ctctl.model.ids import FlushableZoneId, ZoneId, flushable_zone_id
from ctctl.model.instant import Instant
from ctctl.model.request import FlushRequest
from ctctl.model.zone import ZoneMap

Judge = Callable[[ZoneId, Trigger], Refusal | None]
"""Whether a zone may be flushed for this trigger now."""


@dataclass(frozen=True, slots=True)
class _Queued:
    """An order that waits for its turn, and when that may come at the earliest."""

    order: FlushOrder
    not_before_s: float = 0.0


class Wishes:
    """`done_requests`: ids that this node dealt with before. `number`: gives each order its own."""

    def __init__(self, done_requests: frozenset[str], number: Callable[[], int]) -> None:
        self._book = RequestBook(done_requests)
        self._number = number
        self._queue: list[_Queued] = []

    def __len__(self) -> int:
        """Orders that wait."""
        return len(self._queue)

    def ask(self, event: ManualFlushAsked, zone_map: ZoneMap, judge: Judge) -> list[Action]:
        """A request by hand: what is refused is held at once, the rest is queued and accepted."""
        actions: list[Action] = []
        zones = list(event.zones)
        for name in event.routers:
            found = zones_of(zone_map, name)
            if not found:
                why = f"no router {name} has a zone of its own on this chassis"
                actions.append(HoldZone(None, Trigger.MANUAL, name, Reason.UNOWNED_ZONE, why, event.request_id))
            zones += found
        accepted: list[ZoneId] = []
        for zone in dict.fromkeys(zones):
            refusal = judge(zone, Trigger.MANUAL)
            if refusal is None and event.is_dry_run:
                refusal = Refusal(Reason.DRY_RUN, "asked for with --dry-run")
            if refusal is not None:
                owner = _owner(zone_map, zone)
                actions.append(HoldZone(zone, Trigger.MANUAL, owner, refusal.reason, refusal.why, event.request_id))
                continue
            self._queue.append(_Queued(self._order_by_hand(zone, zone_map, event)))
            accepted.append(zone)
        return [*actions, AcceptRequest(event.request_id, tuple(accepted))]

    def read(self, requests: Iterable[FlushRequest]) -> None:
        """The requests file as it is now."""
        self._book.read(requests)

    def carry_out(self, zone_map: ZoneMap, judge: Judge, now: Instant) -> list[Action]:
        """Queue the requests whose time has come, hold what they may not have."""
        actions: list[Action] = []
        due_now = self._book.due(
            lambda name: zones_of(zone_map, name), lambda zone: judge(zone, Trigger.REQUESTED), now
        )
        for due in due_now:
            actions += due.actions
            self._queue += [_Queued(self._order_requested(zone, zone_map, due.request, now)) for zone in due.zones]
        return actions

    def next(self, now: Instant) -> FlushOrder | None:
        """The order whose turn it is; it leaves the queue."""
        for queued in self._queue:
            if queued.not_before_s <= now.boot_s:
                self._queue.remove(queued)
                return queued.order
        return None

    def refused(self, order: FlushOrder, refusal: Refusal, now: Instant) -> HoldZone:
        """The check right before sending said no. Only a request from the file may wait for a better moment."""
        if order.request is not None and refusal.reason.is_transient:
            self._queue.append(_Queued(order, now.boot_s + RETRY_S))
        return HoldZone(
            order.zone, order.trigger, order.owner, refusal.reason, refusal.why, order.request_id, order.request
        )

    def _order_by_hand(self, zone: FlushableZoneId, zone_map: ZoneMap, event: ManualFlushAsked) -> FlushOrder:
        known = zone_map.zones.get(zone)
        return FlushOrder(
            order_id=self._number(),
            zone=zone,
            trigger=Trigger.MANUAL,
            owner=_owner(zone_map, zone),
            router=None if known is None else known.router,
            key=None if known is None else known.key,
            visible=event.at,
            request_id=event.request_id,
            address=event.address,
        )

    def _order_requested(
        self, zone: FlushableZoneId, zone_map: ZoneMap, request: FlushRequest, now: Instant
    ) -> FlushOrder:
        known = zone_map.zones[zone]
        left_s = request.not_after_wall_s - now.wall_s
        return FlushOrder(
            order_id=self._number(),
            zone=zone,
            trigger=Trigger.REQUESTED,
            owner=known.owner,
            router=known.router,
            key=known.key,
            visible=now,
            not_after=Instant(now.boot_s + left_s, request.not_after_wall_s),
            address=request.address,
            request=request.name,
        )


def zones_of(zone_map: ZoneMap, name: str) -> list[FlushableZoneId]:
    """Zones of every router of this name, alias or identity; zone 0 is left to the host."""
    return [
        flushable_zone_id(zone.zone)
        for _, zone in sorted(zone_map.zones.items())
        if zone.router is not None and name in (zone.owner, zone.alias, zone.router) and zone.zone
    ]


def _owner(zone_map: ZoneMap, zone: ZoneId) -> str:
    known = zone_map.zones.get(zone)
    return "" if known is None else known.owner
