"""What is wrong with this node, worst first: one line each of what it means and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from ctctl.metrics.collect_stalls import stall_s
from ctctl.metrics.page import wording
from ctctl.model.capability import Capability
from ctctl.model.flush import Switch
from ctctl.model.instant import Instant
from ctctl.model.snapshot import Snapshot
from ctctl.model.zone import ZoneKind

STALL_WORTH_SAYING_S = 1.0
"""The length from which vswitchd itself calls a stall one."""


class Severity(IntEnum):
    """How bad: `PROBLEM` needs somebody, `NOTICE` should be known."""

    PROBLEM = 2
    NOTICE = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. `what`: a short claim. `why`: details and the remedy, "" when there is nothing to add."""

    severity: Severity
    what: str
    why: str = ""


def problems(snapshot: Snapshot, table_error: str, now: Instant) -> tuple[Problem, ...]:
    """Everything worth an operator's eye. `table_error`: why the table's size cannot be read, "" when it can."""
    found = [
        *_of_daemons(snapshot, now),
        *_of_sources(snapshot, table_error, now),
        *_of_zones(snapshot),
        *_of_flushing(snapshot, now),
        *_of_set_up(snapshot),
    ]
    return tuple(sorted(found, key=lambda problem: -problem.severity))


def _of_daemons(snapshot: Snapshot, now: Instant) -> Iterator[Problem]:
    for view in snapshot.daemons:
        waiting_s = stall_s(view, now)
        if not view.is_up:
            yield Problem(Severity.PROBLEM, f"{view.daemon} is not reachable", view.why_down)
        elif waiting_s >= STALL_WORTH_SAYING_S:
            yield Problem(
                Severity.PROBLEM,
                f"{view.daemon} has not answered for {wording.seconds(waiting_s)}",
                "its main loop stands still; new routers, ports and failovers wait for it",
            )


def _of_sources(snapshot: Snapshot, table_error: str, now: Instant) -> Iterator[Problem]:
    if not snapshot.is_ready:
        yield Problem(Severity.PROBLEM, "ctctl is not ready", snapshot.why_not_ready)
    if table_error:
        yield Problem(Severity.PROBLEM, "The conntrack table cannot be read", table_error)
    for state in snapshot.databases:
        if state.is_configured and not state.is_connected:
            yield Problem(Severity.PROBLEM, f"{state.database} is not connected", state.why_lost)
    if snapshot.count_failing_since is not None:
        failing_s = now.since(snapshot.count_failing_since)
        yield Problem(Severity.PROBLEM, f"Counting has failed for {wording.seconds(max(0.0, failing_s))}")


def _of_zones(snapshot: Snapshot) -> Iterator[Problem]:
    conflicts = [str(zone.zone) for zone in snapshot.zones if zone.kind is ZoneKind.CONFLICT]
    if conflicts:
        yield Problem(
            Severity.NOTICE,
            f"{_several(len(conflicts), 'zone is', 'zones are')} claimed by several owners",
            f"never flushed automatically: {_some(conflicts)}",
        )
    ownerless = [
        str(zone.zone)
        for zone in snapshot.zones
        if zone.kind is ZoneKind.OWNERLESS and (snapshot.entries_in(zone.zone) or 0) > 0
    ]
    if ownerless:
        yield Problem(
            Severity.NOTICE,
            f"{_several(len(ownerless), 'zone', 'zones')} without owner still {_verb(len(ownerless), 'hold')} entries",
            f"a new owner would inherit them: {_some(ownerless)}",
        )
    if snapshot.stale_entries:
        yield Problem(
            Severity.PROBLEM,
            f"{wording.number(sum(snapshot.stale_entries.values()))} stale entries in "
            f"{_several(len(snapshot.stale_entries), 'zone', 'zones')}",
            f"older than the zone's present owner: {_some([str(zone) for zone in sorted(snapshot.stale_entries)])}",
        )
    if snapshot.malformed_keys:
        keys = [f"ct-zone-{bad.key}={bad.value!r}" for bad in snapshot.malformed_keys]
        yield Problem(
            Severity.NOTICE,
            f"{_several(len(keys), 'zone key is', 'zone keys are')} malformed",
            f"ignored: {_some(keys)}",
        )


def _of_flushing(snapshot: Snapshot, now: Instant) -> Iterator[Problem]:
    if snapshot.is_braked:
        yield Problem(
            Severity.PROBLEM,
            "The mass-change brake is on",
            "too many zones changed at once; automatic flushes are held until the map has been stable for 5 minutes",
        )
    if snapshot.is_paused:
        yield Problem(Severity.NOTICE, "Flushing is paused", "end it with: ctctl resume")
    if snapshot.switch is not Switch.ENFORCE:
        yield Problem(Severity.NOTICE, f"flush.switch is {snapshot.switch}", "nothing is deleted")
    elif not snapshot.is_flusher:
        yield Problem(
            Severity.NOTICE,
            "Another flusher holds the lock of this network namespace",
            "this agent only shows; see with: ctctl doctor",
        )
    if snapshot.oldest_pending is not None:
        waiting_s = max(0.0, now.since(snapshot.oldest_pending))
        longest = "for" if snapshot.pending == 1 else "the longest for"
        yield Problem(
            Severity.NOTICE,
            f"{_several(snapshot.pending, 'flush is', 'flushes are')} held, {longest} {wording.seconds(waiting_s)}",
            "why stands under What ctctl saw and did",
        )


def _of_set_up(snapshot: Snapshot) -> Iterator[Problem]:
    needed = (Capability.CONNTRACK, Capability.SAME_NETWORK_NAMESPACE)
    for probe in snapshot.probes:
        if probe.is_supported is False:
            severity = Severity.PROBLEM if probe.capability in needed else Severity.NOTICE
            yield Problem(severity, f"No {probe.capability.replace('_', ' ')}", probe.why)


def _several(how_many: int, one: str, more: str) -> str:
    return f"{how_many} {one if how_many == 1 else more}"


def _verb(how_many: int, verb: str) -> str:
    return f"{verb}s" if how_many == 1 else verb


def _some(names: list[str], at_most: int = 8) -> str:
    rest = len(names) - at_most
    return ", ".join(names[:at_most]) + (f" and {rest} more" if rest > 0 else "")
