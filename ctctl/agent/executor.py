"""Carries out flush orders, one at a time, in a thread of its own: nothing interrupts a flush inside the kernel.

Right before sending it asks the local database once more, on its own connection, and lets `decide.gate.confirm` judge
the reply: an agent that was stopped or starved between decision and deed cannot act on yesterday's map.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from ctctl.agent.journal import Journal
from ctctl.backends.protocol import ConntrackDeleter
from ctctl.decide.evidence import is_still, key_of
from ctctl.decide.gate import Refusal, confirm
from ctctl.errors import CtctlError, UnavailableError
from ctctl.model.conntrack import EntryKey, Sighting
from ctctl.model.events import FlushFinished
from ctctl.model.flush import (
    FailureReason,
    FlushFailure,
    FlushOrder,
    FlushOutcome,
    FlushRefusal,
    FlushResult,
    Reason,
    Strategy,
    Trigger,
)
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant
from ctctl.model.ovs import LocalView
from ctctl.sources.source import Clock, Report

_log = structlog.get_logger(__name__)

READ_TIMEOUT_S: Final = 1.0
FLUSH_TIMEOUT_S: Final = 30.0
ENTRIES_PER_LOOK: Final = 256
"""Entries that are looked up again, confirmed and deleted together: some milliseconds' worth."""

CONFIRM_TRIES: Final = 3
"""A reply that grew too old between being read and being acted on is asked for again this often."""


ClaimedInMemory = Callable[[ZoneId], Refusal | None]
"""Whether any ovn-controller on this host has the zone allocated, as it says itself; None: none of them has."""

LookUp = Callable[[Sequence[EntryKey]], tuple[Sighting | None, ...]]
"""Each of these entries as it is now, None where there is none any more."""


@dataclass(frozen=True, slots=True)
class Work:
    """An order, and the entries to delete; none: the whole zone."""

    order: FlushOrder
    entries: tuple[Sighting, ...] = ()


class MapReader(Protocol):
    """Reads the local database in one round trip."""

    def read(self, timeout_s: float) -> LocalView:
        """The present state; raises a `CtctlError` when it cannot be had in time."""
        ...


@dataclass(frozen=True, slots=True)
class Clearance:
    """What the control loop allows at this moment; replaced whole, read right before sending.

    `deleter`: None while nothing may be deleted (observe); then no delete message can even be built.
    """

    deleter: ConntrackDeleter | None
    refusal: Refusal | None = None


RememberRequest = Callable[[str], None]
"""Notes, so that a restart knows it, that a request from the file is being carried out; raises UnavailableError."""


def _cannot_remember(name: str) -> None:
    raise UnavailableError(f"nothing remembers request {name}")


def _cannot_ask(zone: ZoneId) -> Refusal:
    return Refusal(Reason.CANNOT_CONFIRM, f"nobody asked ovn-controller about zone {zone}")


