"""The control loop: takes events one by one, lets the planner decide, carries the decisions out, publishes.

The only thread that touches the planner, the ledger and the snapshot. It never does I/O that can hang: flushes go to
the executor, counts to their source, logs to standard error.
"""

from __future__ import annotations

import platform
import queue
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Event as Flag
from threading import Lock
from typing import Final, Protocol, assert_never

from ctctl.agent.executor import Clearance, Work
from ctctl.agent.ledger import Ledger
from ctctl.agent.narrator import Narrator
from ctctl.backends.protocol import ConntrackDeleter
from ctctl.decide.estimate import FlushEstimate
from ctctl.decide.gate import Refusal
from ctctl.decide.planner import Planner
from ctctl.decide.stall_watch import StallWatch
from ctctl.decide.zone_table import available, rows
from ctctl.model.actions import (
    AcceptRequest,
    Action,
    CloseRequest,
    CountNow,
    DeleteEntries,
    FlushZone,
    GiveVerdict,
    HoldZone,
    ReportBrake,
    ReportRouter,
)
from ctctl.model.counts import Keep
from ctctl.model.daemon import Daemon
from ctctl.model.events import (
    CountFailed,
    CountFinished,
    DaemonSeen,
    DatabaseLost,
    Event,
    FlusherLockChanged,
    FlushFinished,
    JournalOpened,
    LocalViewRead,
    ManualFlushAsked,
    OvnViewRead,
    PauseChanged,
    PolicyChanged,
    TimePassed,
)
from ctctl.model.flush import Address, FlushResult, Reason, Strategy, Switch
from ctctl.model.ids import FlushableZoneId
from ctctl.model.instant import Instant
from ctctl.model.ovn import OvnDatabase
from ctctl.model.ovs import DatapathType
from ctctl.model.policy import FlushPolicy
from ctctl.model.snapshot import RouterCounts, Snapshot, TargetInfo
from ctctl.model.zone import Zone
from ctctl.sources.source import Clock

TICK_S: Final = 0.1
"""How often pending decisions are looked at when nothing happens."""

PUBLISH_EVERY_S: Final = 0.2
"""Under a flood of events a snapshot is published this often instead of after each event."""


class Effects(Protocol):
    """What the loop may set in motion; none of it blocks."""

    def flush(self, work: Work) -> None:
        """Hand one order to the executor."""
        ...

    def clear(self, clearance: Clearance) -> None:
        """Tell the executor what is allowed now."""
        ...

    def keep(self, keep: Keep) -> None:
        """Say which entries the passes that start from now on have to keep."""
        ...

    def count(self) -> None:
        """Ask for a counting pass."""
        ...

    def probe(self) -> None:
        """Ask for the capabilities anew."""
        ...

    def watch_zone_list(self, *, is_wanted: bool) -> None:
        """Ask ovn-controller for its zones while a router is being set up."""
        ...

    def set_southbound(self, remote: str | None) -> None:
        """Tell the Southbound source which address the local database names."""
        ...


@dataclass(frozen=True, slots=True)
class ManualOutcome:
    """What became of one zone of a manual request: a finished flush, or a hold."""

    finished: FlushFinished | None
    held: HoldZone | None


class ManualRequest:
    """One manual request on its way; `wait` is called by another thread than the loop."""

    def __init__(self) -> None:
        self.outcomes: list[ManualOutcome] = []
        self.open_zones: int | None = None
        self.done = Flag()

    def add(self, outcome: ManualOutcome) -> None:
        """One zone is settled."""
        self.outcomes.append(outcome)
        if outcome.finished is not None and self.open_zones is not None:
            self.open_zones -= 1
        self.check()

    def accept(self, zones: int) -> None:
        """So many zones will still come back as finished flushes."""
        self.open_zones = zones
        self.check()

    def check(self) -> None:
        """Wake the waiter when nothing is open."""
        if self.open_zones == 0:
            self.done.set()


