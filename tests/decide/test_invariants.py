"""Whatever happens, in whatever order: random scripts over a small OVN, checked against what must always hold.

The model knows nothing of the planner. It keeps its own books of who owned which zone when, plays the kernel that
carries orders out, and judges every action the moment it is taken.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ctctl.decide import gate, planner, routers, watch, window
from ctctl.decide.planner import MAX_HOLD_S
from ctctl.model.actions import AcceptRequest, Action, DeleteEntries, FlushZone, GiveVerdict
from ctctl.model.counts import CountMethod, CountPass
from ctctl.model.daemon import Daemon, DaemonView
from ctctl.model.events import (
    CountFinished,
    DaemonSeen,
    DatabaseLost,
    FlusherLockChanged,
    PauseChanged,
    PolicyChanged,
)
from ctctl.model.flush import FailureReason, FlushFailure, FlushRefusal, Mode, Reason, Switch, Trigger
from ctctl.model.ids import ZoneId
from ctctl.model.ovn import OvnDatabase
from ctctl.model.policy import DEFAULT_MODES, FlushPolicy
from tests.decide.world import World, router_datapath, switch_datapath

NAMES = ("a", "b", "c", "d")
ZONES = st.integers(0, 9)
FREE_ZONES = (18, 19)
"""Only `something_forbids` gives these, so that what it asks for would otherwise be done."""

BUDGET = 6
PATIENCE_S = watch.VERDICT_PATIENCE_S + MAX_HOLD_S + 60.0

POLICY = FlushPolicy(
    modes={**DEFAULT_MODES, Trigger.ROUTER_CREATED: Mode.ALWAYS, Trigger.RENUMBERED: Mode.ALWAYS},
    budget_per_minute=BUDGET,
    mass_change=12,
    max_lateness_s=20.0,
)


class OvnMachine(RuleBasedStateMachine):
    """Routers come and go, keys with them; views arrive late, doubled, after reconnects or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(POLICY)
        self.seen = 0
        self.identities = 0
        self.sent: list[float] = []
        self.out: int | None = None
        self.requested: Counter[int] = Counter()
        self.flushed: Counter[tuple[str, int]] = Counter()
        self.assigned: Counter[tuple[str, int]] = Counter()
        self.held: dict[str, dict[str, int]] = {}
        self.verdicts: Counter[tuple[str, int]] = Counter()
        self.is_quiet = False
        self.is_allowed = True

    # Judging.

    def judge(self) -> None:
        """Look at every action that was taken since the last time."""
        for action in self.world.actions[self.seen :]:
            self.judge_one(action)
        self.seen = len(self.world.actions)

    def judge_one(self, action: Action) -> None:
        if isinstance(action, FlushZone | DeleteEntries):
            order = action.order
            zone = int(order.zone)
            assert zone != 0, "zone 0"
            assert self.out is None, "two in flight"
            assert self.is_allowed, "ordered while that was not allowed"
            now = self.world.time_s
            self.sent.append(now)
            assert sum(1 for at in self.sent if at > now - window.WINDOW_S) <= BUDGET, "over budget"
            self.out = zone
            if order.trigger is Trigger.MANUAL:
                self.requested[zone] -= 1
                assert self.requested[zone] >= 0, "a flush by hand that nobody asked for"
            else:
                assert not self.is_quiet, "a flush without a change"
                assert len(self.claims(zone, self.world.keys_shown)) == 1, f"zone {zone} is not one owner's"
                assert order.router is not None
                self.flushed[order.router, zone] += 1
        elif isinstance(action, AcceptRequest):
            for zone in action.zones:
                assert len(self.claims(zone, self.world.keys_shown)) == 1, f"zone {zone} is not one owner's"
        elif isinstance(action, GiveVerdict):
            for verdict in action.verdicts:
                assert not self.is_quiet or (verdict.router, int(verdict.zone)) in self.assigned
                self.verdicts[verdict.router, int(verdict.zone)] += 1

    def claims(self, zone: int, keys: Mapping[str, str]) -> list[str]:
        return [key for key, number in keys.items() if number == str(zone)]

    def expect(self) -> None:
        """Book an assignment for every zone that a router that is shown holds by a key of its own, and did not."""
        shown = Counter(self.world.keys_shown.values())
        for name, datapath in self.world.routers_shown.items():
            if name in self.world.switches_shown:
                continue
            holds = {
                suffix: int(number)
                for suffix in ("_dnat", "_snat")
                if (number := self.world.keys_shown.get(name + suffix, "")).isdigit() and shown[number] == 1
            }
            before = self.held.get(datapath.nb_uuid, {})
            for suffix, zone in holds.items():
                if zone not in (0, before.get(suffix)):
                    self.assigned[datapath.nb_uuid, zone] += 1
            self.held[datapath.nb_uuid] = holds

    # What OVN does.

    @initialize(routers=st.sets(st.sampled_from(NAMES), max_size=2))
    def baseline(self, routers: set[str]) -> None:
        self.is_quiet = True
        for number, name in enumerate(sorted(routers)):
            self.create(name)
            self.world.keys |= {f"{name}_dnat": str(2 * number + 1), f"{name}_snat": str(2 * number + 2)}
        self.world.start()
        self.expect()
        self.assigned.clear()
        self.judge()
        self.world.pass_time(1)
        self.judge()
        self.is_quiet = False

    def create(self, name: str) -> None:
        self.identities += 1
        self.world.routers[name] = router_datapath(name, nb_uuid=f"nb-{name}-{self.identities}")

    @rule(name=st.sampled_from(NAMES), dnat=ZONES, snat=ZONES)
    def router_appears(self, name: str, dnat: int, snat: int) -> None:
        self.create(name)
        self.world.keys |= {f"{name}_dnat": str(dnat), f"{name}_snat": str(snat)}

    @rule(name=st.sampled_from(NAMES))
    def router_goes(self, name: str) -> None:
        self.world.routers.pop(name, None)
        for suffix in ("_dnat", "_snat"):
            self.world.keys.pop(name + suffix, None)

    @rule(name=st.sampled_from(NAMES), suffix=st.sampled_from(["_dnat", "_snat"]), zone=ZONES)
    def key_changes(self, name: str, suffix: str, zone: int) -> None:
        if name in self.world.routers:
            self.world.keys[name + suffix] = str(zone)

    @rule(key=st.sampled_from(["a_dnat", "b_snat"]), value=st.sampled_from(["", "x", "-1"]))
    def key_breaks(self, key: str, value: str) -> None:
        self.world.keys[key] = value

    @rule(zone=ZONES)
    def port_claims(self, zone: int) -> None:
        self.world.keys["port"] = str(zone)

    @rule()
    def port_goes(self) -> None:
        self.world.keys.pop("port", None)

    @rule(name=st.sampled_from(NAMES))
    def switch_of_that_name(self, name: str) -> None:
        if self.world.switches.pop(name, None) is None:
            self.world.switches[name] = switch_datapath(name)

    # What ctctl sees of it.

    @rule()
    def show_map(self) -> None:
        self.world.show_map()
        self.after()

    @rule()
    def show_ovn(self) -> None:
        self.world.show_ovn()
        self.after()

    @rule()
    def show_both(self) -> None:
        self.world.show_ovn()
        self.after()
        self.world.show_map()
        self.after()

    @rule(is_local=st.booleans())
    def reconnect_and_show_the_same(self, *, is_local: bool) -> None:
        self.show_both()
        self.drain()
        before = self.assigned.copy()
        ordered = len(self.sent)
        if is_local:
            self.world.local_session += 1
            self.world.show_map()
        else:
            self.world.ovn_session += 1
            self.world.show_ovn()
        self.after()
        assert self.assigned == before
        assert len(self.sent) == ordered, "a reconnect led to a flush"

    @rule()
    def rebuild_the_database(self) -> None:
        """Everything is settled; then the Southbound comes back empty, and fills with the same under new identities."""
        self.show_both()
        self.settle()
        ordered = len(self.sent)
        self.world.ovn_session += 1
        kept, self.world.routers = self.world.routers, {}
        self.world.show_ovn()
        for name, former in kept.items():
            self.identities += 1
            self.world.routers[name] = router_datapath(name, nb_uuid=f"nb-{name}-{self.identities}")
            self.held[self.world.routers[name].nb_uuid] = self.held.get(former.nb_uuid, {})
            self.world.show_ovn()
        self.judge()
        assert len(self.sent) == ordered, "a rebuilt database led to a flush"

    @rule()
    def lose_the_local_database(self) -> None:
        self.world.tell(DatabaseLost(OvnDatabase.LOCAL, "gone"))
        self.judge()

    def after(self) -> None:
        self.expect()
        self.judge()

    # What the host and the operator do.

    @rule(seconds=st.sampled_from([0.05, 0.3, 2.0, 25.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)
        self.judge()

    @rule(entries=st.dictionaries(st.integers(1, 9), st.integers(1, 3), max_size=4))
    def a_pass_ends(self, entries: dict[int, int]) -> None:
        self.count(entries)

    def count(self, entries: dict[int, int]) -> None:
        now = self.world.now
        by_zone = {ZoneId(zone): number for zone, number in entries.items()}
        kept = self.world.planner.keep().zones
        done = CountPass(now, now, CountMethod.FULL_DUMP, by_zone, sum(entries.values()), kept=kept)
        self.world.tell(CountFinished(done))
        self.judge()

    @precondition(lambda self: self.out is not None)
    @rule(how=st.sampled_from(["done", "failed", "not fresh", "owner changed"]))
    def the_flush_comes_back(self, how: str) -> None:
        order = self.world.planner.in_flight
        assert order is not None
        self.out = None
        if how == "done" and self.claims(int(order.zone), self.world.keys) != [order.key]:
            how = "owner changed"  # what the last look at the database says, before anything is sent
        if how in ("not fresh", "owner changed"):
            self.sent.pop()
            if order.trigger is not Trigger.MANUAL and how == "not fresh":
                self.flushed[str(order.router), int(order.zone)] -= 1
        outcome = {
            "done": None,
            "failed": FlushFailure(order.zone, FailureReason.TIMEOUT, ""),
            "not fresh": FlushRefusal(order.zone, Reason.MAP_NOT_FRESH, ""),
            "owner changed": FlushRefusal(order.zone, Reason.OWNER_CHANGED, ""),
        }[how]
        self.world.finish_flush(outcome)
        self.judge()

    @rule(zones=st.lists(st.integers(1, 9), max_size=4, unique=True), name=st.sampled_from(["", *NAMES]))
    def somebody_asks(self, zones: list[int], name: str) -> None:
        for zone in zones:
            self.requested[zone] += 1
        for suffix in ("_dnat", "_snat"):
            number = self.world.keys_shown.get(name + suffix, "")
            if number.isdigit() and int(number) not in zones:
                self.requested[int(number)] += 1
        self.world.ask_flush(*zones, routers=(name,) if name else ())
        self.judge()

    @rule(name=st.sampled_from(NAMES), dnat=ZONES, snat=ZONES)
    def router_is_created(self, name: str, dnat: int, snat: int) -> None:
        self.router_appears(name, dnat, snat)
        self.show_both()

    @rule()
    def routers_are_created_one_after_the_other(self) -> None:
        for number, name in enumerate(NAMES):
            self.router_is_created(name, 2 * number + 1, 2 * number + 2)
            self.drain()

    @rule(what=st.sampled_from(["pause", "lock", "controller", "observe", "dry_run"]), name=st.sampled_from(NAMES))
    def something_forbids(self, what: str, name: str) -> None:
        """For a while; nothing is ordered meanwhile, although a router is created."""
        forbid, allow = {
            "pause": (PauseChanged(is_paused=True), PauseChanged(is_paused=False)),
            "lock": (FlusherLockChanged(is_held=False), FlusherLockChanged(is_held=True)),
            "controller": (
                DaemonSeen(DaemonView(Daemon.OVN_CONTROLLER, is_up=False)),
                DaemonSeen(DaemonView(Daemon.OVN_CONTROLLER, is_up=True)),
            ),
            "observe": (PolicyChanged(dataclasses.replace(POLICY, switch=Switch.OBSERVE)), PolicyChanged(POLICY)),
            "dry_run": (PolicyChanged(dataclasses.replace(POLICY, switch=Switch.DRY_RUN)), PolicyChanged(POLICY)),
        }[what]
        self.drain()
        self.is_allowed = False
        self.world.tell(forbid)
        self.world.switches.pop(name, None)
        self.router_is_created(name, *FREE_ZONES)
        self.world.pass_time(1)
        self.judge()
        self.is_allowed = True
        self.world.tell(allow)
        self.judge()

    # What must hold at the end of all things.

    def drain(self) -> None:
        while self.world.planner.in_flight is not None:
            self.the_flush_comes_back("done")

    def is_waiting(self) -> bool:
        known = self.world.planner
        return bool(known.in_flight is not None or known.held_since() or known._watches)

    def settle(self) -> None:
        """Long enough without a change: everything that waits has an answer."""
        self.world.show_map()
        self.after()
        waited_s = 0.0
        while waited_s < PATIENCE_S and self.is_waiting():
            self.drain()
            self.world.pass_time(20.0)
            waited_s += 20.0
            self.judge()
            self.count({})
        self.drain()
        self.count({})
        assert not self.is_waiting(), "something is pending for ever"

    @invariant()
    def at_most_one_flush_and_one_verdict_per_assignment(self) -> None:
        for pair, number in self.flushed.items():
            assert number <= self.assigned[pair], f"{pair} was flushed {number} times"
        for pair, number in self.verdicts.items():
            assert number <= self.assigned[pair], f"{pair} has {number} verdicts"

    def teardown(self) -> None:
        self.settle()
        self.at_most_one_flush_and_one_verdict_per_assignment()


QUICK = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


def test_whatever_happens_the_promises_hold() -> None:
    run_state_machine_as_test(OvnMachine, settings=QUICK)


# Each of these defects must be found; a machine that passes them judges nothing.


def judge_without(*forgotten: Reason) -> Callable[..., object]:
    def lenient(*given: object) -> object:
        refusal = gate.judge(*given)  # type: ignore[arg-type]
        return None if refusal is not None and refusal.reason in forgotten else refusal

    return lenient


def flush_zones_that_are_not_one_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "judge", judge_without(Reason.SHARED_ZONE, Reason.UNOWNED_ZONE))


def forget_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window.Budget, "has_room", lambda *given: True)


