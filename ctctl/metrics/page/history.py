"""The last hour in steps of ten seconds, for the plots of the status page. Kept in memory, gone with the process."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from ctctl.metrics.collect_stalls import stall_s
from ctctl.model.actions import RouterChange
from ctctl.model.daemon import Daemon
from ctctl.model.instant import Instant
from ctctl.model.snapshot import Snapshot

STEP_S: Final = 10.0
STEPS: Final = 360


@dataclass(frozen=True, slots=True)
class Step:
    """Ten seconds. `number`: boot time divided by the step's length.

    `entries`: the table's size, None when it could not be read. `stall_s`: the longest time vswitchd's main loop was
    seen not to answer. `flushes`, `routers_created`: how many happened.
    """

    number: int
    entries: int | None = None
    stall_s: float = 0.0
    flushes: int = 0
    routers_created: int = 0


class History:
    """Steps of the last hour, oldest first. `observe` and `steps` may be called from different threads.

    It begins with the agent, in the same process: what the first tallies count happened since.
    """

    def __init__(self) -> None:
        self._steps: deque[Step] = deque(maxlen=STEPS)
        self._flushes = 0
        self._created = 0
        self._lock = Lock()

    def needs_entries(self, now: Instant) -> bool:
        """Claims that the step `now` falls into has no table size yet."""
        with self._lock:
            return (
                not self._steps or self._steps[-1].number < int(now.boot_s // STEP_S) or self._steps[-1].entries is None
            )

    def observe(self, now: Instant, snapshot: Snapshot | None, entries: int | None) -> None:
        """Take in what is known now; to be called about once a second. `entries`: None when not read this time."""
        number = int(now.boot_s // STEP_S)
        with self._lock:
            step = self._steps[-1] if self._steps and self._steps[-1].number >= number else None
            if step is None:
                step = Step(number)
                self._steps.append(step)
            if entries is not None:
                step = replace(step, entries=entries)
            if snapshot is not None:
                step = self._with_snapshot(step, now, snapshot)
            self._steps[-1] = step

    def steps(self, now: Instant) -> tuple[Step, ...]:
        """The steps of the hour before `now`; times when nothing was observed are missing."""
        first = int(now.boot_s // STEP_S) - STEPS + 1
        with self._lock:
            return tuple(step for step in self._steps if step.number >= first)

    def _with_snapshot(self, step: Step, now: Instant, snapshot: Snapshot) -> Step:
        flushes = sum(snapshot.tallies.flushes.values())
        created = snapshot.tallies.router_events.get(RouterChange.CREATED, 0)
        new_flushes, new_routers = max(0, flushes - self._flushes), max(0, created - self._created)
        self._flushes, self._created = flushes, created
        waits = [
            max(stall_s(view, now), view.last_round_trip_s or 0.0)
            for view in snapshot.daemons
            if view.daemon is Daemon.VSWITCHD
        ]
        return replace(
            step,
            stall_s=max(step.stall_s, *waits) if waits else step.stall_s,
            flushes=step.flushes + new_flushes,
            routers_created=step.routers_created + new_routers,
        )
