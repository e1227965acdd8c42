"""Counters exist from the start for what can happen, and grow by what did."""

from __future__ import annotations

from ctctl.agent import ledger as ledger_module
from ctctl.agent.ledger import Ledger
from ctctl.model.actions import GiveVerdict, HoldZone, ReportRouter, RouterChange
from ctctl.model.counts import CountMethod, CountPass, IncompleteReason
from ctctl.model.events import FlushFinished
from ctctl.model.flush import FailureReason, FlushFailure, FlushRefusal, FlushResult, Mode, Reason, Strategy, Trigger
from ctctl.model.ids import RouterId, ZoneId, flushable_zone_id
from ctctl.model.instant import Instant
from ctctl.model.policy import DEFAULT_MODES, FlushPolicy
from ctctl.model.record import Record, RecordKind
from ctctl.model.snapshot import Tallies
from ctctl.model.verdict import FlushStep, Verdict, ZoneVerdict
from tests.agent.orders import order

NOW = Instant(1000.0, 1_800_000_000.0)
ZONE = flushable_zone_id(12)
CREATED = Trigger.ROUTER_CREATED


def at(seconds: float) -> Instant:
    return Instant(NOW.boot_s + seconds, NOW.wall_s + seconds)


def policy(**modes: Mode) -> FlushPolicy:
    return FlushPolicy(modes={**DEFAULT_MODES, **{Trigger(t): m for t, m in modes.items()}})


def finished(*outcomes: FlushResult | FlushFailure | FlushRefusal) -> Tallies:
    ledger = Ledger(FlushPolicy())
    for outcome in outcomes:
        ledger.flush_finished(FlushFinished(order(at=NOW), outcome, at(0.02), at(0.05)))
    return ledger.tallies()


def test_enabled_triggers_start_at_zero_and_disabled_ones_do_not_exist() -> None:
    tallies = Ledger(policy(router_created=Mode.VERIFY, renumbered=Mode.OFF)).tallies()
    assert {v: tallies.verdicts[CREATED, v] for v in Verdict} == dict.fromkeys(Verdict, 0)
    assert all(tallies.flush_holds[CREATED, r] == 0 for r in Reason)
    assert all(tallies.flushes[Trigger.MANUAL, s] == 0 for s in Strategy)
    assert not any(trigger is Trigger.RENUMBERED for trigger, _ in tallies.flushes)


def test_a_trigger_enabled_later_begins_at_zero_and_a_disabled_one_keeps_its_figures() -> None:
    ledger = Ledger(policy())
    ledger.held(HoldZone(ZONE, CREATED, "r1", Reason.BRAKE, ""))
    ledger.enable(policy(router_created=Mode.OFF, renumbered=Mode.ALWAYS))
    assert ledger.tallies().flush_holds[CREATED, Reason.BRAKE] == 1
    assert ledger.tallies().flushes[Trigger.RENUMBERED, Strategy.KERNEL_FILTER] == 0


def test_a_flush_is_counted_timed_and_its_reaction_measured() -> None:
    tallies = finished(FlushResult(ZONE, Strategy.ENTRY_DELETE, 0.03, 7, already_gone=2))
    assert tallies.flushes[CREATED, Strategy.ENTRY_DELETE] == 1
    assert tallies.flushes[CREATED, Strategy.KERNEL_FILTER] == 0
    assert tallies.flush_seconds[Strategy.ENTRY_DELETE].count == 1
    assert tallies.entries_deleted[CREATED] == 7
    assert tallies.entries_already_gone == 2
    assert tallies.reaction_seconds[CREATED].count == 1


def test_a_flush_that_carries_no_count_adds_none() -> None:
    assert finished(FlushResult(ZONE, Strategy.KERNEL_FILTER, 0.03, None)).entries_deleted[CREATED] == 0


def test_a_failure_is_no_flush_and_a_refusal_is_neither() -> None:
    tallies = finished(FlushFailure(ZONE, FailureReason.TIMEOUT, ""), FlushRefusal(ZONE, Reason.OBSERVE, ""))
    assert tallies.flush_failures[CREATED, FailureReason.TIMEOUT] == 1
    assert sum(tallies.flushes.values()) == 0
    assert sum(tallies.flush_holds.values()) == 0


def test_every_zone_of_a_verdict_counts() -> None:
    ledger = Ledger(FlushPolicy())
    zones = tuple(
        ZoneVerdict(
            RouterId("nb"), "r1", ZoneId(z), CREATED, Verdict.CLEAN, FlushStep.NOT_NEEDED, "", 1, at(0), at(0.4)
        )
        for z in (12, 13)
    )
    ledger.verdict_given(GiveVerdict(zones))
    assert ledger.tallies().verdicts[CREATED, Verdict.CLEAN] == 2
    assert ledger.tallies().verdict_seconds[CREATED].count == 2


def test_renumbered_zones_are_counted_by_zone_and_readiness_where_it_is_known() -> None:
    ledger = Ledger(FlushPolicy())
    zones = (ZoneId(12), ZoneId(13))
    ledger.router_changed(ReportRouter(RouterId("nb"), "r1", RouterChange.RENUMBERED, zones, NOW))
    ledger.router_changed(ReportRouter(RouterId("nb"), "r1", RouterChange.READY, zones, NOW, created_to_ready_s=0.4))
    tallies = ledger.tallies()
    assert tallies.zones_renumbered == 2
    assert tallies.router_created_to_ready.count == 1
    assert tallies.router_events[RouterChange.RENUMBERED] == 1


def test_passes_are_timed_and_failures_counted_by_reason() -> None:
    ledger = Ledger(FlushPolicy())
    ledger.counted(CountPass(at(0), at(0.2), CountMethod.FULL_DUMP, {}, 0))
    ledger.count_failed(IncompleteReason.TABLE_RESIZED)
    tallies = ledger.tallies()
    assert tallies.count_seconds[CountMethod.FULL_DUMP].count == 1
    assert tallies.counts_incomplete[IncompleteReason.TABLE_RESIZED] == 1
    assert tallies.counts_incomplete[IncompleteReason.TIMEOUT] == 0


def test_records_are_numbered_for_life_and_the_oldest_gives_way() -> None:
    ledger = Ledger(FlushPolicy())
    for number in range(ledger_module.MAX_RECORDS + 5):
        ledger.record(Record(NOW, RecordKind.AGENT, str(number)))
    assert len(ledger.records) == ledger_module.MAX_RECORDS
    assert [r.number for r in ledger.records[:2]] == [6, 7]


def test_what_was_handed_out_does_not_change_any_more() -> None:
    ledger = Ledger(FlushPolicy())
    before, records = ledger.tallies(), ledger.records
    ledger.held(HoldZone(ZONE, CREATED, "r1", Reason.BRAKE, ""))
    ledger.record(Record(NOW, RecordKind.AGENT, "x"))
    assert before.flush_holds[CREATED, Reason.BRAKE] == 0
    assert records == ()
