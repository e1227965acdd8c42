"""The control loop: every manual request gets all its answers, and every effect follows what was decided."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from ctctl.agent.executor import Clearance, Work
from ctctl.agent.loop import ControlLoop, ManualOutcome
from ctctl.decide.planner import Planner
from ctctl.model.actions import Action
from ctctl.model.counts import IncompleteReason, Keep
from ctctl.model.daemon import Daemon, DaemonView
from ctctl.model.events import (
    CountFailed,
    DaemonSeen,
    DatabaseLost,
    Event,
    FlusherLockChanged,
    FlushFinished,
    PauseChanged,
    PolicyChanged,
)
from ctctl.model.flush import (
    FlushOutcome,
    FlushRefusal,
    FlushResult,
    Mode,
    Reason,
    Strategy,
    Switch,
)
from ctctl.model.ids import FlushableZoneId, flushable_zone_id
from ctctl.model.ovn import OvnDatabase
from ctctl.model.ovs import DatapathType
from ctctl.model.policy import FlushPolicy
from ctctl.model.snapshot import Snapshot
from tests.agent.orders import Deleter
from tests.decide.world import World, policy

TIMEOUT_S = 10.0


class Effects:
    """What the loop set in motion, in order. `answer` makes flushes come back at once, as from the executor."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.works: list[Work] = []
        self.listing: list[bool] = []
        self.clearance: Clearance | None = None
        self.answer: Callable[[Work], None] = lambda work: None

    def flush(self, work: Work) -> None:
        self.done.append(f"flush {work.order.zone}")
        self.works.append(work)
        self.answer(work)

    def clear(self, clearance: Clearance) -> None:
        self.done.append(f"clear {clearance.refusal.reason if clearance.refusal else 'all'}")
        self.clearance = clearance

    def keep(self, keep: Keep) -> None:
        pass

    def count(self) -> None:
        self.done.append("count")

    def probe(self) -> None:
        self.done.append("probe")

    def watch_zone_list(self, *, is_wanted: bool) -> None:
        self.listing.append(is_wanted)

    def set_southbound(self, remote: str | None) -> None:
        self.done.append(f"southbound {remote}")


class LoopWorld(World):
    """The planner's world, told through a control loop."""

    def __post_init__(self) -> None:
        self.effects = Effects()
        self.published: list[Snapshot] = []
        self.planner = Planner(self.policy)
        self.loop = ControlLoop(
            self.planner,
            self.effects,
            Deleter(),  # type: ignore[arg-type]  # whole zones only
            self.published.append,
            lambda: self.now,
            stall_timeout_s=1.0,
        )

    def tell(self, event: Event) -> list[Action]:
        self.loop._take(event, self.now)
        return []

    def snapshot(self) -> Snapshot:
        self.loop._publish_now(self.now)
        return self.published[-1]

    @property
    def flushes(self) -> list[int]:
        return [int(work.order.zone) for work in self.effects.works]

    @property
    def texts(self) -> list[str]:
        return [record.text for record in self.snapshot().records]


def finished(work: Work, outcome: FlushOutcome | None = None) -> FlushFinished:
    order = work.order
    done = outcome or FlushResult(order.zone, Strategy.KERNEL_FILTER, 0.001, None)
    return FlushFinished(order, done, order.visible, order.visible)


class Running:
    """A loop in its thread, with routers r1 (12, 13) and r2 (14, 15)."""

    def __init__(self) -> None:
        self.world = LoopWorld().start()
        assert isinstance(self.world, LoopWorld)
        for number, name in enumerate(("r1", "r2")):
            self.world.create_router(name, 12 + 2 * number, 13 + 2 * number)
        self.world.effects.answer = lambda work: self.world.loop.report(finished(work))
        self.thread = threading.Thread(target=self.world.loop.run)
        self.thread.start()

    def ask(
        self, *zones: int, routers: tuple[str, ...] = (), is_dry_run: bool = False, timeout_s: float = TIMEOUT_S
    ) -> list[tuple[int | None, str]] | None:
        numbers: tuple[FlushableZoneId, ...] = tuple(flushable_zone_id(zone) for zone in zones)
        outcomes = self.world.loop.ask_flush(numbers, routers, is_dry_run=is_dry_run, timeout_s=timeout_s)
        return None if outcomes is None else sorted((told(o) for o in outcomes), key=str)

    def stop(self) -> None:
        self.world.loop.stop()
        self.thread.join(TIMEOUT_S)
        assert not self.thread.is_alive()


