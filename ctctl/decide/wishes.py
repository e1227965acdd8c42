"""Flushes that somebody asked for, by hand or through the requests file: judged, queued, and handed out one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ctctl.decide.gate import Refusal
from ctctl.decide.requests import RequestBook
from ctctl.model.actions import AcceptRequest, Action, HoldZone
from ctctl.model.events import ManualFlushAsked
from ctctl.model.flush import FlushOrder, Reason, Trigger
from ctctl.model.ids import FlushableZoneId, ZoneId, flushable_zone_id
from ctctl.model.instant import Instant
from ctctl.model.request import FlushRequest
from ctctl.model.zone import ZoneMap

WAIT_S: Final = 1.0
"""How long a request's order that must wait is left alone."""

Judge = Callable[[ZoneId, Trigger], Refusal | None]
"""Whether a zone may be flushed for this trigger now."""


@dataclass(frozen=True, slots=True)
class _Queued:
    """An order that waits for its turn, when that may come at the earliest, and what it was last held for."""

    order: FlushOrder
    not_before_s: float = 0.0
    held_for: Reason | None = None


class Wishes:
    """`done_requests`: ids that this node dealt with before. `number`: gives each order its own."""

    def __init__(self, done_requests: frozenset[str], number: Callable[[], int]) -> None:
        self._book = RequestBook(done_requests)
        self._number = number
        self._queue: list[_Queued] = []

    @property
    def promised(self) -> int:
        """Orders by hand that wait: somebody was told that they will be carried out."""
        return sum(1 for queued in self._queue if queued.order.request is None)

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

    def note_done(self, names: Iterable[str]) -> None:
        """These ids were dealt with on this node by an agent that this one replaces."""
        self._book.note_done(names)

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

    def next(self, judge: Judge, now: Instant) -> tuple[FlushOrder | None, list[Action]]:
        """The order whose turn it is, which leaves the queue, and what was held on the way to it.

        A request from the file is judged once more: since it was queued the budget may be spent, or flushing paused.
        """
        held: list[Action] = []
        for queued in list(self._queue):
            if queued.not_before_s > now.boot_s:
                continue
            self._queue.remove(queued)
            order = queued.order
            if order.request is None:
                return order, held
            refusal = _void(order, now) or judge(order.zone, Trigger.REQUESTED)
            if refusal is None:
                return order, held
            held += self._wait(queued, refusal, now)
        return None, held

    def refused(self, order: FlushOrder, refusal: Refusal, now: Instant) -> list[Action]:
        """The check right before sending said no. Only a request from the file may wait for a better moment."""
        if order.request is None:
            return [_hold_order(order, refusal)]
        return self._wait(_Queued(order), refusal, now)

    def _wait(self, queued: _Queued, refusal: Refusal, now: Instant) -> list[Action]:
        """Put a request's order back if its reason may pass; say so when it is news."""
        is_final = refusal.reason.is_about_the_zone or refusal.reason is Reason.TOO_LATE
        if not is_final:
            self._queue.append(_Queued(queued.order, now.boot_s + WAIT_S, refusal.reason))
        return [] if queued.held_for is refusal.reason else [_hold_order(queued.order, refusal)]

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
    """Zones of every router of this name, alias or identity; zone 0 is left to the host. "" is nobody's name."""
    # Looked for on every event while a request waits, so only what is found is sorted, not the whole map.
    return sorted(
        flushable_zone_id(zone.zone)
        for zone in zone_map.zones.values()
        if zone.router is not None and name and name in (zone.owner, zone.alias, zone.router) and zone.zone
    )


def _owner(zone_map: ZoneMap, zone: ZoneId) -> str:
    known = zone_map.zones.get(zone)
    return "" if known is None else known.owner


def _void(order: FlushOrder, now: Instant) -> Refusal | None:
    if order.not_after is not None and now.boot_s > order.not_after.boot_s:
        return Refusal(Reason.TOO_LATE, f"request {order.request} is void by now")
    return None


def _hold_order(order: FlushOrder, refusal: Refusal) -> HoldZone:
    return HoldZone(
        order.zone, order.trigger, order.owner, refusal.reason, refusal.why, order.request_id, order.request
    )
