"""Events in, actions out: the one place where ctctl decides.

`handle` is pure but for the planner's own memory: it takes the time as an argument, starts nothing and asks nobody.
Every assignment of a watched router leaves through exactly one verdict; every flush that is not sent leaves a hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count as counter
from typing import Final

from ctctl.decide.evidence import Memory, keep_for
from ctctl.decide.facts import Facts
from ctctl.decide.gate import Conditions, Refusal, judge
from ctctl.decide.orphans import Orphan, Orphans
from ctctl.decide.remains import Remains
from ctctl.decide.routers import CONTINUOUS_S, Assignment, RouterTracker, Sight
from ctctl.decide.watch import RETRY_S, Stage, Watch
from ctctl.decide.window import Brake, Budget
from ctctl.decide.wishes import Judge, Wishes
from ctctl.model.actions import (
    Action,
    CountNow,
    DeleteEntries,
    FlushZone,
    GiveVerdict,
    HoldZone,
    ReportBrake,
)
from ctctl.model.capability import Capability
from ctctl.model.conntrack import Sighting
from ctctl.model.counts import Keep
from ctctl.model.daemon import Daemon
from ctctl.model.events import (
    CountFinished,
    Event,
    FlushFinished,
    JournalOpened,
    LocalViewRead,
    ManualFlushAsked,
    OvnViewRead,
    RequestsRead,
)
from ctctl.model.flush import (
    FlushFailure,
    FlushOrder,
    FlushRefusal,
    FlushResult,
    Mode,
    Reason,
    Trigger,
)
from ctctl.model.ids import RouterId, ZoneId, flushable_zone_id
from ctctl.model.instant import Instant
from ctctl.model.ovn import OvnDatabase, OvnView
from ctctl.model.ovs import DatapathType, LocalView
from ctctl.model.policy import FlushPolicy
from ctctl.model.verdict import FlushStep, ZoneVerdict

MAX_HOLD_S: Final = 900.0
"""A repair that could not be sent for this long is given up visibly; nothing stays pending for ever."""


class Planner:
    """Decides. One instance lives as long as the agent; only the control loop calls it."""

    def __init__(self, policy: FlushPolicy, done_requests: frozenset[str] = frozenset()) -> None:
        self.facts = Facts(policy)
        self._tracker = RouterTracker()
        self._budget = Budget()
        self._brake = Brake()
        self._was_braked = False
        self._heard: frozenset[OvnDatabase] = frozenset()
        self._watches: list[Watch] = []
        self._memory = Memory()
        self._remains = Remains()
        self._orphans = Orphans()
        self._in_flight: FlushOrder | None = None
        self._order_ids = counter(1)
        self._wishes = Wishes(done_requests, lambda: next(self._order_ids))

    def handle(self, event: Event, now: Instant) -> list[Action]:
        """Take one fact in and say what follows from it, in the order in which it is to be carried out."""
        last_confirmed = self._last_confirmed(event)
        has_map_changed = self.facts.note(event)
        actions: list[Action] = []
        if isinstance(event, CountFinished):
            self._memory.note(event.count)
            self._remains.review(event.count, self.facts.zone_map)
            self._orphans.count(event.count, self.facts.policy.grace_s)
        if isinstance(event, LocalViewRead):
            self._tracker.note_keys(self.facts.zone_map, last_confirmed, now)
        if has_map_changed:
            is_continuous = last_confirmed is not None and now.since(last_confirmed) <= CONTINUOUS_S
            confirmed = last_confirmed if isinstance(event, OvnViewRead) else None
            actions += self._compare(confirmed, now, is_continuous=is_continuous)
        if isinstance(event, FlushFinished):
            actions += self._finish(event, now)
        if isinstance(event, ManualFlushAsked):
            actions += self._wishes.ask(event, self.facts.zone_map, self._judge_at(event.at))
        if isinstance(event, JournalOpened):
            self._wishes.note_done(event.done_requests)
        if isinstance(event, RequestsRead):
            self._wishes.read(event.requests)
        if self.facts.policy.mode(Trigger.REQUESTED) is Mode.ALWAYS:
            actions += self._wishes.carry_out(self.facts.zone_map, self._judge_at(now), now)
        self._weigh(now)
        actions += self._flush(now)
        actions += self._count(now)
        actions += self._verdicts()
        actions += self._report_brake(now)
        return actions

    @property
    def in_flight(self) -> FlushOrder | None:
        """The flush that was ordered and has not come back."""
        return self._in_flight

    @property
    def pending_routers(self) -> int:
        """Routers created since the agent started that have no zones here yet."""
        return self._tracker.pending()

    @property
    def stale_entries(self) -> Mapping[ZoneId, int]:
        """Entries provably older than their zone's assignment that are still there, per zone."""
        return self._remains.entries

    def held_since(self) -> tuple[Instant, ...]:
        """When each transiently held flush became due, oldest first."""
        return tuple(sorted(w.assignment.visible for w in self._watches if w.held_for is not None and not w.is_out))

    def is_braked(self, now: Instant) -> bool:
        """Claims that the mass-change brake holds automatic flushes now."""
        return self._brake.is_on(now)

    def keep(self) -> Keep:
        """Which entries the next pass has to keep for comparison."""
        watched = frozenset(watch.zone for watch in self._watches) | self._remains.entries.keys()
        return keep_for(watched, self.facts.zone_map, self.facts.count)

    def _last_confirmed(self, event: Event) -> Instant | None:
        """When the state that `event` replaces was last known to hold; None across a reconnect."""
        match event:
            case LocalViewRead(view):
                former: LocalView | OvnView | None = self.facts.local
                database = OvnDatabase.LOCAL
            case OvnViewRead(view):
                former, database = self.facts.ovn.get(view.database), view.database
            case _:
                return None
        if former is None or former.session != view.session:
            return None
        return self.facts.databases[database].confirmed

    def _compare(self, last_confirmed: Instant | None, now: Instant, *, is_continuous: bool) -> list[Action]:
        facts = self.facts
        if facts.local is None or OvnDatabase.SOUTHBOUND not in facts.ovn:
            return []
        heard = frozenset(facts.ovn)
        is_baseline = not heard <= self._heard
        self._heard |= heard
        sight = Sight(facts.routers, facts.zone_map, facts.sessions, is_baseline, last_confirmed, is_continuous)
        changes = self._tracker.compare(sight, now)
        self._brake.note(len(changes.assignments) + len(changes.lost), facts.policy.mass_change, now)
        self._orphans.note(changes.lost)
        self._orphans.look(facts.zone_map, facts.local.session, now)
        for assignment in changes.assignments:
            mode = facts.policy.mode(assignment.trigger)
            if mode is not Mode.OFF:
                baseline = self._memory.before(assignment.zone.zone, assignment.cutoff)
                self._watches.append(Watch.of(assignment, mode, baseline, now))
        return list(changes.reports)

    def _flush(self, now: Instant) -> list[Action]:
        """Order the next flush if none is out, and hold what may not be sent."""
        actions: list[Action] = []
        if self._in_flight is None:
            wish, held = self._wishes.next(self._judge_at(now), now)
            actions += held
            if wish is not None:
                actions += self._send(wish, now)
        for watch in self._watches:
            if watch.wants_flush(now):
                actions += self._flush_watch(watch, now)
        # In a zone that nobody owns every entry is old: `verify` and `always` come to the same.
        if self.facts.policy.mode(Trigger.ROUTER_REMOVED) is not Mode.OFF:
            for orphan in self._orphans.due(now):
                actions += self._flush_orphan(orphan, now)
        return actions

    def _flush_orphan(self, orphan: Orphan, now: Instant) -> list[Action]:
        zone = orphan.zone
        refusal = judge(zone.zone, Trigger.ROUTER_REMOVED, self._conditions(now), former=zone)
        if refusal is not None:
            return self._hold_orphan(orphan, refusal, now)
        if self._in_flight is not None:
            return []
        order = FlushOrder(
            order_id=next(self._order_ids),
            zone=flushable_zone_id(zone.zone),
            trigger=Trigger.ROUTER_REMOVED,
            owner=zone.owner,
            router=zone.router,
            key=None,
            visible=orphan.vanished or now,
        )
        orphan.order_id = order.order_id
        return self._send(order, now)

    def _hold_orphan(self, orphan: Orphan, refusal: Refusal, now: Instant) -> list[Action]:
        zone, is_news = orphan.zone, orphan.held_for is not refusal.reason
        orphan.order_id, orphan.held_for, orphan.not_before_s = None, refusal.reason, now.boot_s + RETRY_S
        if refusal.reason.is_about_the_zone or refusal.reason is Reason.CANNOT_CONFIRM:
            self._orphans.forget(orphan)
        if not is_news:
            return []
        return [HoldZone(zone.zone, Trigger.ROUTER_REMOVED, zone.owner, refusal.reason, refusal.why)]

    def _flush_watch(self, watch: Watch, now: Instant) -> list[Action]:
        mode = self.facts.policy.mode(watch.assignment.trigger)
        if mode is Mode.OFF or (mode is Mode.VERIFY and not watch.stale):
            watch.settle(FlushStep.OFF, "", now)  # the operator took back what it waited for
            return []
        # Entries that are provably old may go at any time; a whole zone only before traffic may flow.
        late = None if watch.stale else self._lateness(watch.assignment, now)
        refusal = late or judge(watch.zone, watch.assignment.trigger, self._conditions(now))
        if refusal is not None:
            return self._hold(watch, refusal, now)
        if self._in_flight is not None:
            return []
        order = self._order(watch)
        watch.order_id = order.order_id
        return self._send(order, now, watch.stale)

    def _lateness(self, assignment: Assignment, now: Instant) -> Refusal | None:
        if not assignment.is_timely:
            return Refusal(Reason.TOO_LATE, "seen only after a reconnect, so traffic may flow already")
        late_s = now.since(assignment.visible)
        if late_s > self.facts.policy.max_lateness_s:
            return Refusal(Reason.TOO_LATE, f"visible for {late_s:.1f}s, so traffic may flow already")
        return None

    def _order(self, watch: Watch) -> FlushOrder:
        assignment = watch.assignment
        visible = assignment.visible
        lateness_s = self.facts.policy.max_lateness_s
        return FlushOrder(
            order_id=next(self._order_ids),
            zone=flushable_zone_id(watch.zone),
            trigger=assignment.trigger,
            owner=assignment.owner,
            router=assignment.router,
            key=assignment.zone.key,
            visible=visible,
            not_after=None if watch.stale else Instant(visible.boot_s + lateness_s, visible.wall_s + lateness_s),
        )

    def _send(self, order: FlushOrder, now: Instant, entries: tuple[Sighting, ...] = ()) -> list[Action]:
        self._in_flight = order
        self._budget.spend(now)
        return [DeleteEntries(order, entries) if entries else FlushZone(order)]

    def _hold(self, watch: Watch, refusal: Refusal, now: Instant) -> list[Action]:
        assignment = watch.assignment
        is_news = watch.held_for is not refusal.reason
        if refusal.reason.is_transient and now.since(assignment.visible) <= MAX_HOLD_S:
            watch.held_for = refusal.reason
        else:
            watch.settle(FlushStep.HELD, refusal.reason, now)
        if not is_news:
            return []
        return [HoldZone(assignment.zone.zone, assignment.trigger, assignment.owner, refusal.reason, refusal.why)]

    def _finish(self, event: FlushFinished, now: Instant) -> list[Action]:
        if self._in_flight is not None and self._in_flight.order_id == event.order.order_id:
            self._in_flight = None
        watch = next((w for w in self._watches if w.order_id == event.order.order_id), None)
        order = event.order
        orphan = self._orphans.waiting_for(order.order_id)
        if orphan is not None:
            if isinstance(event.outcome, FlushRefusal):
                self._budget.refund()
                return self._hold_orphan(orphan, Refusal(event.outcome.reason, event.outcome.why), now)
            self._orphans.forget(orphan)
            return []
        match event.outcome:
            case FlushResult():
                if watch is not None:
                    watch.settle(FlushStep.DONE, "", now)
                return []
            case FlushFailure(_, reason, _):
                if watch is not None:
                    watch.settle(FlushStep.FAILED, reason, now)
                return []
            case FlushRefusal(_, reason, why):
                self._budget.refund()
                if watch is None:
                    return self._wishes.refused(order, Refusal(reason, why), now)
                watch.order_id = None
                watch.not_before_s = now.boot_s + RETRY_S
                return self._hold(watch, Refusal(reason, why), now)

    def _count(self, now: Instant) -> list[Action]:
        waiting = [w for w in self._watches if w.stage is Stage.COUNTING and not w.is_count_asked]
        cannot_count = self.facts.supports(Capability.CONNTRACK) is False
        if cannot_count or self.facts.datapath_type is DatapathType.USERSPACE:
            for watch in waiting:
                watch.give_up(now)
            return []
        for watch in waiting:
            watch.is_count_asked = True
        return [CountNow("a verdict waits for it")] if waiting else []

    def _weigh(self, now: Instant) -> None:
        for watch in self._watches:
            watch.weigh(self.facts.count, now)

    def _verdicts(self) -> list[Action]:
        """Verdicts of routers all of whose zones have theirs, so that one line tells all of it."""
        by_router: dict[RouterId, list[Watch]] = {}
        for watch in self._watches:
            by_router.setdefault(watch.assignment.router, []).append(watch)
        actions: list[Action] = []
        for watches in by_router.values():
            given: list[ZoneVerdict] = [w.verdict for w in watches if w.verdict is not None]
            if len(given) == len(watches):
                actions.append(GiveVerdict(tuple(given)))
                for watch in watches:
                    self._remains.note(watch)
                    watch.is_closed = True
        self._watches = [w for w in self._watches if not w.is_closed]
        return actions

    def _report_brake(self, now: Instant) -> list[Action]:
        is_on = self._brake.is_on(now)
        if is_on is self._was_braked:
            return []
        self._was_braked = is_on
        return [ReportBrake(is_on, self._brake.changes(now))]

    def _judge_at(self, now: Instant) -> Judge:
        return lambda zone, trigger: judge(zone, trigger, self._conditions(now))

    def _conditions(self, now: Instant) -> Conditions:
        facts = self.facts
        return Conditions(
            zone_map=facts.zone_map,
            local=facts.local,
            policy=facts.policy,
            is_map_fresh=facts.is_map_fresh(now),
            is_flusher=facts.is_flusher,
            is_paused=facts.is_paused,
            is_braked=self._brake.is_on(now),
            # What was promised to a request by hand is spent, though not yet sent.
            has_budget=self._budget.has_room(facts.policy.budget_per_minute - self._wishes.promised, now),
            is_ovn_controller_up=facts.is_up(Daemon.OVN_CONTROLLER),
            same_namespace=facts.supports(Capability.SAME_NETWORK_NAMESPACE),
            has_conntrack=facts.supports(Capability.CONNTRACK),
        )