def told(outcome: ManualOutcome) -> tuple[int | None, str]:
    if outcome.finished is not None:
        assert outcome.held is None
        kind = outcome.finished.outcome
        return int(kind.zone), "refused" if isinstance(kind, FlushRefusal) else "flushed"
    assert outcome.held is not None
    zone = outcome.held.zone
    return None if zone is None else int(zone), outcome.held.reason.value


@pytest.fixture
def running() -> Iterator[Running]:
    running = Running()
    yield running
    running.stop()


# Requests by hand.


def test_every_zone_of_a_request_gets_its_outcome(running: Running) -> None:
    assert running.ask(12, 99, 15, routers=("r1", "nope")) == [
        (12, "flushed"),
        (13, "flushed"),
        (15, "flushed"),
        (99, "unowned_zone"),
        (None, "unowned_zone"),
    ]
    assert sorted(running.world.flushes) == [12, 13, 15]


def test_a_request_of_nothing_that_exists_is_over_at_once(running: Running) -> None:
    assert running.ask(routers=("nope",)) == [(None, "unowned_zone")]
    assert running.ask() == []


def test_a_dry_run_is_answered_and_sends_nothing(running: Running) -> None:
    assert running.ask(12, 99, is_dry_run=True) == [(12, "dry_run"), (99, "unowned_zone")]
    assert running.world.flushes == []


