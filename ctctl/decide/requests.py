"""Flushes asked of every node: which are open here, and which are due. Each is dealt with at most once per node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ctctl.decide.gate import Refusal
from ctctl.model.actions import Action, CloseRequest, HoldZone
from ctctl.model.flush import Trigger
from ctctl.model.ids import FlushableZoneId
from ctctl.model.instant import Instant
from ctctl.model.request import FlushRequest

ZonesOf = Callable[[str], Iterable[FlushableZoneId]]
Judge = Callable[[FlushableZoneId], Refusal | None]


@dataclass(frozen=True, slots=True)
class Due:
    """A request whose time has come here: the zones to flush, and what else follows from it, in this order."""

    request: FlushRequest
    actions: tuple[Action, ...]
    zones: tuple[FlushableZoneId, ...]


class RequestBook:
    """`done`: ids that this node dealt with, in this life or an earlier one."""

    def __init__(self, done: frozenset[str]) -> None:
        self._done = set(done)
        self._open: dict[str, FlushRequest] = {}
        self._held_for: dict[str, frozenset[tuple[int, str]]] = {}

    def note_done(self, names: Iterable[str]) -> None:
        """These ids were dealt with meanwhile."""
        self._done.update(names)
        self.read(tuple(self._open.values()))

    def read(self, requests: Iterable[FlushRequest]) -> None:
        """The file as it is now. A request that was taken out of it is no longer open."""
        self._open = {request.name: request for request in requests if request.name not in self._done}
        self._held_for = {name: held for name, held in self._held_for.items() if name in self._open}

    def due(self, zones_of: ZonesOf, judge: Judge, now: Instant) -> list[Due]:
        """What is to be done now. A request is closed when it expires, or when no zone of it has to wait."""
        found = []
        for request in list(self._open.values()):
            if now.wall_s > request.not_after_wall_s:
                found.append(Due(request, (self._close(request, is_expired=True),), ()))
                continue
            zones = dict.fromkeys((*request.zones, *(z for name in request.routers for z in zones_of(name))))
            refusals = {zone: judge(zone) for zone in zones}
            holds = {zone: refusal for zone, refusal in refusals.items() if refusal is not None}
            if not zones:
                continue  # nothing of it is on this node, or not yet
            if any(not refusal.reason.is_about_the_zone for refusal in holds.values()):
                found.append(Due(request, tuple(self._news(request, holds)), ()))
                continue
            actions = (self._close(request, is_expired=False), *(_hold(request, z, r) for z, r in holds.items()))
            found.append(Due(request, actions, tuple(zone for zone in zones if zone not in holds)))
        return found

    def _close(self, request: FlushRequest, *, is_expired: bool) -> Action:
        del self._open[request.name]
        self._held_for.pop(request.name, None)
        self._done.add(request.name)
        return CloseRequest(request.name, is_expired)

    def _news(self, request: FlushRequest, holds: dict[FlushableZoneId, Refusal]) -> list[Action]:
        """The holds, if they are not those that were reported last."""
        reasons = frozenset((int(zone), refusal.reason.value) for zone, refusal in holds.items())
        if self._held_for.get(request.name) == reasons:
            return []
        self._held_for[request.name] = reasons
        return [_hold(request, zone, refusal) for zone, refusal in holds.items()]


def _hold(request: FlushRequest, zone: FlushableZoneId, refusal: Refusal) -> HoldZone:
    return HoldZone(zone, Trigger.REQUESTED, "", refusal.reason, refusal.why, request=request.name)
