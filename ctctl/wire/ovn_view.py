"""Rows of the OVN databases → `OvnView`, for every generation of their schemas.

Southbound: Datapath_Binding says in `external_ids` what a datapath stands for, and from OVN 25.09 also in columns of
its own. Northbound: Logical_Router. Nothing is resolved or matched with zone keys here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ctctl.model.ids import RouterId
from ctctl.model.instant import Instant
from ctctl.model.ovn import Datapath, DatapathKind, LogicalRouter, OvnDatabase, OvnView
from ctctl.wire.ovsdb import Row, Select, text_map_of, text_of

SOUTHBOUND_SELECTS: Final = (Select("Datapath_Binding", ("external_ids",)),)
SOUTHBOUND_OPTIONAL: Final = {"Datapath_Binding": ("type", "nb_uuid")}
"""Columns that only newer schemas have (OVN 25.09)."""

NORTHBOUND_SELECTS: Final = (Select("Logical_Router", ("name", "external_ids")),)

_KINDS: Final = {"logical-router": DatapathKind.ROUTER, "logical-switch": DatapathKind.SWITCH}
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_NO_UUID: Final = "00000000-0000-0000-0000-000000000000"


class SouthboundViews:
    """Builds Southbound views one after the other, and remembers what it made of each row.

    Of ten thousand datapaths one changes at a time; a row that comes again as the same object is not read again.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Row, Datapath, LogicalRouter | None]] = {}

    def view(self, tables: Mapping[str, Sequence[Row]], *, confirmed: Instant, session: int) -> OvnView:
        """The state from the rows of `SOUTHBOUND_SELECTS`, each with its `_uuid`, sorted so that views compare.

        A router appears once, even where two datapaths claim to be the same router (both are in `datapaths`).
        """
        # Keeping the row beside what was made of it keeps its id() from being given to another.
        self._known = {id(row): self._known.get(id(row)) or _read(row) for row in tables.get("Datapath_Binding", ())}
        routers = {router.router: router for _, _, router in self._known.values() if router is not None}
        return OvnView(
            database=OvnDatabase.SOUTHBOUND,
            confirmed=confirmed,
            session=session,
            routers=_sorted(routers.values()),
            datapaths=tuple(sorted((datapath for _, datapath, _ in self._known.values()), key=lambda dp: dp.uuid)),
        )


def southbound_view(tables: Mapping[str, Sequence[Row]], *, confirmed: Instant, session: int) -> OvnView:
    """One Southbound view on its own, as `SouthboundViews` builds it."""
    return SouthboundViews().view(tables, confirmed=confirmed, session=session)


def northbound_view(tables: Mapping[str, Sequence[Row]], *, confirmed: Instant, session: int) -> OvnView:
    """The Northbound state from the rows of `NORTHBOUND_SELECTS`, each with its `_uuid`, sorted so that views compare.

    A disabled router is still a router: it only has no datapath.
    """
    return OvnView(
        database=OvnDatabase.NORTHBOUND,
        confirmed=confirmed,
        session=session,
        routers=_sorted(_logical_routers(tables.get("Logical_Router", ()))),
    )


def _sorted(routers: Iterable[LogicalRouter]) -> tuple[LogicalRouter, ...]:
    return tuple(sorted(routers, key=lambda router: router.router))


def _logical_routers(rows: Iterable[Row]) -> Iterator[LogicalRouter]:
    for row in rows:
        # northd gives this key to the datapath as `name2`.
        alias = text_map_of(row.get("external_ids")).get("neutron:router_name", "")
        yield LogicalRouter(router=RouterId(text_of(row.get("_uuid"))), name=text_of(row.get("name")), alias=alias)


def _read(row: Row) -> tuple[Row, Datapath, LogicalRouter | None]:
    datapath = _datapath(row)
    if datapath.kind is not DatapathKind.ROUTER or not datapath.nb_uuid:
        return row, datapath, None
    return row, datapath, LogicalRouter(RouterId(datapath.nb_uuid), datapath.name, datapath.alias)


def _datapath(row: Row) -> Datapath:
    ids = text_map_of(row.get("external_ids"))
    kind, nb_uuid = _stands_for(ids, text_of(row.get("type")), text_of(row.get("nb_uuid")))
    return Datapath(
        uuid=text_of(row.get("_uuid")),
        kind=kind,
        name=ids.get("name", ""),
        nb_uuid=nb_uuid,
        alias=ids.get("name2", ""),
        snat_ct_zone=_number(ids.get("snat-ct-zone")),
        ct_zone_limit=_number(ids.get("ct-zone-limit")),
    )


def _stands_for(ids: Mapping[str, str], type_column: str, nb_uuid_column: str) -> tuple[DatapathKind, str]:
    """What the datapath is, and of which Northbound row: the columns where they are filled, else `external_ids`."""
    own_uuid = "" if nb_uuid_column == _NO_UUID else nb_uuid_column
    kind = _KINDS.get(type_column)
    if kind is not None:
        return kind, own_uuid or ids.get(type_column, "")
    for key, named_kind in _KINDS.items():
        if key in ids:
            return named_kind, own_uuid or ids[key]
    return DatapathKind.UNKNOWN, own_uuid


def _number(text: str | None) -> int | None:
    """A number as OVN writes it; None where there is none, or something else stands in its place."""
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None
