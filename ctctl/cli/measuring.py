"""`ctctl doctor --measure`: what flushing one zone really costs here, by flushing one that is nobody's and empty."""

from __future__ import annotations

from pathlib import Path

from ctctl.agent.allocations import claimed_in_memory
from ctctl.backends.kernel import KernelDeleter
from ctctl.cli.examination import Check, Host, State
from ctctl.clients import clock, state_files
from ctctl.clients.flusher_lock import FlusherLock
from ctctl.decide.zone_map import parse_zone
from ctctl.model.counts import CountPass
from ctctl.model.flush import FlushResult, Switch
from ctctl.model.ids import MAX_ZONE, FlushableZoneId, flushable_zone_id
from ctctl.model.ovs import LocalView

NAME = "measured flush"


def measure(host: Host) -> Check:
    """Flush the highest free zone number of OVN's range once, and say how long it took.

    `host`: as `examine` left it, with the map and a count of this very moment. Nothing is sent if the zone is in use by
    anybody, if the switch is not `enforce`, or if another flusher runs here.
    """
    if host.settings.flush.switch is not Switch.ENFORCE:
        return Check(NAME, State.UNKNOWN, f"flush.switch is {host.settings.flush.switch}: nothing is sent")
    if host.local is None or host.count is None or not host.has_filter:
        return Check(NAME, State.UNKNOWN, "needs a zone map, a count and a kernel that flushes one zone by itself")
    if state_files.is_paused(Path(host.settings.state.dir)):
        return Check(NAME, State.UNKNOWN, "paused by `ctctl pause`: nothing is sent")
    zone = free_zone(host.local, host.count)
    if zone is None:
        return Check(NAME, State.UNKNOWN, "every zone number of OVN's range is in use")
    claim = claimed_in_memory(Path(host.settings.ovn.rundir), zone)
    if claim is not None:
        return Check(NAME, State.UNKNOWN, f"zone {zone}: {claim.why}")
    return _flush(zone, host.count)


def _flush(zone: FlushableZoneId, count: CountPass) -> Check:
    lock = FlusherLock()
    try:
        if not lock.acquire():
            found = "an agent is the flusher here; its own flushes are in ctctl_flush_duration_seconds"
            return Check(NAME, State.UNKNOWN, found)
        outcome = KernelDeleter(clock.now).flush_zone(zone)
    finally:
        lock.release()
    if not isinstance(outcome, FlushResult):
        return Check(NAME, State.BAD, f"zone {zone}: {outcome}")
    found = f"flushing zone {zone}, which is free and empty, took {1000 * outcome.duration_s:.2f} ms"
    return Check(NAME, State.GOOD, f"{found} in a table of {count.entries} entries, by {outcome.strategy}")


def free_zone(local: LocalView, count: CountPass) -> FlushableZoneId | None:
    """The highest number of OVN's range that no key assigns and that holds no entry, None without one."""
    used = {parse_zone(value) for bridge in local.bridges for value in bridge.zone_keys.values()}
    ranges = local.zone_ranges or ((1, MAX_ZONE),)
    for first, last in sorted(ranges, reverse=True):
        for number in range(min(last, MAX_ZONE), max(1, first) - 1, -1):
            zone = flushable_zone_id(number)
            if zone not in used and count.entries_in(zone) == 0:
                return zone
    return None
