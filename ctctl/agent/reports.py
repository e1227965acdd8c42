"""What the command line shows, as plain data: the shapes of `-o json`. A key never changes its meaning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ctctl.model.counts import CountPass
from ctctl.model.flush import FlushFailure, FlushOutcome, FlushRefusal, FlushResult, Reason
from ctctl.model.ids import ZoneId
from ctctl.model.snapshot import Snapshot
from ctctl.model.zone import Zone, ZoneKind

Report = dict[str, object]

_STATES: Final = {
    ZoneKind.CONFLICT: "conflicting",
    ZoneKind.OWNERLESS: "ownerless",
    ZoneKind.FOREIGN: "foreign",
    ZoneKind.HOST: "host",
}


def zone_reports(zones: Iterable[Zone], count: CountPass | None) -> list[Report]:
    """One object per zone: ct_zone, kind, owner, alias, entries, share (0 … 1 of all entries), limit, state.

    `entries` and `share` are None while nothing was counted; `limit` is None where none is set, 0 = unlimited.
    """
    return [_zone_report(zone, count) for zone in zones]


def _zone_report(zone: Zone, count: CountPass | None) -> Report:
    entries = None if count is None else count.entries_in(zone.zone)
    share = None if count is None or entries is None else entries / count.entries if count.entries else 0.0
    return {
        "ct_zone": int(zone.zone),
        "kind": zone.kind.value,
        "owner": zone.owner,
        "alias": zone.alias,
        "entries": entries,
        "share": None if share is None else round(share, 6),
        "limit": zone.limit,
        "state": _STATES.get(zone.kind, "assigned"),
    }


def flush_report(outcome: FlushOutcome, owner: str) -> Report:
    """What came of flushing one zone: ct_zone, owner, outcome (flushed, failed, refused) and its particulars."""
    match outcome:
        case FlushResult(zone, strategy, duration_s, deleted, already_gone):
            return {
                "ct_zone": int(zone),
                "owner": owner,
                "outcome": "flushed",
                "strategy": strategy.value,
                "duration_seconds": round(duration_s, 6),
                "deleted": deleted,
                "already_gone": already_gone,
            }
        case FlushFailure(zone, failure, why):
            return {"ct_zone": int(zone), "owner": owner, "outcome": "failed", "reason": failure.value, "why": why}
        case FlushRefusal(zone, reason, why):
            return refusal_report(zone, owner, reason, why)


def refusal_report(zone: ZoneId | None, owner: str, reason: Reason, why: str) -> Report:
    """A flush that was not sent. `ct_zone` is None when the named router has no zone here."""
    return {
        "ct_zone": None if zone is None else int(zone),
        "owner": owner,
        "outcome": "refused",
        "reason": reason.value,
        "why": why,
    }


def status_report(snapshot: Snapshot) -> Report:
    """The agent's health in one object."""
    count = snapshot.count
    return {
        "ready": snapshot.is_ready,
        "why_not_ready": snapshot.why_not_ready,
        "switch": snapshot.switch.value,
        "paused": snapshot.is_paused,
        "flusher": snapshot.is_flusher,
        "brake": snapshot.is_braked,
        "chassis": snapshot.target.chassis,
        "datapath_type": snapshot.target.datapath_type.value,
        "kernel_release": snapshot.target.kernel_release,
        "ovs_version": snapshot.target.ovs_version,
        "ovn_version": snapshot.target.ovn_version,
        "databases": {d.database.value: _database_state(d.is_configured, d.is_connected) for d in snapshot.databases},
        "daemons": {d.daemon.value: "up" if d.is_up else d.why_down for d in snapshot.daemons},
        "stalled_seconds": {
            d.daemon.value: round(snapshot.at.since(d.unanswered_since), 3)
            for d in snapshot.daemons
            if d.unanswered_since is not None
        },
        "capabilities": {p.capability.value: p.is_supported for p in snapshot.probes},
        "zones": len(snapshot.zones),
        "entries": None if count is None else count.entries,
        "count_age_seconds": None if count is None else round(snapshot.at.since(count.ended), 3),
        "routers": {
            "known": snapshot.routers.known,
            "local": snapshot.routers.local,
            "pending": snapshot.routers.pending,
        },
        "pending_flushes": snapshot.pending,
    }


def _database_state(is_configured: bool, is_connected: bool) -> str:
    if is_connected:
        return "connected"
    return "lost" if is_configured else "not read"


def event_reports(snapshot: Snapshot, after: int) -> list[Report]:
    """Records numbered above `after`, oldest first: number, time (Unix seconds), kind, text and their fields.

    A number beyond the last record's is another agent's, from before a restart: then all are returned.
    """
    if snapshot.records and snapshot.records[-1].number < after:
        after = 0
    return [
        {
            "number": record.number,
            "time": round(record.at.wall_s, 3),
            "kind": record.kind.value,
            "text": record.text,
            **record.fields,
        }
        for record in snapshot.records
        if record.number > after
    ]
