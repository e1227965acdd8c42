"""One line per thing, in the words of the documentation, that nobody's name can break."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from ctctl.agent.ledger import Ledger
from ctctl.agent.narrator import Narrator
from ctctl.model.actions import GiveVerdict, HoldZone, ReportBrake, ReportRouter, RouterChange
from ctctl.model.counts import IncompleteReason
from ctctl.model.events import CountFailed, DatabaseLost, FlushFinished
from ctctl.model.flush import FailureReason, FlushFailure, FlushRefusal, FlushResult, Reason, Strategy, Trigger
from ctctl.model.ids import RouterId, ZoneId, flushable_zone_id
from ctctl.model.instant import Instant
from ctctl.model.ovn import OvnDatabase
from ctctl.model.policy import FlushPolicy
from ctctl.model.record import Record, RecordKind
from ctctl.model.snapshot import DatabaseState
from ctctl.model.verdict import FlushStep, Verdict, ZoneVerdict
from tests.agent.orders import order

NOW = Instant(1000.0, 1_800_000_000.0)


def at(seconds: float) -> Instant:
    return Instant(NOW.boot_s + seconds, NOW.wall_s + seconds)


class Told:
    """A narrator, and what came of it."""

    def __init__(self) -> None:
        self.ledger = Ledger(FlushPolicy())
        self.narrator = Narrator(self.ledger)

    @property
    def records(self) -> tuple[Record, ...]:
        return self.ledger.records

    @property
    def texts(self) -> list[str]:
        return [record.text for record in self.records]


@pytest.fixture
def told() -> Told:
    return Told()


def verdict(zone: int = 12, owner: str = "r1", **fields: object) -> ZoneVerdict:
    whole: dict[str, object] = {
        "router": RouterId("nb-r1"),
        "owner": owner,
        "zone": ZoneId(zone),
        "trigger": Trigger.ROUTER_CREATED,
        "verdict": Verdict.CLEAN,
        "flush": FlushStep.NOT_NEEDED,
        "flush_detail": "",
        "entries": 3,
        "visible": at(0.41),
        "given": at(0.9),
        "router_seen": NOW,
    }
    return ZoneVerdict(**{**whole, **fields})  # type: ignore[arg-type]


def line(told: Told, *verdicts: ZoneVerdict) -> str:
    told.narrator.verdict(GiveVerdict(verdicts), at(0.9))
    return told.texts[-1]


def test_the_verdict_line_is_word_for_word_the_documented_one(told: Told) -> None:
    with capture_logs() as logged:
        text = line(told, verdict(12), verdict(13))
    assert text == "router r1 ready in 0.41s zones=12,13 verdict=clean flush=not-needed"
    assert [(entry["event"], entry["log_level"]) for entry in logged] == [(text, "info")]


def test_zones_that_differ_are_told_in_their_order(told: Told) -> None:
    text = line(
        told,
        verdict(12, verdict=Verdict.EMPTY, flush=FlushStep.DONE),
        verdict(13, verdict=Verdict.UNVERIFIED, flush=FlushStep.HELD, flush_detail="too_late"),
    )
    assert text == "router r1 ready in 0.41s zones=12,13 verdict=empty,unverified flush=done,held(too_late)"


@pytest.mark.parametrize(("trigger", "word"), [(Trigger.ROUTER_ARRIVED, "arrived"), (Trigger.RENUMBERED, "renumbered")])
def test_a_router_whose_creation_was_not_seen_is_not_called_ready_in_some_time(
    told: Told, trigger: Trigger, word: str
) -> None:
    text = line(told, verdict(trigger=trigger, router_seen=None))
    assert text == f"router r1 {word} zones=12 verdict=clean flush=not-needed"


def test_readiness_is_when_the_last_key_appeared_and_never_negative(told: Told) -> None:
    assert "ready in 1.50s" in line(told, verdict(12, visible=at(0.1)), verdict(13, visible=at(1.5)))
    assert "ready in 0.00s" in line(told, verdict(12, visible=at(-2)))


def test_a_verdict_is_recorded_as_data_too(told: Told) -> None:
    line(told, verdict(12), verdict(13, entries=None, verdict=Verdict.UNVERIFIED))
    (record,) = told.records
    assert (record.kind, record.number, record.at) == (RecordKind.VERDICT, 1, at(0.9))
    assert record.fields == {
        "router": "r1",
        "router_uuid": "nb-r1",
        "trigger": "router_created",
        "ready_s": pytest.approx(0.41),
        "zones": [12, 13],
        "verdict": "clean,unverified",
        "entries": [3, None],
        "flush": "not-needed",
    }


HOSTILE = "r1\n2026 router evil ready\x1b[31m\r\t\u202e\u2028\ud800\x00"


def test_a_hostile_name_neither_breaks_the_line_nor_steers_a_terminal(told: Told) -> None:
    narrator = told.narrator
    with capture_logs() as logged:
        narrator.verdict(GiveVerdict((verdict(owner=HOSTILE),)), NOW)
        narrator.hold(HoldZone(ZoneId(12), Trigger.MANUAL, HOSTILE, Reason.SHARED_ZONE, HOSTILE), NOW)
        narrator.hold(HoldZone(None, Trigger.MANUAL, HOSTILE, Reason.UNOWNED_ZONE, HOSTILE), NOW)
        narrator.router(ReportRouter(RouterId("x"), HOSTILE, RouterChange.CREATED, (), NOW), NOW)
        narrator.note(HOSTILE, NOW)
        narrator.database_lost(DatabaseLost(OvnDatabase.LOCAL, HOSTILE), None, NOW)
        failed = FlushFailure(flushable_zone_id(12), FailureReason.TIMEOUT, HOSTILE)
        narrator.flush(FlushFinished(order(owner=HOSTILE), failed, NOW, NOW), NOW)
    assert len(logged) == len(told.records) == 7
    assert all(text.isprintable() for text in told.texts)
    assert [entry["event"] for entry in logged] == told.texts


def test_a_flush_is_told_with_its_cost_and_reaction(told: Told) -> None:
    done = FlushResult(flushable_zone_id(12), Strategy.KERNEL_FILTER, 0.0123, None)
    told.narrator.flush(FlushFinished(order(at=NOW), done, at(0.05), at(0.07)), NOW)
    assert told.texts == ["zone 12 of r1 flushed strategy=kernel_filter duration=12.30ms reaction=50.0ms"]
    counted = FlushResult(flushable_zone_id(12), Strategy.ENTRY_DELETE, 0.001, 7, already_gone=2)
    told.narrator.flush(FlushFinished(order(at=NOW, owner=""), counted, at(0.05), at(0.07)), NOW)
    assert told.texts[-1].startswith("zone 12 of no owner flushed strategy=entry_delete")
    assert "deleted=7" in told.texts[-1]


def test_a_flush_that_was_refused_is_told_by_its_hold_alone(told: Told) -> None:
    refused = FlushRefusal(ZoneId(12), Reason.OWNER_CHANGED, "gone")
    told.narrator.flush(FlushFinished(order(), refused, None, NOW), NOW)
    assert told.records == ()


def test_a_failed_flush_is_a_warning(told: Told) -> None:
    failed = FlushFailure(flushable_zone_id(12), FailureReason.PERMISSION, "needs CAP_NET_ADMIN")
    with capture_logs() as logged:
        told.narrator.flush(FlushFinished(order(), failed, NOW, NOW), NOW)
    assert logged[0]["log_level"] == "warning"
    assert told.texts == ["zone 12 of r1 not flushed: needs CAP_NET_ADMIN"]


def test_a_hold_names_zone_owner_and_reason(told: Told) -> None:
    told.narrator.hold(HoldZone(ZoneId(12), Trigger.ROUTER_CREATED, "r1", Reason.BRAKE, "too many"), NOW)
    assert told.texts == ["zone 12 of r1 held reason=brake: too many"]
    assert told.records[0].fields["is_transient"] is True


@pytest.mark.parametrize("change", list(RouterChange))
def test_every_change_of_a_router_has_words(told: Told, change: RouterChange) -> None:
    told.narrator.router(ReportRouter(RouterId("nb"), "r1", change, (ZoneId(12), ZoneId(13)), NOW), NOW)
    assert told.texts[0].startswith("router r1 ")
    assert told.texts[0].endswith(" zones=12,13")


def test_the_brake_is_told_when_it_goes_on_and_off(told: Told) -> None:
    with capture_logs() as logged:
        told.narrator.brake(ReportBrake(is_on=True, changes=201), NOW)
        told.narrator.brake(ReportBrake(is_on=False, changes=0), NOW)
    assert [entry["log_level"] for entry in logged] == ["warning", "info"]
    assert "201 zone changes" in told.texts[0]


def state(why: str, *, is_connected: bool = False) -> DatabaseState:
    return DatabaseState(OvnDatabase.LOCAL, True, is_connected, 0, None, why)  # noqa: FBT003


def test_a_lost_database_is_told_when_it_starts_and_when_the_reason_changes(told: Told) -> None:
    lost = DatabaseLost(OvnDatabase.LOCAL, "refused")
    told.narrator.database_lost(lost, None, NOW)
    told.narrator.database_lost(lost, state("refused"), NOW)
    told.narrator.database_lost(lost, state("no such file"), NOW)
    told.narrator.database_lost(lost, state("", is_connected=True), NOW)
    assert told.texts == ["Open_vSwitch lost: refused"] * 3
    told.narrator.database_read(OvnDatabase.LOCAL, state("refused"), NOW)
    told.narrator.database_read(OvnDatabase.LOCAL, state("", is_connected=True), NOW)
    assert told.texts[3:] == ["Open_vSwitch connected"]


def test_a_database_that_is_not_to_be_read_is_no_warning(told: Told) -> None:
    with capture_logs() as logged:
        told.narrator.database_lost(DatabaseLost(OvnDatabase.NORTHBOUND, "none here", is_configured=False), None, NOW)
    assert logged[0]["log_level"] == "info"


def test_ten_minutes_of_permission_denied_are_two_lines(told: Told) -> None:
    for _ in range(600):
        told.narrator.count_failed(CountFailed(IncompleteReason.PERMISSION, "needs CAP_NET_ADMIN", NOW), NOW)
    told.narrator.count_finished(NOW)
    told.narrator.count_finished(NOW)
    assert told.texts == ["counting failed: needs CAP_NET_ADMIN", "counting works again"]