def send_two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    send = planner.Planner._send

    def forgetful(self: planner.Planner, *given: object) -> list[Action]:
        actions = send(self, *given)  # type: ignore[arg-type]
        self._in_flight = None
        return actions

    monkeypatch.setattr(planner.Planner, "_send", forgetful)


def repeat_a_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = watch.Watch.settle

    def restless(self: watch.Watch, *given: object) -> None:
        settle(self, *given)  # type: ignore[arg-type]
        if not hasattr(self.assignment, "twice") and self.flush_detail == "":
            self.stage = watch.Stage.FLUSHING

    monkeypatch.setattr(watch.Watch, "settle", restless)


def ignore_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "judge", judge_without(Reason.PAUSED))


def ignore_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "judge", judge_without(Reason.OBSERVE, Reason.DRY_RUN))


def flush_without_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "judge", judge_without(Reason.NOT_THE_FLUSHER))


def take_a_reconnect_for_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routers.RouterTracker, "_take_former", lambda *given: None)
    monkeypatch.setattr(planner.Planner, "_lateness", lambda *given: None)


def take_the_baseline_for_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routers.RouterTracker, "_adopt", lambda *given: None)


def wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch.Watch, "weigh", lambda *given: None)


def give_a_verdict_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = planner.Planner._verdicts
    monkeypatch.setattr(planner.Planner, "_verdicts", lambda self: verdicts(self) * 2)


DEFECTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    flush_zones_that_are_not_one_owners,
    forget_the_budget,
    send_two_at_once,
    repeat_a_flush,
    ignore_the_pause,
    ignore_the_switch,
    flush_without_the_lock,
    take_a_reconnect_for_news,
    take_the_baseline_for_news,
    wait_for_ever,
    give_a_verdict_twice,
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_a_planted_defect_is_found(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(OvnMachine, settings=settings(QUICK, max_examples=300))
