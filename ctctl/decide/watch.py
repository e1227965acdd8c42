"""One open assignment: from the moment a router's zone is assigned until its one verdict is given.

In `always` the flush comes first, then a counting pass that started afterwards, then the verdict. In `verify` the pass
comes first; if it proves entries old, exactly those are deleted, and the verdict says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ctctl.decide.evidence import Baseline, Finding, examine
from ctctl.decide.routers import Assignment
from ctctl.model.conntrack import Sighting
from ctctl.model.counts import CountPass
from ctctl.model.flush import Mode, Reason
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant
from ctctl.model.verdict import FlushStep, Verdict, ZoneVerdict

RETRY_S: Final = 0.2
"""After the check right before sending said "not now", the next try waits this long."""

VERDICT_PATIENCE_S: Final = 300.0
"""Without a usable pass for this long, the verdict is `unverified` with no figure."""


class Stage(Enum):
    """Where an assignment is on its way."""

    FLUSHING = auto()
    """What is to be deleted is known and not settled: to be ordered, held for a moment, or out."""

    COUNTING = auto()
    """A pass is awaited."""

    DECIDED = auto()
    """It has its verdict."""


@dataclass(slots=True)
class Watch:
    """An assignment on its way to a verdict.

    `since`: the pass that decides must have started at or after it. `baseline`: its zone before it was assigned.
    `stale`: the entries to delete, empty for the whole zone. `order_id`: of the flush that is out. `held_for`: the
    transient reason last reported; `not_before_s`: boot time before which a held flush is not tried again.
    `is_closed`: its verdict was given away.
    """

    assignment: Assignment
    mode: Mode
    since: Instant
    baseline: Baseline | None
    stage: Stage
    finding: Finding | None = None
    stale: tuple[Sighting, ...] = ()
    flush: FlushStep = FlushStep.NOT_NEEDED
    flush_detail: str = ""
    order_id: int | None = None
    held_for: Reason | None = None
    not_before_s: float = 0.0
    is_count_asked: bool = False
    is_closed: bool = False
    verdict: ZoneVerdict | None = None

    @classmethod
    def of(cls, assignment: Assignment, mode: Mode, baseline: Baseline | None, now: Instant) -> Watch:
        """A new watch: in `always` the flush comes first, in `verify` the pass."""
        stage = Stage.FLUSHING if mode is Mode.ALWAYS else Stage.COUNTING
        return cls(assignment, mode, now, baseline, stage)

    @property
    def zone(self) -> ZoneId:
        """The assigned zone."""
        return self.assignment.zone.zone

    @property
    def is_out(self) -> bool:
        """Claims that its flush was ordered and has not come back."""
        return self.order_id is not None

    def wants_flush(self, now: Instant) -> bool:
        """Claims that something is to be ordered now."""
        return self.stage is Stage.FLUSHING and not self.is_out and now.boot_s >= self.not_before_s

    def settle(self, flush: FlushStep, detail: str, now: Instant) -> None:
        """The flush is done, refused or failed for good: nothing more will be sent for this assignment."""
        self.flush, self.flush_detail, self.since = flush, detail, now
        self.order_id = self.held_for = None
        if self.finding is None:
            self.stage = Stage.COUNTING
        else:
            self._decide(self.finding.verdict, self.finding.entries, now)

    def weigh(self, count: CountPass | None, now: Instant) -> None:
        """Take a pass in: the verdict, or what is to be deleted first."""
        if self.stage is not Stage.COUNTING:
            return
        is_later = count is not None and count.is_complete and count.started.boot_s >= self.since.boot_s
        if count is not None and is_later and self._has_kept(count):
            finding = examine(self.zone, count, self.baseline, self.assignment.cutoff)
            if finding.stale and self.mode is Mode.VERIFY:
                self.finding, self.stale, self.stage = finding, finding.stale, Stage.FLUSHING
            else:
                self._decide(finding.verdict, finding.entries, now)
        elif is_later:
            self.is_count_asked = False  # it began before it was told what to keep; the next one knows
        if self.stage is Stage.COUNTING and now.since(self.since) > VERDICT_PATIENCE_S:
            self.give_up(now)

    def give_up(self, now: Instant) -> None:
        """Nothing can be counted: the verdict has no figure."""
        self._decide(Verdict.UNVERIFIED, None, now)

    def _has_kept(self, count: CountPass) -> bool:
        """Claims that the pass has the entries that have to be compared."""
        return self.zone in count.kept or count.entries_in(self.zone) == 0

    def _decide(self, verdict: Verdict, entries: int | None, now: Instant) -> None:
        a = self.assignment
        self.stage = Stage.DECIDED
        self.verdict = ZoneVerdict(
            router=a.router,
            owner=a.owner,
            zone=self.zone,
            trigger=a.trigger,
            verdict=verdict,
            flush=self.flush,
            flush_detail=self.flush_detail,
            entries=entries,
            visible=a.visible,
            given=now,
            router_seen=a.router_seen,
        )
