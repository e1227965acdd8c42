"""Verdicts, flushes and routers as families."""

from __future__ import annotations

from ctctl.metrics.families import Families
from ctctl.model.instant import Instant
from ctctl.model.ovn import OvnDatabase
from ctctl.model.snapshot import Snapshot


def collect_flushes(snapshot: Snapshot, now: Instant, into: Families) -> None:
    """Fill in the families of `Subject.FLUSHES`."""
    tallies = snapshot.tallies
    for (trigger, verdict), number in tallies.verdicts.items():
        into.put("ctctl_zone_verdicts_total", number, trigger, verdict)
    for trigger, seconds in tallies.verdict_seconds.items():
        into.put_histogram("ctctl_zone_verdict_seconds", seconds, trigger)
    for (trigger, strategy), number in tallies.flushes.items():
        into.put("ctctl_flushes_total", number, trigger, strategy)
    for (trigger, failure), number in tallies.flush_failures.items():
        into.put("ctctl_flush_failures_total", number, trigger, failure)
    for (trigger, reason), number in tallies.flush_holds.items():
        into.put("ctctl_flush_holds_total", number, trigger, reason)
    for strategy, seconds in tallies.flush_seconds.items():
        into.put_histogram("ctctl_flush_duration_seconds", seconds, strategy)
    for strategy, estimated_s in snapshot.flush_estimated_s.items():
        into.put("ctctl_flush_estimated_seconds", estimated_s, strategy)
    for trigger, seconds in tallies.reaction_seconds.items():
        into.put_histogram("ctctl_flush_reaction_seconds", seconds, trigger)
    for trigger, number in tallies.entries_deleted.items():
        into.put("ctctl_flush_entries_deleted_total", number, trigger)
    into.put("ctctl_flush_entries_already_gone_total", tallies.entries_already_gone)
    into.put("ctctl_flush_pending", snapshot.pending)
    oldest = snapshot.oldest_pending
    into.put("ctctl_flush_oldest_pending_seconds", 0 if oldest is None else max(0.0, now.since(oldest)))
    into.put("ctctl_flush_in_progress", snapshot.is_flush_in_progress)


def collect_routers(snapshot: Snapshot, now: Instant, into: Families) -> None:  # noqa: ARG001 one shape for all parts
    """Fill in the families of `Subject.ROUTERS`."""
    tallies = snapshot.tallies
    if any(s.database is not OvnDatabase.LOCAL and s.confirmed is not None for s in snapshot.databases):
        into.put("ctctl_logical_routers", snapshot.routers.known, "known")
    into.put("ctctl_logical_routers", snapshot.routers.local, "local")
    into.put("ctctl_logical_routers", snapshot.routers.pending, "pending")
    if tallies.router_zone_ready is not None:
        into.put_histogram("ctctl_router_zone_ready_seconds", tallies.router_zone_ready)
    into.put_histogram("ctctl_router_created_to_ready_seconds", tallies.router_created_to_ready)
    for change, number in tallies.router_events.items():
        into.put("ctctl_router_events_total", number, change)
