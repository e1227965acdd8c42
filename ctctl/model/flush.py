"""Flushing a zone: why, how, by which order, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from ctctl.model.ids import FlushableZoneId, RouterId, ZoneId
from ctctl.model.instant import Instant

Address = IPv4Address | IPv6Address


class Trigger(StrEnum):
    """What a verdict or flush answers to."""

    ROUTER_CREATED = "router_created"
    ROUTER_REMOVED = "router_removed"
    ROUTER_ARRIVED = "router_arrived"
    RENUMBERED = "renumbered"
    GATEWAY_MOVED = "gateway_moved"
    ZONE_ASSIGNED = "zone_assigned"
    REQUESTED = "requested"
    MANUAL = "manual"


class Mode(StrEnum):
    """What a trigger leads to."""

    OFF = "off"
    VERIFY = "verify"
    ALWAYS = "always"


class Switch(StrEnum):
    """The global switch over all deletes."""

    ENFORCE = "enforce"
    DRY_RUN = "dry_run"
    OBSERVE = "observe"


class Strategy(StrEnum):
    """How a flush was carried out."""

    KERNEL_FILTER = "kernel_filter"
    ENTRY_DELETE = "entry_delete"
    USERSPACE = "userspace"


class Reason(StrEnum):
    """Why a flush was not sent."""

    ZONE_ZERO = "zone_zero"
    SHARED_ZONE = "shared_zone"
    FOREIGN_ZONE = "foreign_zone"
    UNOWNED_ZONE = "unowned_zone"
    OWNER_CHANGED = "owner_changed"
    MAP_NOT_FRESH = "map_not_fresh"
    WRONG_NAMESPACE = "wrong_namespace"
    NAMESPACE_UNKNOWN = "namespace_unknown"
    USERSPACE_DATAPATH = "userspace_datapath"
    OVER_BUDGET = "over_budget"
    BRAKE = "brake"
    PAUSED = "paused"
    OBSERVE = "observe"
    DRY_RUN = "dry_run"
    NOT_THE_FLUSHER = "not_the_flusher"
    OVN_CONTROLLER_DOWN = "ovn_controller_down"
    CONNTRACK_UNAVAILABLE = "conntrack_unavailable"
    EXCLUDED_ROUTER = "excluded_router"
    TOO_LATE = "too_late"
    IN_FLIGHT = "in_flight"
    ALREADY_ATTEMPTED = "already_attempted"
    JOURNAL_UNWRITABLE = "journal_unwritable"
    CANNOT_CONFIRM = "cannot_confirm"

    @property
    def is_transient(self) -> bool:
        """Claims that the order stays pending and is looked at again; other reasons are final for it."""
        return self in TRANSIENT_REASONS

    @property
    def is_about_the_zone(self) -> bool:
        """Claims that it is the zone that must not be flushed; any other reason may pass with the host's state."""
        return self in ZONE_REASONS


ZONE_REASONS: Final = frozenset(
    {
        Reason.ZONE_ZERO,
        Reason.SHARED_ZONE,
        Reason.FOREIGN_ZONE,
        Reason.UNOWNED_ZONE,
        Reason.OWNER_CHANGED,
        Reason.USERSPACE_DATAPATH,
        Reason.EXCLUDED_ROUTER,
    }
)

TRANSIENT_REASONS: Final = frozenset(
    {Reason.OVER_BUDGET, Reason.MAP_NOT_FRESH, Reason.BRAKE, Reason.IN_FLIGHT, Reason.PAUSED}
)


class FailureReason(StrEnum):
    """Why a flush that was sent, or about to be sent, failed."""

    PERMISSION = "permission"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    OVERRUN = "overrun"
    KERNEL_ERROR = "kernel_error"
    MALFORMED = "malformed"
    INCOMPLETE_DUMP = "incomplete_dump"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class FlushResult:
    """A flush that the kernel (or vswitchd) carried out.

    `deleted`: entries removed, None where the kernel does not say (a filtered flush carries no count).
    `already_gone`: entries that had vanished before their delete arrived; "nothing there" is success.
    """

    zone: FlushableZoneId
    strategy: Strategy
    duration_s: float
    deleted: int | None
    already_gone: int = 0


@dataclass(frozen=True, slots=True)
class FlushFailure:
    """A flush that was not carried out, or not to its end, although it was tried; `why` is one line for the log.

    `deleted`, `already_gone`: entries of which that is known although the whole failed; see `FlushResult`.
    """

    zone: FlushableZoneId
    reason: FailureReason
    why: str
    deleted: int = 0
    already_gone: int = 0


@dataclass(frozen=True, slots=True)
class FlushRefusal:
    """A flush that the check right before sending turned down."""

    zone: ZoneId
    reason: Reason
    why: str


FlushOutcome = FlushResult | FlushFailure | FlushRefusal


@dataclass(frozen=True, slots=True)
class FlushOrder:
    """One zone to flush, and all that must still hold when it is sent.

    `order_id`: unique within this agent's life. `key`: the `ct-zone-` key that must still assign `zone`, and no other
    key may; None only for a manual flush of a zone where no OVS is reachable. `visible`: when the assignment became
    visible here. `not_after`: past this instant the order is void (None: no limit). `address`: only entries that have
    it in one of their tuples, None for the whole zone.

    At most one of these is set: `request_id`, of the manual request that it serves; `request`, the id of an entry of
    the requests file.
    """

    order_id: int
    zone: FlushableZoneId
    trigger: Trigger
    owner: str
    router: RouterId | None
    key: str | None
    visible: Instant
    not_after: Instant | None = None
    request_id: int | None = None
    address: Address | None = None
    request: str | None = None
