"""What the local Open_vSwitch database says: the zone keys, and how this chassis is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ctctl.model.instant import Instant


class DatapathType(StrEnum):
    """Where connection tracking happens. In the database "" and "system" both mean the kernel."""

    KERNEL = "kernel"
    USERSPACE = "userspace"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BridgeView:
    """One integration bridge of one ovn-controller on this host.

    `zone_keys`: owner (the key without `ct-zone-`) → value, both as text, unparsed: the value may be anything.
    """

    name: str
    datapath_type: DatapathType
    zone_keys: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LocalView:
    """The whole state read from the local database at one moment.

    `bridges`: every bridge that holds `ct-zone-` keys or is an integration bridge by name (several chassis may
    share a host). `local_ports`: `iface-id` of every local interface. `ovn_remote`: the Southbound address as
    configured, None when absent. `zone_ranges`: `ct-zone-range…` values (first, last), empty when none is set.
    `session`: grows by one with each (re)connection, so that a consumer can tell a change from a new start.
    """

    confirmed: Instant
    session: int
    bridges: tuple[BridgeView, ...]
    local_ports: frozenset[str] = frozenset()
    chassis: str | None = None
    ovn_remote: str | None = None
    ovs_version: str | None = None
    zone_ranges: tuple[tuple[int, int], ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
