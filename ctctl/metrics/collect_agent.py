"""The agent's own state as families: switch, lock, brake, capabilities, databases, what it watches."""

from __future__ import annotations

from ctctl.metrics.families import Families
from ctctl.model.flush import Switch
from ctctl.model.instant import Instant
from ctctl.model.ovn import OvnDatabase
from ctctl.model.snapshot import Snapshot


def collect_agent(snapshot: Snapshot, now: Instant, into: Families) -> None:  # noqa: ARG001 one shape for all parts
    """Fill in the families of `Subject.AGENT`."""
    for probe in snapshot.probes:
        if probe.is_supported is not None:
            into.put("ctctl_capability_supported", probe.is_supported, probe.capability)
    for switch in Switch:
        into.put("ctctl_flush_switch", switch is snapshot.switch, switch)
    into.put("ctctl_flusher_lock_held", snapshot.is_flusher)
    into.put("ctctl_flush_paused", snapshot.is_paused)
    into.put("ctctl_mass_change_brake", snapshot.is_braked)
    target = snapshot.target
    into.put(
        "ctctl_target_info",
        1,
        target.kernel_release,
        target.ovs_version,
        target.ovn_version,
        target.datapath_type,
        target.chassis,
    )
    for state in snapshot.databases:
        if state.is_configured:
            into.put("ctctl_ovsdb_connected", state.is_connected, state.database)
            into.put("ctctl_ovsdb_reconnects_total", state.reconnects, state.database)
        if state.database is OvnDatabase.LOCAL and state.confirmed is not None:
            into.put("ctctl_zone_map_confirmed_timestamp_seconds", state.confirmed.wall_s)
    into.put("ctctl_zone_map_malformed_keys", len(snapshot.malformed_keys))
