"""What the OVN databases say: datapaths, and which of them are logical routers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ctctl.model.ids import RouterId
from ctctl.model.instant import Instant


class OvnDatabase(StrEnum):
    """The databases ctctl reads, by the label used in metrics and logs."""

    LOCAL = "Open_vSwitch"
    SOUTHBOUND = "OVN_Southbound"
    NORTHBOUND = "OVN_Northbound"


class DatapathKind(StrEnum):
    """What a Southbound Datapath_Binding stands for."""

    ROUTER = "router"
    SWITCH = "switch"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Datapath:
    """One Southbound Datapath_Binding.

    `uuid`: its row UUID (the key stem up to OVN 23.06.0). `name`: `external_ids:name` (the key stem after).
    `nb_uuid`: `logical-router` or `logical-switch`, "" when neither is there. `snat_ct_zone`: the number a router
    asks for, None when none; 0 is a legal request.
    """

    uuid: str
    kind: DatapathKind
    name: str
    nb_uuid: str
    alias: str = ""
    snat_ct_zone: int | None = None
    ct_zone_limit: int | None = None


@dataclass(frozen=True, slots=True)
class LogicalRouter:
    """One Northbound Logical_Router row."""

    router: RouterId
    name: str
    alias: str = ""


@dataclass(frozen=True, slots=True)
class OvnView:
    """The whole state read from one OVN database at one moment.

    `routers`: in a Northbound view the Logical_Router rows, in a Southbound one those its datapaths stand for.
    `datapaths`: Southbound only. `session`: grows by one with each (re)connection or rebuilt replica, so that
    "new row" can be told from "row seen again".
    """

    database: OvnDatabase
    confirmed: Instant
    session: int
    routers: tuple[LogicalRouter, ...]
    datapaths: tuple[Datapath, ...] = ()