class Executor:
    """`submit` an order; `FlushFinished` comes back through `report`, whatever happens to it."""

    def __init__(
        self,
        reader: MapReader,
        look_up: LookUp,
        journal: Journal,
        report: Report,
        clock: Clock,
        *,
        remember_request: RememberRequest = _cannot_remember,
        claimed_in_memory: ClaimedInMemory = _cannot_ask,
    ) -> None:
        self._reader = reader
        self._look_up = look_up
        self._journal = journal
        self._report = report
        self._clock = clock
        self._remember_request = remember_request
        self._claimed_in_memory = claimed_in_memory
        self._remembered: set[str] = set()
        self._orders: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._clearance = Clearance(None, Refusal(Reason.NOT_THE_FLUSHER, "the agent is starting"))
        self._stopping = threading.Event()

    def clear(self, clearance: Clearance) -> None:
        """Replace what is allowed; takes effect for every message not yet sent."""
        self._clearance = clearance

    def submit(self, work: Work) -> None:
        """Queue one order."""
        self._orders.put(work)

    def run(self) -> None:
        """Work until stopped."""
        while (work := self._orders.get()) is not None:
            self._report(self._execute(work))

    def stop(self) -> None:
        """End `run` after the order in hand; orders still queued are refused."""
        self._stopping.set()
        self._orders.put(None)

    def _execute(self, work: Work) -> FlushFinished:
        order = work.order
        try:
            self._journal.intend(order, self._clock())
            if order.request is not None and order.request not in self._remembered:
                self._remember_request(order.request)
                self._remembered.add(order.request)
        except UnavailableError as error:
            refusal = FlushRefusal(order.zone, Reason.JOURNAL_UNWRITABLE, str(error))
            return FlushFinished(order, refusal, sent=None, ended=self._clock())
        outcome, sent = self._confirm_and_send(work)
        ended = self._clock()
        try:
            self._journal.conclude(order, outcome, ended)
        except UnavailableError as error:
            # The deed is done; the next start will call it interrupted, which is the honest thing left to say.
            _log.warning("journal not written", order=order.order_id, zone=order.zone, why=str(error))
        return FlushFinished(order, outcome, sent, ended)

    def _confirm_and_send(self, work: Work) -> tuple[FlushOutcome, Instant | None]:
        order = work.order
        if order.trigger is Trigger.ROUTER_REMOVED and (claim := self._claimed_in_memory(order.zone)) is not None:
            return _refused(order, claim), None
        if work.entries:
            return self._delete_entries(work)
        cleared = self._cleared(order)
        if isinstance(cleared, FlushRefusal):
            return cleared, None
        deleter, sent = cleared
        if order.address is None:
            return deleter.flush_zone(order.zone, timeout_s=FLUSH_TIMEOUT_S), sent
        (outcome,) = deleter.delete_address((order.zone,), order.address, timeout_s=FLUSH_TIMEOUT_S)
        return outcome, sent

    def _cleared(self, order: FlushOrder) -> tuple[ConntrackDeleter, Instant] | FlushRefusal:
        """The deleter and the instant at which it may be used, after one more look at the local database."""
        refusal: Refusal | None = None
        for _ in range(CONFIRM_TRIES):
            try:
                view = self._reader.read(READ_TIMEOUT_S)
            except CtctlError as error:
                return FlushRefusal(order.zone, Reason.MAP_NOT_FRESH, str(error))
            if self._stopping.is_set():
                return FlushRefusal(order.zone, Reason.MAP_NOT_FRESH, "the agent is stopping")
            clearance = self._clearance
            if clearance.refusal is not None:
                return _refused(order, clearance.refusal)
            if clearance.deleter is None:
                return _refused(order, Refusal(Reason.OBSERVE, "flush.switch is observe"))
            now = self._clock()
            refusal = confirm(order, view, now)
            if refusal is None:
                return clearance.deleter, now
            if refusal.reason is not Reason.MAP_NOT_FRESH:
                break
        return _refused(order, refusal or Refusal(Reason.MAP_NOT_FRESH, "no reply was fresh enough"))

    def _delete_entries(self, work: Work) -> tuple[FlushOutcome, Instant | None]:
        """A few at a time: each batch is looked up, the order confirmed anew, and then deleted at once."""
        zone = work.order.zone
        begun, first_sent = self._clock(), None
        deleted = already_gone = 0
        for start in range(0, len(work.entries), ENTRIES_PER_LOOK):
            batch = work.entries[start : start + ENTRIES_PER_LOOK]
            try:
                found = self._look_up([key_of(entry) for entry in batch])
            except CtctlError as error:
                return FlushFailure(zone, FailureReason.UNAVAILABLE, str(error)), first_sent
            # An entry that was refreshed or reborn since the pass is no longer provably old.
            still = [key_of(then) for then, now in zip(batch, found, strict=True) if is_still(then, now)]
            already_gone += len(batch) - len(still)
            if not still:
                continue
            cleared = self._cleared(work.order)
            if isinstance(cleared, FlushRefusal):
                return cleared, first_sent
            deleter, sent = cleared
            first_sent = first_sent or sent
            (outcome,) = deleter.delete_entries(still, timeout_s=FLUSH_TIMEOUT_S)
            if not isinstance(outcome, FlushResult):
                return outcome, first_sent
            deleted += outcome.deleted or 0
            already_gone += outcome.already_gone
        took_s = self._clock().since(begun)
        return FlushResult(zone, Strategy.ENTRY_DELETE, took_s, deleted, already_gone), first_sent


def _refused(order: FlushOrder, refusal: Refusal) -> FlushRefusal:
    return FlushRefusal(order.zone, refusal.reason, refusal.why)