def test_two_requests_at_once_get_their_own_outcomes(running: Running) -> None:
    answers: dict[str, object] = {}
    threads = [
        threading.Thread(target=lambda name=name: answers.update({name: running.ask(routers=(name,))}))  # type: ignore[misc]
        for name in ("r1", "r2")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert answers == {"r1": [(12, "flushed"), (13, "flushed")], "r2": [(14, "flushed"), (15, "flushed")]}


def test_a_refusal_right_before_sending_is_the_outcome_and_comes_once(running: Running) -> None:
    world = running.world
    gone = Reason.OWNER_CHANGED
    world.effects.answer = lambda work: world.loop.report(
        finished(work, FlushRefusal(work.order.zone, gone, "gone") if work.order.zone == 12 else None)
    )
    assert running.ask(12, 13) == [(12, "refused"), (13, "flushed")]


def test_a_request_that_takes_too_long_is_given_up_and_its_late_outcome_harms_nobody(running: Running) -> None:
    world = running.world
    kept: list[Work] = []
    world.effects.answer = kept.append
    assert running.ask(12, timeout_s=0.05) is None
    assert not world.loop._requests
    world.effects.answer = lambda work: world.loop.report(finished(work))
    world.loop.report(finished(kept[0]))
    assert running.ask(13) == [(13, "flushed")]


def test_a_request_beyond_the_budget_is_held_beyond_the_budget(running: Running) -> None:
    running.world.loop.report(PolicyChanged(replace(FlushPolicy(), budget_per_minute=3)))
    outcomes = running.ask(12, 13, 14, 15)
    assert outcomes is not None
    assert [what for _, what in outcomes].count("over_budget") == 1
    assert len(running.world.flushes) == 3


# Order of effects.


def always() -> LoopWorld:
    world = LoopWorld(policy(router_created=Mode.ALWAYS))
    world.start()
    return world


def test_what_is_allowed_is_told_before_the_order_that_it_lets_go() -> None:
    world = always()
    world.tell(PauseChanged(is_paused=True))
    world.create_router("r1", 12, 13)
    world.effects.done.clear()
    world.tell(PauseChanged(is_paused=False))
    assert world.effects.done[:2] == ["clear all", "flush 12"]


@pytest.mark.parametrize(
    ("event", "clearance"),
    [
        (PauseChanged(is_paused=True), "paused"),
        (FlusherLockChanged(is_held=False), "not_the_flusher"),
        (PolicyChanged(FlushPolicy(switch=Switch.OBSERVE)), "observe"),
        (PolicyChanged(FlushPolicy(switch=Switch.DRY_RUN)), "dry_run"),
    ],
)
def test_a_tighter_switch_reaches_the_executor_with_the_event_that_brings_it(event: Event, clearance: str) -> None:
    world = always()
    world.effects.done.clear()
    world.tell(event)
    assert f"clear {clearance}" in world.effects.done


def test_in_observe_the_executor_has_nothing_to_delete_with() -> None:
    world = always()
    assert world.effects.clearance is not None
    assert world.effects.clearance.deleter is not None
    world.tell(PolicyChanged(FlushPolicy(switch=Switch.OBSERVE)))
    assert world.effects.clearance.deleter is None


def test_before_anything_is_known_nothing_is_allowed() -> None:
    world = LoopWorld()
    world.loop._set_clearance()
    assert world.effects.done == ["clear not_the_flusher"]


def test_the_southbound_address_goes_where_the_local_database_says() -> None:
    world = LoopWorld().start()
    assert "southbound None" in world.effects.done  # type: ignore[attr-defined]


def test_a_failed_count_asks_for_the_capabilities_anew() -> None:
    world = always()
    world.effects.done.clear()
    world.tell(CountFailed(IncompleteReason.PERMISSION, "EPERM", world.now))
    assert world.effects.done == ["probe"]


def test_a_verdict_that_waits_for_a_pass_asks_for_one() -> None:
    world = LoopWorld()
    world.start()
    world.effects.done.clear()
    world.create_router("r1", 12, 13)
    assert world.effects.done.count("count") == 1


# Snapshots.


def test_the_first_snapshot_is_not_ready_and_says_what_is_missing() -> None:
    world = LoopWorld()
    assert (world.snapshot().is_ready, world.snapshot().why_not_ready) == (False, "no zone map yet")
    world.tell(DatabaseLost(OvnDatabase.LOCAL, "cannot connect to db.sock"))
    assert world.snapshot().why_not_ready == "no zone map yet: cannot connect to db.sock"
    world.show_map()
    assert world.snapshot().why_not_ready == "no count yet"
    world.tell(CountFailed(IncompleteReason.PERMISSION, "needs CAP_NET_ADMIN", world.now))
    assert world.snapshot().why_not_ready == "no count yet: needs CAP_NET_ADMIN"
    world.count({})
    assert world.snapshot().is_ready


def test_without_a_kernel_table_to_count_the_map_is_enough_to_be_ready() -> None:
    world = LoopWorld(datapath_type=DatapathType.USERSPACE)
    world.show_map()
    assert world.snapshot().is_ready


def test_ready_stays_ready_when_a_database_is_lost() -> None:
    world = always()
    world.count({})
    world.tell(DatabaseLost(OvnDatabase.LOCAL, "gone"))
    assert world.snapshot().is_ready


def test_a_snapshot_shows_zones_routers_and_what_waits() -> None:
    world = always()
    world.create_router("r1", 12, 13)
    world.routers["r2"] = replace(world.routers["r1"], name="r2", nb_uuid="nb-r2", uuid="dp-2")
    world.show_ovn()
    snapshot = world.snapshot()
    assert [int(z.zone) for z in snapshot.zones] == [12, 13]
    assert (snapshot.routers.known, snapshot.routers.local, snapshot.routers.pending) == (2, 1, 1)
    assert snapshot.is_flush_in_progress
    assert snapshot.zones_available == 65533


def test_a_snapshot_does_not_change_any_more() -> None:
    world = always()
    before = world.snapshot()
    world.create_router("r1", 12, 13)
    assert before.zones == ()
    assert before.records != world.snapshot().records


def test_a_snapshot_is_published_after_each_event_when_it_is_quiet(running: Running) -> None:
    assert running.ask(12) == [(12, "flushed")]
    running.stop()
    assert running.world.published[-1].records[-1].kind.value == "flush"


def test_a_daemon_that_goes_and_comes_is_told_once_each() -> None:
    world = LoopWorld()
    up = DaemonView(Daemon.VSWITCHD, is_up=True)
    down = DaemonView(Daemon.VSWITCHD, is_up=False, why_down="no socket")
    for view in (up, up, replace(up, answers=5), down, down, up):
        world.tell(DaemonSeen(view))
    assert world.texts == ["ovs-vswitchd answers", "ovs-vswitchd is down: no socket", "ovs-vswitchd answers"]


def test_a_stop_ends_the_loop_and_a_second_stop_is_nothing(running: Running) -> None:
    running.world.loop.stop()
    running.stop()
