"""Rows of the Open_vSwitch database → `LocalView`: one reading for the monitor and the one-shot reader alike.

It finds out which bridges matter and how this chassis is set up. Zone keys stay text here: what they mean is decided
where they are compared with the OVN database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ctctl.model.ids import MAX_ZONE
from ctctl.model.instant import Instant
from ctctl.model.ovs import BridgeView, DatapathType, LocalView
from ctctl.wire.ovsdb import Row, Select, text_map_of, text_of

LOCAL_SELECTS: Final = (
    Select("Open_vSwitch", ("external_ids", "ovs_version")),
    Select("Bridge", ("name", "datapath_type", "external_ids")),
    Select("Interface", ("external_ids",)),
)
"""All that is read of the local database. The row of Bridge changes with every `ovn-nb-cfg`."""

DEFAULT_BRIDGE: Final = "br-int"
ZONE_KEY_PREFIX: Final = "ct-zone-"

# Keys that begin like a chassis' own `ovn-bridge-<chassis>` but are other settings (ovn-controller(8)).
_NOT_A_BRIDGE: Final = ("ovn-bridge-mappings", "ovn-bridge-datapath-type", "ovn-bridge-remote")
_REMOTE: Final = re.compile(r"(unix|tcp|ssl):.")
_RANGE: Final = re.compile(r"\s*(\d{1,5})\s*-\s*(\d{1,5})\s*")
_DATAPATH_TYPES: Final = {
    "": DatapathType.KERNEL,
    "system": DatapathType.KERNEL,
    "netdev": DatapathType.USERSPACE,
}


def local_view(
    tables: Mapping[str, Sequence[Row]], *, bridge: str | None, confirmed: Instant, session: int
) -> LocalView:
    """The local database's state from the rows of `LOCAL_SELECTS`.

    `bridge`: the integration bridge as configured, None to take it from the database. It comes first in
    `LocalView.bridges`, the others follow by name.
    `notes` carries what explains the state: `hostname`, `ovn-monitor-all`, and each setting that could not be read.
    """
    settings, ovs_version = _global_settings(tables.get("Open_vSwitch", ()))
    chassis = settings.get("system-id") or None
    main_bridge = bridge or _own(settings, "ovn-bridge", chassis) or DEFAULT_BRIDGE
    integration = {main_bridge} if bridge else {main_bridge, *_bridges_of_all_chassis(settings)}
    views = [view for row in tables.get("Bridge", ()) if (view := _bridge_view(row, integration)) is not None]
    views.sort(key=lambda view: (view.name != main_bridge, view.name))
    ranges, unreadable = _zone_ranges(settings)
    return LocalView(
        confirmed=confirmed,
        session=session,
        bridges=tuple(views),
        local_ports=frozenset(_local_ports(tables.get("Interface", ()))),
        chassis=chassis,
        ovn_remote=_southbound_remote(settings, chassis),
        ovs_version=ovs_version or None,
        zone_ranges=ranges,
        notes=_notes(settings, chassis) | unreadable,
    )


def _global_settings(rows: Sequence[Row]) -> tuple[Mapping[str, str], str]:
    """`external_ids` and `ovs_version` of the one row of Open_vSwitch; both empty while the database has none."""
    for row in rows:
        return text_map_of(row.get("external_ids")), text_of(row.get("ovs_version"))
    return {}, ""


def _own(settings: Mapping[str, str], key: str, chassis: str | None) -> str:
    """A setting as ovn-controller reads it: the chassis' own before the general one; "" when there is neither."""
    own = settings.get(f"{key}-{chassis}") if chassis else None
    return own or settings.get(key) or ""


def _bridges_of_all_chassis(settings: Mapping[str, str]) -> Iterator[str]:
    """The integration bridges of other ovn-controllers on this host, which its settings name."""
    for key, value in settings.items():
        if key == "ovn-bridge" or (key.startswith("ovn-bridge-") and not key.startswith(_NOT_A_BRIDGE)):
            yield value


def _bridge_view(row: Row, integration: set[str]) -> BridgeView | None:
    """The bridge, if it is an integration bridge by name or holds a zone key."""
    name = text_of(row.get("name"))
    keys = text_map_of(row.get("external_ids"))
    start = len(ZONE_KEY_PREFIX)
    zone_keys = {key[start:]: value for key, value in keys.items() if key.startswith(ZONE_KEY_PREFIX)}
    if not zone_keys and name not in integration:
        return None
    datapath_type = _DATAPATH_TYPES.get(text_of(row.get("datapath_type")), DatapathType.UNKNOWN)
    return BridgeView(name=name, datapath_type=datapath_type, zone_keys=zone_keys)


def _local_ports(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        port = text_map_of(row.get("external_ids")).get("iface-id")
        if port:
            yield port


def _southbound_remote(settings: Mapping[str, str], chassis: str | None) -> str | None:
    """`ovn-remote` as this host's ovn-controller reads it, or the only one that any chassis' own setting names."""
    remote = _own(settings, "ovn-remote", chassis)
    if remote:
        return remote
    # `ovn-remote-probe-interval` and its like begin the same way, but are no addresses.
    others = {value for key, value in settings.items() if key.startswith("ovn-remote-") and _REMOTE.match(value)}
    return others.pop() if len(others) == 1 else None


def _zone_ranges(settings: Mapping[str, str]) -> tuple[tuple[tuple[int, int], ...], dict[str, str]]:
    """Every `ct-zone-range…` that is set (first, last), ascending, and a note for each that is no range."""
    ranges: set[tuple[int, int]] = set()
    unreadable: dict[str, str] = {}
    for key, value in settings.items():
        if key != "ct-zone-range" and not key.startswith("ct-zone-range-"):
            continue
        match = _RANGE.fullmatch(value)
        first, last = (int(match[1]), int(match[2])) if match else (0, 0)
        if 1 <= first <= last <= MAX_ZONE:
            ranges.add((first, last))
        else:
            unreadable[key] = f"unreadable: {value!r} is not FIRST-LAST within 1-{MAX_ZONE}"
    return tuple(sorted(ranges)), unreadable


def _notes(settings: Mapping[str, str], chassis: str | None) -> dict[str, str]:
    found = {key: _own(settings, key, chassis) for key in ("hostname", "ovn-monitor-all")}
    return {key: value for key, value in found.items() if value}
