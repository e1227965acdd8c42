"""What the planner wants done: orders, and refusals with their reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ctctl.model.conntrack import Sighting
from ctctl.model.flush import FlushOrder, Reason, Trigger
from ctctl.model.ids import RouterId, ZoneId
from ctctl.model.instant import Instant
from ctctl.model.verdict import ZoneVerdict


@dataclass(frozen=True, slots=True)
class FlushZone:
    """Flush one zone, after the check right before acting."""

    order: FlushOrder


@dataclass(frozen=True, slots=True)
class DeleteEntries:
    """Delete exactly these entries of the order's zone, after the same check, each if it is still the one sighted."""

    order: FlushOrder
    entries: tuple[Sighting, ...]


@dataclass(frozen=True, slots=True)
class HoldZone:
    """Do not flush this zone, and say why. A transient reason means: looked at again.

    `owner`: as named in the map, or the router as a manual request named it. `zone`: None when that router has no
    zone here. `request_id`: of the manual request it answers, `request`: the id in the requests file, None for
    automatic ones.
    """

    zone: ZoneId | None
    trigger: Trigger
    owner: str
    reason: Reason
    why: str
    request_id: int | None = None
    request: str | None = None


@dataclass(frozen=True, slots=True)
class CountNow:
    """A decision waits for a pass that starts no earlier than now."""

    why: str


@dataclass(frozen=True, slots=True)
class GiveVerdict:
    """An assignment has its verdict. Verdicts of one router's zones reached together come as one action."""

    verdicts: tuple[ZoneVerdict, ...]


class RouterChange(StrEnum):
    """Label values of `ctctl_router_events_total`."""

    CREATED = "created"
    READY = "ready"
    ARRIVED = "arrived"
    RENAMED = "renamed"
    RENUMBERED = "renumbered"
    LEFT = "left"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class ReportRouter:
    """A router changed; counted, logged and shown, nothing else.

    `created_to_ready_s`: for READY, seconds from the first sight of the router to its zones' keys.
    """

    router: RouterId
    name: str
    change: RouterChange
    zones: tuple[ZoneId, ...]
    at: Instant
    created_to_ready_s: float | None = None


@dataclass(frozen=True, slots=True)
class ReportBrake:
    """The mass-change brake went on or off."""

    is_on: bool
    changes: int


@dataclass(frozen=True, slots=True)
class AcceptRequest:
    """A manual request was looked at: these zones will be flushed, all others it named were held before this."""

    request_id: int
    zones: tuple[ZoneId, ...]


@dataclass(frozen=True, slots=True)
class CloseRequest:
    """An entry of the requests file is dealt with on this node; its flushes, if any, are ordered.

    `is_expired`: its time ran out before it could be carried out here.
    """

    name: str
    is_expired: bool


Action = (
    FlushZone
    | DeleteEntries
    | HoldZone
    | CountNow
    | GiveVerdict
    | ReportRouter
    | ReportBrake
    | AcceptRequest
    | CloseRequest
)
