"""Tells people what happened: one log line and one record per thing, in the words of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from ctctl.agent.ledger import Ledger
from ctctl.model.actions import GiveVerdict, HoldZone, ReportBrake, ReportRouter, RouterChange
from ctctl.model.events import CountFailed, DatabaseLost, FlushFinished, JournalOpened
from ctctl.model.flush import FlushFailure, FlushResult
from ctctl.model.instant import Instant
from ctctl.model.record import Record, RecordKind
from ctctl.model.snapshot import DatabaseState
from ctctl.model.verdict import FlushStep, ZoneVerdict

_log = structlog.get_logger("ctctl")


class Narrator:
    """Only the control loop calls it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._count_failure = ""

    def verdict(self, action: GiveVerdict, now: Instant) -> None:
        """The one verdict line of a router's zones."""
        first = action.verdicts[0]
        fields = {
            "router": first.owner,
            "router_uuid": first.router,
            "trigger": first.trigger.value,
            "ready_s": _ready_s(action.verdicts),
            "zones": [int(v.zone) for v in action.verdicts],
            "verdict": _joined(v.verdict for v in action.verdicts),
            "entries": [v.entries for v in action.verdicts],
            "flush": _joined(_flush_word(v) for v in action.verdicts),
        }
        numbers = ",".join(str(v.zone) for v in action.verdicts)
        text = f"router {first.owner} {_readiness(first, action.verdicts)} zones={numbers}"
        text += f" verdict={fields['verdict']} flush={fields['flush']}"
        self._tell(RecordKind.VERDICT, text, fields, now)

    def flush(self, event: FlushFinished, now: Instant) -> None:
        """A flush that was tried."""
        order = event.order
        fields: dict[str, object] = {"zone": int(order.zone), "owner": order.owner, "trigger": order.trigger.value}
        fields["request"] = order.request
        match event.outcome:
            case FlushResult(_, strategy, duration_s, deleted, already_gone):
                reaction_s = None if event.sent is None else max(0.0, event.sent.since(order.visible))
                fields |= {"strategy": strategy.value, "duration_s": duration_s, "reaction_s": reaction_s}
                fields |= {"deleted": deleted, "already_gone": already_gone}
                fields["sent"] = None if event.sent is None else round(event.sent.wall_s, 6)
                text = f"zone {order.zone} of {order.owner or 'no owner'} flushed"
                text += f" strategy={strategy} duration={duration_s * 1000:.2f}ms"
                if reaction_s is not None:
                    text += f" reaction={reaction_s * 1000:.1f}ms"
                if deleted is not None:
                    text += f" deleted={deleted}"
                self._tell(RecordKind.FLUSH, text, fields, now)
            case FlushFailure(_, reason, why):
                text = f"zone {order.zone} of {order.owner or 'no owner'} not flushed: {why}"
                self._tell(RecordKind.FLUSH, text, {**fields, "failure": reason.value}, now, is_warning=True)
            case _:
                pass

    def hold(self, action: HoldZone, now: Instant) -> None:
        """A flush that was refused or has to wait."""
        what = f"zone {action.zone} of {action.owner or 'no owner'}" if action.zone is not None else action.owner
        text = f"{what} held reason={action.reason}: {action.why}"
        fields = {
            "zone": None if action.zone is None else int(action.zone),
            "owner": action.owner,
            "trigger": action.trigger.value,
            "reason": action.reason.value,
            "why": action.why,
            "request": action.request,
            "is_transient": action.reason.is_transient,
        }
        self._tell(RecordKind.HOLD, text, fields, now)

    def router(self, action: ReportRouter, now: Instant) -> None:
        """A router that came, went or changed."""
        zones = ",".join(str(z) for z in action.zones)
        text = f"router {action.name} {_CHANGES[action.change]}" + (f" zones={zones}" if zones else "")
        fields: dict[str, object] = {
            "router": action.name,
            "router_uuid": action.router,
            "change": action.change.value,
            "zones": [int(z) for z in action.zones],
        }
        if action.created_to_ready_s is not None:
            fields["created_to_ready_s"] = action.created_to_ready_s
        self._tell(RecordKind.ROUTER, text, fields, now)

    def stall(self, record: Record) -> None:
        """A stall that is over."""
        self._tell(record.kind, record.text, record.fields, record.at, is_warning=True)

    def brake(self, action: ReportBrake, now: Instant) -> None:
        """The mass-change brake."""
        if action.is_on:
            text = f"brake on: {action.changes} zone changes within a minute; automatic flushes wait"
        else:
            text = "brake off: five stable minutes passed"
        self._tell(RecordKind.AGENT, text, {"brake": action.is_on}, now, is_warning=action.is_on)

    def note(self, text: str, now: Instant, *, is_warning: bool = False, **fields: object) -> None:
        """Something about the agent itself."""
        self._tell(RecordKind.AGENT, text, fields, now, is_warning=is_warning)

    def journal(self, event: JournalOpened, now: Instant) -> None:
        """What the last flusher left under way, or why nothing will be flushed."""
        if event.why_not:
            self.note(f"nothing will be flushed: {event.why_not}", now, is_warning=True)
        for zone, owner in event.interrupted:
            text = f"zone {zone} of {owner or 'no owner'}: a flush was under way when the last agent ended"
            self.note(f"{text}; it is not repeated", now, is_warning=True, zone=zone)

    def database_lost(self, event: DatabaseLost, before: DatabaseState | None, now: Instant) -> None:
        """A connection went, or could not be made: said when it starts and when its reason changes."""
        if before is not None and before.why_lost == event.why and not before.is_connected:
            return
        if event.is_configured:
            self.note(f"{event.database} lost: {event.why}", now, is_warning=True)
        else:
            self.note(f"{event.database} is not read: {event.why}", now)

    def database_read(self, database: str, before: DatabaseState | None, now: Instant) -> None:
        """A connection came (back)."""
        if before is None or not before.is_connected:
            self.note(f"{database} connected", now)

    def count_failed(self, event: CountFailed, now: Instant) -> None:
        """Counting fails: said when it starts and when its reason changes."""
        if event.why != self._count_failure:
            self._count_failure = event.why
            self.note(f"counting failed: {event.why}", now, is_warning=True, reason=event.reason.value)

    def count_finished(self, now: Instant) -> None:
        """Counting works (again)."""
        if self._count_failure:
            self._count_failure = ""
            self.note("counting works again", now)

    def _tell(
        self, kind: RecordKind, text: str, fields: Mapping[str, object], now: Instant, *, is_warning: bool = False
    ) -> None:
        # Names come from databases that others write: nothing in them may steer a terminal or split a line.
        text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
        self._ledger.record(Record(now, kind, text, dict(fields)))
        (_log.warning if is_warning else _log.info)(text, kind=kind.value)


