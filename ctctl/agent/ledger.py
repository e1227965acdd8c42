"""What happened so far: counters, histograms and the last records. Grown by the control loop, copied by snapshots."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from typing import Final

from ctctl.model.actions import GiveVerdict, HoldZone, ReportRouter, RouterChange
from ctctl.model.counts import CountMethod, CountPass, IncompleteReason
from ctctl.model.events import FlushFinished
from ctctl.model.flush import (
    FailureReason,
    FlushFailure,
    FlushResult,
    Mode,
    Reason,
    Strategy,
    Trigger,
)
from ctctl.model.histogram import FLUSH_BOUNDS_S, VERDICT_BOUNDS_S, Histogram
from ctctl.model.policy import FlushPolicy
from ctctl.model.record import Record
from ctctl.model.snapshot import Tallies
from ctctl.model.verdict import Verdict

MAX_RECORDS: Final = 1000
"""Records kept for `ctctl events` and the status page."""

IMPLEMENTED: Final = (
    Trigger.ROUTER_CREATED,
    Trigger.ROUTER_ARRIVED,
    Trigger.RENUMBERED,
    Trigger.MANUAL,
    Trigger.REQUESTED,
    Trigger.ROUTER_REMOVED,
)
"""Triggers that something can pull; the others have no series, so that a 0 never claims to have looked."""


class Ledger:
    """Counters start at 0 for every combination that an enabled trigger can produce."""

    def __init__(self, policy: FlushPolicy) -> None:
        self._verdicts: Counter[tuple[Trigger, Verdict]] = Counter()
        self._verdict_seconds: dict[Trigger, Histogram] = {}
        self._flushes: Counter[tuple[Trigger, Strategy]] = Counter()
        self._failures: Counter[tuple[Trigger, FailureReason]] = Counter()
        self._holds: Counter[tuple[Trigger, Reason]] = Counter()
        self._flush_seconds = {s: Histogram.empty(FLUSH_BOUNDS_S) for s in Strategy}
        self._reaction_seconds: dict[Trigger, Histogram] = {}
        self._deleted: Counter[Trigger] = Counter()
        self._already_gone = 0
        self._router_events: Counter[RouterChange] = Counter(dict.fromkeys(RouterChange, 0))
        self._ready = Histogram.empty(VERDICT_BOUNDS_S)
        self._renumbered = 0
        self._count_seconds = {m: Histogram.empty(FLUSH_BOUNDS_S) for m in CountMethod}
        self._incomplete: Counter[IncompleteReason] = Counter(dict.fromkeys(IncompleteReason, 0))
        self._records: deque[Record] = deque(maxlen=MAX_RECORDS)
        self._recorded = 0
        self.enable(policy)

    def enable(self, policy: FlushPolicy) -> None:
        """Make sure that every series of the policy's enabled triggers exists."""
        for trigger in IMPLEMENTED:
            if policy.mode(trigger) is Mode.OFF:
                continue
            if trigger not in (Trigger.MANUAL, Trigger.REQUESTED, Trigger.ROUTER_REMOVED):
                self._verdicts.update(dict.fromkeys(((trigger, v) for v in Verdict), 0))
                self._verdict_seconds.setdefault(trigger, Histogram.empty(VERDICT_BOUNDS_S))
            self._flushes.update(dict.fromkeys(((trigger, s) for s in Strategy), 0))
            self._failures.update(dict.fromkeys(((trigger, r) for r in FailureReason), 0))
            self._holds.update(dict.fromkeys(((trigger, r) for r in Reason), 0))
            self._reaction_seconds.setdefault(trigger, Histogram.empty(FLUSH_BOUNDS_S))
            self._deleted.update({trigger: 0})

    def flush_finished(self, event: FlushFinished) -> None:
        """Count a flush that was sent. A refusal is no flush; it comes back as a hold."""
        trigger = event.order.trigger
        match event.outcome:
            case FlushResult(_, strategy, duration_s, deleted, already_gone):
                self._flushes[trigger, strategy] += 1
                self._flush_seconds[strategy] = self._flush_seconds[strategy].observe(duration_s)
                self._deleted[trigger] += deleted or 0
                self._already_gone += already_gone
            case FlushFailure(_, reason, _):
                self._failures[trigger, reason] += 1
            case _:
                return
        if event.sent is not None:
            before = self._reaction_seconds.get(trigger, Histogram.empty(FLUSH_BOUNDS_S))
            self._reaction_seconds[trigger] = before.observe(max(0.0, event.sent.since(event.order.visible)))

    def held(self, action: HoldZone) -> None:
        """Count a hold."""
        self._holds[action.trigger, action.reason] += 1

    def verdict_given(self, action: GiveVerdict) -> None:
        """Count one verdict per zone."""
        for verdict in action.verdicts:
            self._verdicts[verdict.trigger, verdict.verdict] += 1
            before = self._verdict_seconds.get(verdict.trigger, Histogram.empty(VERDICT_BOUNDS_S))
            waited_s = max(0.0, verdict.given.since(verdict.visible))
            self._verdict_seconds[verdict.trigger] = before.observe(waited_s)

    def router_changed(self, action: ReportRouter) -> None:
        """Count a router's change."""
        self._router_events[action.change] += 1
        if action.change is RouterChange.RENUMBERED:
            self._renumbered += len(action.zones)
        if action.created_to_ready_s is not None:
            self._ready = self._ready.observe(action.created_to_ready_s)

    def counted(self, count: CountPass) -> None:
        """Time a published pass."""
        self._count_seconds[count.method] = self._count_seconds[count.method].observe(count.duration_s)

    def count_failed(self, reason: IncompleteReason) -> None:
        """Count a pass that was thrown away."""
        self._incomplete[reason] += 1

    def record(self, record: Record) -> None:
        """Number a record and keep it; the oldest gives way."""
        self._recorded += 1
        self._records.append(replace(record, number=self._recorded))

    @property
    def records(self) -> tuple[Record, ...]:
        """The last records, oldest first."""
        return tuple(self._records)

    def tallies(self) -> Tallies:
        """A frozen copy of every figure."""
        return Tallies(
            verdicts=dict(self._verdicts),
            verdict_seconds=dict(self._verdict_seconds),
            flushes=dict(self._flushes),
            flush_failures=dict(self._failures),
            flush_holds=dict(self._holds),
            flush_seconds=dict(self._flush_seconds),
            reaction_seconds=dict(self._reaction_seconds),
            entries_deleted=dict(self._deleted),
            entries_already_gone=self._already_gone,
            router_events=dict(self._router_events),
            router_created_to_ready=self._ready,
            count_seconds=dict(self._count_seconds),
            counts_incomplete=dict(self._incomplete),
            probe_seconds={},
            zones_renumbered=self._renumbered,
        )