class ControlLoop:
    """Owns all state. `report` and `ask_flush` may be called from any thread, everything else by the loop alone."""

    def __init__(
        self,
        planner: Planner,
        effects: Effects,
        deleter: ConntrackDeleter,
        publish: Callable[[Snapshot], None],
        clock: Clock,
        *,
        stall_timeout_s: float,
    ) -> None:
        self._planner = planner
        self._effects = effects
        self._deleter = deleter
        self._publish = publish
        self._clock = clock
        self._started = clock()
        self._inbox: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._ledger = Ledger(planner.facts.policy)
        self.narrator: Final = Narrator(self._ledger)
        self._estimate = FlushEstimate()
        self._stalls = StallWatch(stall_timeout_s)
        self._is_listing = False
        self._dump_s: float | None = None
        self._requests: dict[int, ManualRequest] = {}
        self._requests_lock = Lock()
        self._last_request = 0
        self._zones: tuple[Zone, ...] = ()
        self._available: int | None = None
        self._published_boot_s = 0.0
        self._stopping = Flag()

    def report(self, event: Event) -> None:
        """Queue an event."""
        self._inbox.put(event)

    def stop(self) -> None:
        """Make `run` return; safe in a signal handler."""
        self._stopping.set()
        self._inbox.put(None)

    def ask_flush(
        self,
        zones: tuple[FlushableZoneId, ...],
        routers: tuple[str, ...],
        *,
        is_dry_run: bool,
        timeout_s: float,
        address: Address | None = None,
    ) -> tuple[ManualOutcome, ...] | None:
        """Flush by hand, serialised with everything else. None when it was not over within `timeout_s`."""
        request = ManualRequest()
        with self._requests_lock:
            self._last_request += 1
            request_id = self._last_request
            self._requests[request_id] = request
        self.report(ManualFlushAsked(request_id, zones, routers, self._clock(), is_dry_run, address))
        is_done = request.done.wait(timeout_s)
        with self._requests_lock:
            del self._requests[request_id]
        return tuple(request.outcomes) if is_done else None

    def run(self) -> None:
        """Work until stopped."""
        self._set_clearance()
        self._publish_now(self._clock())
        while not self._stopping.is_set():
            event = self._next()
            if event is None:
                continue
            now = self._clock()
            self._take(event, now)
            if self._inbox.empty() or now.boot_s - self._published_boot_s >= PUBLISH_EVERY_S:
                self._publish_now(self._clock())

    def _next(self) -> Event | None:
        try:
            return self._inbox.get(timeout=TICK_S)
        except queue.Empty:
            return TimePassed()

    def _take(self, event: Event, now: Instant) -> None:
        self._narrate(event, now)
        actions = self._planner.handle(event, now)
        for record in self._stalls.handle(event, actions, now):
            self.narrator.stall(record)
        if self._stalls.wants_zone_list is not self._is_listing:
            self._is_listing = self._stalls.wants_zone_list
            self._effects.watch_zone_list(is_wanted=self._is_listing)
        self._tally(event)
        if isinstance(event, PolicyChanged | FlusherLockChanged | PauseChanged):
            self._set_clearance()  # before an order that this very event let go reaches the executor
        if actions or isinstance(event, LocalViewRead | OvnViewRead | CountFinished):
            self._effects.keep(self._planner.keep())
        for action in actions:
            self._carry_out(action, now)
        if isinstance(event, LocalViewRead):
            self._effects.set_southbound(event.view.ovn_remote)
        if isinstance(event, LocalViewRead | OvnViewRead | CountFinished):
            facts = self._planner.facts
            self._zones = rows(facts.zone_map, facts.count, facts.local)
            self._available = available(facts.zone_map, facts.local)

    def _carry_out(self, action: Action, now: Instant) -> None:
        match action:
            case FlushZone(order):
                self._effects.flush(Work(order))
            case DeleteEntries(order, entries):
                self._effects.flush(Work(order, entries))
            case HoldZone():
                self._ledger.held(action)
                self.narrator.hold(action, now)
                # A refused flush that had been sent out comes back as `FlushFinished` as well and is closed there.
                if action.zone is None or not self._is_answering(action):
                    self._settle(action.request_id, ManualOutcome(None, action))
            case CountNow():
                self._effects.count()
            case GiveVerdict():
                self._ledger.verdict_given(action)
                self.narrator.verdict(action, now)
            case ReportRouter():
                self._ledger.router_changed(action)
                self.narrator.router(action, now)
            case ReportBrake():
                self.narrator.brake(action, now)
            case CloseRequest(name, is_expired):
                text = f"request {name} is void, its time ran out" if is_expired else f"request {name} is carried out"
                self.narrator.note(text, now, request=name)
            case AcceptRequest(request_id, zones):
                request = self._requests.get(request_id)
                if request is not None:
                    request.accept(len(zones))
            case _:
                assert_never(action)

    def _is_answering(self, action: HoldZone) -> bool:
        request = self._requests.get(action.request_id or 0)
        return request is not None and request.open_zones is not None

    def _settle(self, request_id: int | None, outcome: ManualOutcome) -> None:
        request = self._requests.get(request_id or 0)
        if request is not None:
            request.add(outcome)

    def _narrate(self, event: Event, now: Instant) -> None:
        databases = self._planner.facts.databases
        match event:
            case DatabaseLost(database, _, _):
                self.narrator.database_lost(event, databases.get(database), now)
            case LocalViewRead():
                self.narrator.database_read(OvnDatabase.LOCAL, databases.get(OvnDatabase.LOCAL), now)
            case OvnViewRead(view):
                self.narrator.database_read(view.database, databases.get(view.database), now)
            case CountFailed():
                self.narrator.count_failed(event, now)
            case CountFinished():
                self.narrator.count_finished(now)
            case FlusherLockChanged(is_held):
                text = "this is the flusher" if is_held else "another ctctl is the flusher here; serving metrics only"
                self.narrator.note(text, now, is_warning=not is_held)
            case JournalOpened():
                self.narrator.journal(event, now)
            case PauseChanged(is_paused) if is_paused is not self._planner.facts.is_paused:
                self.narrator.note("paused: nothing is flushed" if is_paused else "resumed", now)
            case DaemonSeen(view):
                self._narrate_daemon(view.daemon, is_up=view.is_up, why=view.why_down, now=now)
            case FlushFinished():
                self.narrator.flush(event, now)
            case _:
                pass

    def _narrate_daemon(self, daemon: Daemon, *, is_up: bool, why: str, now: Instant) -> None:
        before = self._planner.facts.daemons.get(daemon)
        if before is None or before.is_up != is_up or before.why_down != why:
            text = f"{daemon} answers" if is_up else f"{daemon} is down: {why}"
            self.narrator.note(text, now, is_warning=not is_up)

    def _tally(self, event: Event) -> None:
        match event:
            case FlushFinished(order, outcome, _, _):
                self._ledger.flush_finished(event)
                if isinstance(outcome, FlushResult):
                    self._estimate.learn(outcome, self._planner.facts.count)
                self._settle(order.request_id, ManualOutcome(event, None))
            case CountFinished(count, cpu_s):
                self._ledger.counted(count)
                self._dump_s = (count.duration_s if cpu_s is None else cpu_s) / count.sampling_ratio
            case CountFailed(reason, _, _):
                self._ledger.count_failed(reason)
                self._effects.probe()
            case PolicyChanged(policy):
                self._ledger.enable(policy)
            case _:
                pass

    def _set_clearance(self) -> None:
        facts = self._planner.facts
        self._effects.clear(_clearance(facts.policy, self._deleter, facts.is_flusher, facts.is_paused))

    def _publish_now(self, now: Instant) -> None:
        self._published_boot_s = now.boot_s
        self._publish(self._snapshot(now))

    def _snapshot(self, now: Instant) -> Snapshot:
        facts = self._planner.facts
        held = self._planner.held_since()
        why_not_ready = self._why_not_ready()
        target = self._target()
        estimated_s = self._estimate.seconds(facts.count)
        return Snapshot(
            at=now,
            started=self._started,
            switch=facts.policy.switch,
            is_flusher=facts.is_flusher,
            is_paused=facts.is_paused,
            is_braked=self._planner.is_braked(now),
            is_ready=not why_not_ready,
            why_not_ready=why_not_ready,
            target=target,
            probes=tuple(facts.probes[c] for c in sorted(facts.probes)),
            databases=tuple(facts.databases[d] for d in sorted(facts.databases)),
            daemons=tuple(facts.daemons[d] for d in sorted(facts.daemons)),
            zones=self._zones,
            malformed_keys=facts.zone_map.malformed,
            zones_available=self._available,
            count=facts.count,
            count_failing_since=facts.count_failing_since,
            routers=RouterCounts(
                known=len(facts.routers),
                local=len({z.router for z in self._zones if z.router is not None}),
                pending=self._planner.pending_routers,
            ),
            tallies=replace(
                self._ledger.tallies(),
                probe_seconds=self._stalls.probe_seconds,
                router_zone_ready=self._stalls.router_zone_ready,
                stalls=self._stalls.tallies(self._dump_s, estimated_s.get(Strategy.KERNEL_FILTER), target),
            ),
            flush_estimated_s=estimated_s,
            pending=len(held),
            oldest_pending=held[0] if held else None,
            is_flush_in_progress=self._planner.in_flight is not None,
            records=self._ledger.records,
            stale_entries=self._planner.stale_entries,
        )

    def _why_not_ready(self) -> str:
        facts = self._planner.facts
        if facts.local is None:
            state = facts.databases.get(OvnDatabase.LOCAL)
            return "no zone map yet" + (f": {state.why_lost}" if state is not None and state.why_lost else "")
        can_count = facts.datapath_type is not DatapathType.USERSPACE
        if facts.count is None and can_count:
            return "no count yet" + (f": {facts.why_count_failed}" if facts.why_count_failed else "")
        return ""

    def _target(self) -> TargetInfo:
        facts = self._planner.facts
        vswitchd = facts.daemons.get(Daemon.VSWITCHD)
        controller = facts.daemons.get(Daemon.OVN_CONTROLLER)
        local_version = "" if facts.local is None else facts.local.ovs_version or ""
        return TargetInfo(
            kernel_release=platform.release(),
            ovs_version=(vswitchd.version if vswitchd is not None else None) or local_version,
            ovn_version=(controller.version if controller is not None else None) or "",
            datapath_type=facts.datapath_type,
            chassis="" if facts.local is None else facts.local.chassis or "",
        )


def _clearance(policy: FlushPolicy, deleter: ConntrackDeleter, is_flusher: bool, is_paused: bool) -> Clearance:
    """What the executor may do; in `observe` it gets nothing that could build a delete."""
    if policy.switch is Switch.OBSERVE:
        return Clearance(None, Refusal(Reason.OBSERVE, "flush.switch is observe"))
    if policy.switch is Switch.DRY_RUN:
        return Clearance(None, Refusal(Reason.DRY_RUN, "flush.switch is dry_run"))
    if not is_flusher:
        return Clearance(None, Refusal(Reason.NOT_THE_FLUSHER, "another ctctl holds the flusher lock"))
    if is_paused:
        return Clearance(deleter, Refusal(Reason.PAUSED, "paused by `ctctl pause`"))
    return Clearance(deleter)
