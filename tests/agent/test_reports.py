"""The shapes of `-o json`: a key never changes its meaning, None means not known."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ctctl.agent.commands import Commands
from ctctl.agent.loop import ManualOutcome
from ctctl.agent.reports import event_reports, flush_report, refusal_report, status_report, zone_reports
from ctctl.errors import CtctlError, InvalidZoneError, UnavailableError
from ctctl.model.actions import HoldZone
from ctctl.model.capability import Capability, Probe
from ctctl.model.counts import CountMethod
from ctctl.model.daemon import Daemon, DaemonView
from ctctl.model.events import FlushFinished
from ctctl.model.flush import FailureReason, FlushFailure, FlushRefusal, FlushResult, Reason, Strategy, Trigger
from ctctl.model.ids import ZoneId, flushable_zone_id
from ctctl.model.ovn import OvnDatabase
from ctctl.model.record import Record, RecordKind
from ctctl.model.snapshot import DatabaseState, Snapshot
from ctctl.model.zone import Zone, ZoneKind
from tests.agent.orders import order
from tests.metrics.snapshots import NOW, before, count_of, empty_snapshot, router_zones

ZONE = flushable_zone_id(12)


def test_a_zone_report_has_the_documented_keys() -> None:
    zone = Zone(ZoneId(12), ZoneKind.ROUTER_DNAT, "r1", "r1_dnat", alias="office", limit=0)
    assert zone_reports([zone], count_of({12: 25, 13: 75})) == [
        {
            "ct_zone": 12,
            "kind": "router_dnat",
            "owner": "r1",
            "alias": "office",
            "entries": 25,
            "share": 0.25,
            "limit": 0,
            "state": "assigned",
        }
    ]


def test_before_the_first_count_entries_are_not_known() -> None:
    (report,) = zone_reports([Zone(ZoneId(5), ZoneKind.PORT, "p")], None)
    assert (report["entries"], report["share"], report["limit"]) == (None, None, None)


def test_in_an_empty_table_every_share_is_nothing() -> None:
    (report,) = zone_reports([Zone(ZoneId(5), ZoneKind.PORT, "p")], count_of({}))
    assert (report["entries"], report["share"]) == (0, 0.0)


@pytest.mark.parametrize("kind", list(ZoneKind))
def test_every_kind_has_a_state(kind: ZoneKind) -> None:
    (report,) = zone_reports([Zone(ZoneId(5), kind)], None)
    assert report["state"] in {"assigned", "ownerless", "foreign", "host", "conflicting"}


@pytest.mark.parametrize(
    ("outcome", "kind", "reason"),
    [
        (FlushResult(ZONE, Strategy.ENTRY_DELETE, 0.0123456789, 7, 2), "flushed", None),
        (FlushFailure(ZONE, FailureReason.PERMISSION, "EPERM"), "failed", "permission"),
        (FlushRefusal(ZONE, Reason.OWNER_CHANGED, "gone"), "refused", "owner_changed"),
    ],
)
def test_a_flush_report_names_outcome_and_reason(
    outcome: FlushResult | FlushFailure | FlushRefusal, kind: str, reason: str | None
) -> None:
    report = flush_report(outcome, "r1")
    assert (report["ct_zone"], report["owner"], report["outcome"], report.get("reason")) == (12, "r1", kind, reason)
    json.dumps(report)


def test_a_refusal_without_a_zone_has_none() -> None:
    assert refusal_report(None, "r1", Reason.UNOWNED_ZONE, "no zone")["ct_zone"] is None


def record(number: int, **fields: object) -> Record:
    return Record(NOW, RecordKind.FLUSH, f"event {number}", fields, number)


def test_events_come_after_the_number_asked_for() -> None:
    snapshot = replace(empty_snapshot(), records=(record(5, zone=12), record(6)))
    assert [e["number"] for e in event_reports(snapshot, 0)] == [5, 6]
    assert [e["number"] for e in event_reports(snapshot, 5)] == [6]
    assert event_reports(snapshot, 6) == []
    assert event_reports(snapshot, 0)[0]["zone"] == 12


def test_a_number_of_an_agent_before_the_restart_gets_everything() -> None:
    assert len(event_reports(replace(empty_snapshot(), records=(record(1), record(2))), 900)) == 2
    assert event_reports(empty_snapshot(), 900) == []


def test_status_of_an_agent_that_knows_nothing() -> None:
    report = status_report(empty_snapshot())
    assert (report["ready"], report["entries"], report["count_age_seconds"]) == (False, None, None)
    json.dumps(report)


def test_status_says_what_is_lost_down_and_stalled() -> None:
    vswitchd = DaemonView(Daemon.VSWITCHD, is_up=True, unanswered_since=before(2.5))
    controller = DaemonView(Daemon.OVN_CONTROLLER, is_up=False, why_down="no socket")
    states = (
        DatabaseState(OvnDatabase.LOCAL, is_configured=True, is_connected=True, reconnects=0, confirmed=NOW),
        DatabaseState(OvnDatabase.SOUTHBOUND, is_configured=True, is_connected=False, reconnects=0, confirmed=None),
        DatabaseState(OvnDatabase.NORTHBOUND, is_configured=False, is_connected=False, reconnects=0, confirmed=None),
    )
    report = status_report(
        replace(
            empty_snapshot(),
            daemons=(vswitchd, controller),
            databases=states,
            probes=(Probe(Capability.CONNTRACK, None, "not asked"),),
            zones=router_zones(12, "r1"),
            count=count_of({12: 5}, method=CountMethod.FULL_DUMP),
        )
    )
    assert report["databases"] == {
        "Open_vSwitch": "connected",
        "OVN_Southbound": "lost",
        "OVN_Northbound": "not read",
    }
    assert report["daemons"] == {"ovs-vswitchd": "up", "ovn-controller": "no socket"}
    assert report["stalled_seconds"] == {"ovs-vswitchd": 2.5}
    assert report["capabilities"] == {"conntrack": None}
    assert (report["zones"], report["entries"], report["count_age_seconds"]) == (2, 5, 2.0)


# What the control socket makes of it.


class Loop:
    def __init__(self, outcomes: tuple[ManualOutcome, ...] | None = ()) -> None:
        self.outcomes = outcomes
        self.asked: list[tuple[object, ...]] = []
        self.paused: list[bool] = []
        self.snapshot: Snapshot | None = empty_snapshot()
        self.commands = Commands(lambda: self.snapshot, self.ask_flush, self.set_paused)

    def ask_flush(
        self, zones: object, routers: object, *, is_dry_run: bool, timeout_s: float, **more: object
    ) -> tuple[ManualOutcome, ...] | None:
        self.asked.append((zones, routers, is_dry_run))
        return self.outcomes

    def set_paused(self, *, is_paused: bool) -> None:
        self.paused.append(is_paused)


@pytest.mark.parametrize(
    "request_",
    [
        {"zones": [0]},
        {"zones": [5, 0]},
        {"zones": [70000]},
        {"zones": ["5"]},
        {"zones": [True]},
        {"zones": [5.0]},
        {"zones": [None]},
        {"zones": [[5]]},
        {"zones": 5},
        {"zones": {"5": 1}},
        {"routers": "r1"},
    ],
)
def test_a_flush_of_what_is_no_zone_reaches_nobody(request_: dict[str, object]) -> None:
    loop = Loop()
    with pytest.raises((InvalidZoneError, CtctlError)):
        loop.commands.flush(request_)
    assert loop.asked == []


def test_a_flush_passes_on_exactly_what_was_named() -> None:
    loop = Loop()
    loop.commands.flush({"zones": [12, 13], "routers": ["r1"], "dry_run": True})
    loop.commands.flush({"zones": [12], "dry_run": "yes"})
    assert loop.asked == [((12, 13), ("r1",), True), ((12,), (), False)]


def test_each_outcome_of_a_flush_is_reported() -> None:
    done = FlushFinished(order(), FlushResult(ZONE, Strategy.KERNEL_FILTER, 0.001, None), NOW, NOW)
    held = HoldZone(ZoneId(99), Trigger.MANUAL, "", Reason.UNOWNED_ZONE, "nobody's", 1)
    loop = Loop((ManualOutcome(done, None), ManualOutcome(None, held)))
    assert [(r["ct_zone"], r["outcome"]) for r in loop.commands.flush({"zones": [12, 99]})] == [
        (12, "flushed"),
        (99, "refused"),
    ]


def test_a_flush_that_is_not_over_in_time_says_where_to_follow_it() -> None:
    with pytest.raises(UnavailableError, match=r"it goes on; follow it with `ctctl events --follow`"):
        Loop(None).commands.flush({"zones": [12]})


def test_an_agent_that_is_starting_says_so() -> None:
    loop = Loop()
    loop.snapshot = None
    for ask in (loop.commands.zones, loop.commands.status, loop.commands.events):
        with pytest.raises(UnavailableError, match="the agent is starting; try again in a second"):
            ask({})


@pytest.mark.parametrize("after", [None, "5", [], {}, 1.5])
def test_events_after_what_is_no_number_are_all_events(after: object) -> None:
    loop = Loop()
    loop.snapshot = replace(empty_snapshot(), records=(record(1),))
    assert len(loop.commands.events({"after": after})) == 1


def test_pause_and_resume_are_passed_on() -> None:
    loop = Loop()
    assert loop.commands.pause({}) == {"paused": True}
    assert loop.commands.resume({}) == {"paused": False}
    assert loop.paused == [True, False]


def test_every_answer_can_be_spelled_in_json() -> None:
    loop = Loop()
    for name, handler in loop.commands.handlers().items():
        assert json.dumps(handler({})), name