_CHANGES: Mapping[RouterChange, str] = {
    RouterChange.CREATED: "created, no zones here yet",
    RouterChange.READY: "has its zones",
    RouterChange.ARRIVED: "became local",
    RouterChange.RENAMED: "is the new name of a known router",
    RouterChange.RENUMBERED: "was renumbered by OVN, which cut its connections",
    RouterChange.LEFT: "is not local any more",
    RouterChange.REMOVED: "removed",
}


def _joined(words: Iterable[str]) -> str:
    """One word when all agree, else all of them in zone order."""
    listed = [str(word) for word in words]
    return listed[0] if len(set(listed)) == 1 else ",".join(listed)


def _flush_word(verdict: ZoneVerdict) -> str:
    if verdict.flush in (FlushStep.HELD, FlushStep.FAILED):
        return f"{verdict.flush}({verdict.flush_detail})"
    return str(verdict.flush)


def _ready_s(verdicts: tuple[ZoneVerdict, ...]) -> float | None:
    seen = verdicts[0].router_seen
    if seen is None:
        return None
    return max(0.0, max(v.visible for v in verdicts).since(seen))


def _readiness(first: ZoneVerdict, verdicts: tuple[ZoneVerdict, ...]) -> str:
    ready_s = _ready_s(verdicts)
    return first.trigger.value.removeprefix("router_") if ready_s is None else f"ready in {ready_s:.2f}s"
