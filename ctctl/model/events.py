"""Facts that reach the control loop, in the past tense. Sources report whole state; the planner diffs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ctctl.model.capability import Probe
from ctctl.model.counts import CountPass, IncompleteReason
from ctctl.model.daemon import DaemonView
from ctctl.model.flush import Address, FlushOrder, FlushOutcome
from ctctl.model.ids import FlushableZoneId, ZoneId
from ctctl.model.instant import Instant
from ctctl.model.ovn import OvnDatabase, OvnView
from ctctl.model.ovs import LocalView
from ctctl.model.policy import FlushPolicy
from ctctl.model.request import FlushRequest
from ctctl.model.stalls import LogRead, LongPoll, RcuBlocked


@dataclass(frozen=True, slots=True)
class LocalViewRead:
    """The local database's state, whole, after any change of it and after every (re)connection."""

    view: LocalView


@dataclass(frozen=True, slots=True)
class OvnViewRead:
    """An OVN database's state, whole, after any change of it and after every (re)connection."""

    view: OvnView


@dataclass(frozen=True, slots=True)
class DatabaseConfirmed:
    """The connection is alive and the last view reported still holds (sent about once a second)."""

    database: OvnDatabase
    at: Instant


@dataclass(frozen=True, slots=True)
class DatabaseLost:
    """No connection, or one that cannot be trusted. `why`: one line with address and remedy.

    `is_configured` is False where there is no such database to read on this node, which is no fault.
    """

    database: OvnDatabase
    why: str
    is_configured: bool = True


@dataclass(frozen=True, slots=True)
class CountFinished:
    """A pass over the table ended and may be published.

    `cpu_s`: CPU seconds that it took, which says what the table costs better than its wall time where CPUs are scarce.
    """

    count: CountPass
    cpu_s: float | None = None


@dataclass(frozen=True, slots=True)
class CountFailed:
    """A pass was thrown away. Nothing of it is known."""

    reason: IncompleteReason
    why: str
    at: Instant


@dataclass(frozen=True, slots=True)
class FlushFinished:
    """What came of an order. `sent` and `ended` are None when nothing was sent."""

    order: FlushOrder
    outcome: FlushOutcome
    sent: Instant | None
    ended: Instant


@dataclass(frozen=True, slots=True)
class Probed:
    """Capabilities, probed anew."""

    probes: tuple[Probe, ...]


@dataclass(frozen=True, slots=True)
class DaemonSeen:
    """The prober's present knowledge of one daemon."""

    view: DaemonView


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """The configuration under `flush:` was read (again)."""

    policy: FlushPolicy


@dataclass(frozen=True, slots=True)
class FlusherLockChanged:
    """This agent became, or is no longer, the one flusher of its network namespace."""

    is_held: bool


@dataclass(frozen=True, slots=True)
class JournalOpened:
    """The flusher opened its journal. `interrupted`: zone and owner ("" for none) of each flush that was under way when
    the last flusher ended. `why_not`: one line when it cannot be written, and then nothing will be flushed.
    `done_requests`: ids of requests from the file that this node dealt with, as of now.
    """

    interrupted: tuple[tuple[int, str], ...]
    why_not: str = ""
    done_requests: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PauseChanged:
    """`ctctl pause` or `ctctl resume`."""

    is_paused: bool


@dataclass(frozen=True, slots=True)
class ManualFlushAsked:
    """`ctctl flush` through the control socket. `request_id` comes back in every order and hold it leads to. `address`:
    only entries that have it, None for whole zones.
    """

    request_id: int
    zones: tuple[FlushableZoneId, ...]
    routers: tuple[str, ...]
    at: Instant
    is_dry_run: bool = False
    address: Address | None = None


@dataclass(frozen=True, slots=True)
class ZonesListed:
    """ovn-controller's own list: owner (as in the bridge's keys) → zone, also of zones that are not committed yet."""

    zones: Mapping[str, ZoneId]
    at: Instant


@dataclass(frozen=True, slots=True)
class RequestsRead:
    """The requests file was read (again), whole."""

    requests: tuple[FlushRequest, ...]


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing happened, but pending decisions may have become due."""


Event = (
    LocalViewRead
    | OvnViewRead
    | DatabaseConfirmed
    | DatabaseLost
    | CountFinished
    | CountFailed
    | FlushFinished
    | Probed
    | DaemonSeen
    | PolicyChanged
    | FlusherLockChanged
    | JournalOpened
    | PauseChanged
    | ManualFlushAsked
    | RequestsRead
    | TimePassed
    | RcuBlocked
    | LongPoll
    | LogRead
    | ZonesListed
)
