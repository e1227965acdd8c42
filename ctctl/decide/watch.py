"""One open assignment: from the moment a router's zone is assigned until its one verdict is given.

It first settles what is to be flushed (mode `always`), then waits for a counting pass that started afterwards, then
has its verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ctctl.decide.routers import Assignment
from ctctl.model.counts import CountPass
from ctctl.model.flush import Mode, Reason
from ctctl.model.instant import Instant
from ctctl.model.verdict import FlushStep, Verdict, ZoneVerdict

RETRY_S: Final = 0.2
"""After the check right before sending said "not now", the next try waits this long."""

VERDICT_PATIENCE_S: Final = 300.0
"""Without a usable pass for this long, the verdict is `unverified` with no figure."""


@dataclass(slots=True)
class Watch:
    """An assignment on its way to a verdict.

    `since`: the pass that decides must have started at or after it; None while the flush is not settled.
    `order_id`: of the flush that is out. `held_for`: the transient reason last reported;
    `not_before_s`: boot time before which a held flush is not tried again.
    """

    assignment: Assignment
    opened: Instant
    since: Instant | None
    flush: FlushStep = FlushStep.NOT_NEEDED
    flush_detail: str = ""
    order_id: int | None = None
    held_for: Reason | None = None
    not_before_s: float = 0.0
    is_count_asked: bool = False
    verdict: ZoneVerdict | None = None

    @classmethod
    def of(cls, assignment: Assignment, mode: Mode, now: Instant) -> Watch:
        """A new watch: in `always` the flush comes first, in `verify` there is none to settle."""
        return cls(assignment, opened=now, since=None if mode is Mode.ALWAYS else now)

    def wants_flush(self, now: Instant) -> bool:
        """Claims that the flush is neither settled nor out, and not to be waited with."""
        return self.since is None and self.order_id is None and now.boot_s >= self.not_before_s

    @property
    def is_counting(self) -> bool:
        """Claims that only a pass is missing."""
        return self.since is not None and self.verdict is None

    def settle(self, flush: FlushStep, detail: str, now: Instant) -> None:
        """The flush is done, refused or failed for good: nothing more will be sent for this assignment."""
        self.flush, self.flush_detail, self.since = flush, detail, now
        self.order_id = self.held_for = None

    def weigh(self, count: CountPass | None, now: Instant) -> None:
        """Give the verdict if `count` allows one, or if waiting for a pass has lasted too long."""
        if self.since is None:
            return
        # A sampled pass proves nothing; one that began before the zone was settled saw an older state.
        if count is not None and count.is_complete and count.started.boot_s >= self.since.boot_s:
            self.decide(count.entries_in(self.assignment.zone.zone), now)
        elif now.since(self.since) > VERDICT_PATIENCE_S:
            self.decide(None, now)

    def decide(self, entries: int | None, now: Instant) -> None:
        """Give the verdict; `entries` in the zone, None when they could not be counted."""
        a = self.assignment
        self.verdict = ZoneVerdict(
            router=a.router,
            owner=a.owner,
            zone=a.zone.zone,
            trigger=a.trigger,
            verdict=Verdict.EMPTY if entries == 0 else Verdict.UNVERIFIED,
            flush=self.flush,
            flush_detail=self.flush_detail,
            entries=entries,
            visible=a.visible,
            given=now,
            router_seen=a.router_seen,
        )
