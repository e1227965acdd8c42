"""Daemons and their stalls as families. The age of an open probe is computed at the scrape, not at publication."""

from __future__ import annotations

from ctctl.metrics.families import Families
from ctctl.model.daemon import DaemonView
from ctctl.model.instant import Instant
from ctctl.model.snapshot import Snapshot
from ctctl.model.stalls import StallTallies


def stall_s(view: DaemonView, now: Instant) -> float:
    """Seconds the open probe of a daemon has been unanswered, 0 when none is open."""
    return 0.0 if view.unanswered_since is None else max(0.0, now.since(view.unanswered_since))


def collect_stalls(snapshot: Snapshot, now: Instant, into: Families) -> None:
    """Fill in the families of `Subject.STALLS`."""
    for view in snapshot.daemons:
        into.put("ctctl_daemon_up", view.is_up, view.daemon)
        into.put("ctctl_main_loop_stall_seconds", stall_s(view, now), view.daemon)
    for daemon, seconds in snapshot.tallies.probe_seconds.items():
        into.put_histogram("ctctl_main_loop_probe_duration_seconds", seconds, daemon)
    stalls = snapshot.tallies.stalls
    for (daemon, thread), number in stalls.episodes.items():
        into.put("ctctl_stall_episodes_total", number, daemon, thread)
    for thread, seconds in stalls.rcu_stall_seconds.items():
        into.put_histogram("ctctl_rcu_stall_seconds", seconds, thread)
    for (daemon, thread), seconds in stalls.long_poll_seconds.items():
        into.put_histogram("ctctl_long_poll_seconds", seconds, daemon, thread)
    for (daemon, mode), cpu_s in stalls.long_poll_cpu_s.items():
        into.put("ctctl_long_poll_cpu_seconds_total", cpu_s, daemon, mode)
    for daemon, number in stalls.coverage_long_poll_intervals.items():
        into.put("ctctl_coverage_long_poll_interval_total", number, daemon)
    if stalls.near_router_change is not None:
        into.put("ctctl_stalls_near_router_change_total", stalls.near_router_change)
    for path, predicted_s in stalls.predicted_router_stall_s.items():
        in_use = "true" if path is stalls.path_in_use else "false"
        into.put("ctctl_predicted_router_stall_seconds", predicted_s, path, in_use)
    _put_logs(stalls, into)


def _put_logs(stalls: StallTallies, into: Families) -> None:
    """How the daemons' logs are read."""
    for daemon, number in stalls.log_lines.items():
        into.put("ctctl_log_lines_total", number, daemon)
    for daemon, number in stalls.log_suppressed.items():
        into.put("ctctl_log_suppressed_lines_total", number, daemon)
    for daemon, number in stalls.log_skipped_bytes.items():
        into.put("ctctl_log_skipped_bytes_total", number, daemon)
    for daemon, read in stalls.log_read.items():
        into.put("ctctl_log_last_read_timestamp_seconds", read.wall_s, daemon)
