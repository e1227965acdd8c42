"""Conntrack zones of this chassis and who owns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ctctl.model.ids import RouterId, ZoneId


class ZoneKind(StrEnum):
    """What a zone belongs to. `conflict`: more than one owner claims it, so it has none that can be named."""

    ROUTER_DNAT = "router_dnat"
    ROUTER_SNAT = "router_snat"
    SWITCH_DNAT = "switch_dnat"
    SWITCH_SNAT = "switch_snat"
    UNKNOWN_DNAT = "unknown_dnat"
    UNKNOWN_SNAT = "unknown_snat"
    PORT = "port"
    HOST = "host"
    FOREIGN = "foreign"
    OWNERLESS = "ownerless"
    CONFLICT = "conflict"

    @property
    def is_router(self) -> bool:
        """Claims that the zone is known to be a logical router's own."""
        return self in (ZoneKind.ROUTER_DNAT, ZoneKind.ROUTER_SNAT)


@dataclass(frozen=True, slots=True)
class Zone:
    """One zone and its owner.

    `owner`: logical router, switch or port name ("" for conflict, ownerless, foreign and host zones); `key`: the
    `ct-zone-` key that assigns it, without prefix, None when no single key does; `alias`: `name2` of the Southbound
    datapath; `bridge`: the one whose key it is; `router`: set exactly for router zones; `limit`: its entry limit
    where one is set, 0 = unlimited.
    """

    zone: ZoneId
    kind: ZoneKind
    owner: str = ""
    key: str | None = None
    alias: str = ""
    bridge: str | None = None
    router: RouterId | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class MalformedKey:
    """A `ct-zone-` key whose value is no zone number, shown to the operator and otherwise ignored."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class ZoneMap:
    """Every zone that a key assigns on this host, resolved against the OVN database.

    A zone claimed by several keys, or by a key that several datapaths share, is of kind `conflict`.
    """

    zones: Mapping[ZoneId, Zone] = field(default_factory=dict)
    malformed: tuple[MalformedKey, ...] = ()

    def zones_of(self, router: RouterId) -> tuple[Zone, ...]:
        """The router's unshared zones on this chassis, ascending by number."""
        return tuple(z for _, z in sorted(self.zones.items()) if z.router == router)
