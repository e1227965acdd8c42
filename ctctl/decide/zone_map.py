"""Who owns which zone: `ct-zone-` keys of the local database, resolved against the OVN datapaths.

Keys come in two generations: `<datapath uuid>_dnat` up to OVN 23.06.0, `<name>_dnat` since; both may be present
during an upgrade. Neither form is unambiguous (a port may be called `x_snat`, a switch and a router may share a
name), so a zone whose owner is not certain is a conflict, and a conflict is never flushed automatically.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from ctctl.model.ids import HOST_ZONE, MAX_ZONE, RouterId, ZoneId
from ctctl.model.ovn import Datapath, DatapathKind
from ctctl.model.ovs import LocalView
from ctctl.model.zone import MalformedKey, Zone, ZoneKind, ZoneMap

_KINDS: Final[Mapping[tuple[DatapathKind, str], ZoneKind]] = {
    (DatapathKind.ROUTER, "_dnat"): ZoneKind.ROUTER_DNAT,
    (DatapathKind.ROUTER, "_snat"): ZoneKind.ROUTER_SNAT,
    (DatapathKind.SWITCH, "_dnat"): ZoneKind.SWITCH_DNAT,
    (DatapathKind.SWITCH, "_snat"): ZoneKind.SWITCH_SNAT,
    (DatapathKind.UNKNOWN, "_dnat"): ZoneKind.UNKNOWN_DNAT,
    (DatapathKind.UNKNOWN, "_snat"): ZoneKind.UNKNOWN_SNAT,
}
_SUFFIXES: Final = ("_dnat", "_snat")


def resolve(
    local: LocalView, datapaths: Iterable[Datapath] | None, former_names: Mapping[str, frozenset[str]] | None = None
) -> ZoneMap:
    """The zone map that `local`'s keys make, with owners from `datapaths` (None: no OVN database was read).

    `former_names`: names that datapaths had before, with their `nb_uuid`s: ovn-controller goes on using the key of
    the former name until it is restarted (seen with OVN 25.03).

    A key claimed by several datapaths and a zone claimed by several keys, on one bridge or on two, become
    `conflict`. Zone 0 is the host's whoever claims it. A value that is no zone number lands in `malformed`.
    """
    keys = {key for bridge in local.bridges for key in bridge.zone_keys}
    directory = None if datapaths is None else _Directory(datapaths, former_names or {}, keys)
    claims: dict[ZoneId, list[Zone]] = defaultdict(list)
    malformed = []
    for bridge in local.bridges:
        for key, value in bridge.zone_keys.items():
            number = parse_zone(value)
            if number is None:
                malformed.append(MalformedKey(key, value))
            else:
                zone = _owner(key, number, directory, local.local_ports)
                claims[number].append(replace(zone, bridge=bridge.name))
    zones = {number: _merge(number, claimants) for number, claimants in claims.items()}
    return ZoneMap(zones=zones, malformed=tuple(sorted(malformed, key=lambda m: m.key)))


def parse_zone(value: str) -> ZoneId | None:
    """The zone number that a key's value spells, None for anything but plain decimal digits in range."""
    if not (value.isascii() and value.isdigit()) or len(value) > len(str(MAX_ZONE)):
        return None
    number = int(value)
    return ZoneId(number) if number <= MAX_ZONE else None


def keys_claiming(local: LocalView, zone: ZoneId) -> tuple[str, ...]:
    """Every key of every bridge whose value is this zone; more than one means that the zone is shared."""
    digits = str(zone)
    return tuple(
        key
        for bridge in local.bridges
        for key, value in bridge.zone_keys.items()
        # The cheap test first: this runs right before a flush, over up to 65,535 keys.
        if value.endswith(digits) and parse_zone(value) == zone
    )


class _Directory:
    """Datapaths by the two stems that keys are made of."""

    def __init__(
        self, datapaths: Iterable[Datapath], former_names: Mapping[str, frozenset[str]], keys: set[str]
    ) -> None:
        self._by_stem: dict[str, list[Datapath]] = defaultdict(list)
        by_identity: dict[str, Datapath] = {}
        for datapath in datapaths:
            by_identity[datapath.nb_uuid] = datapath
            for stem in {datapath.uuid, datapath.name} - {""}:
                self._by_stem[stem].append(datapath)
        for name, identities in former_names.items():
            for datapath in (by_identity[i] for i in identities if i in by_identity):
                has_own_keys = any(stem + _SUFFIXES[0] in keys for stem in (datapath.uuid, datapath.name))
                if datapath.name != name and not has_own_keys:
                    self._by_stem[name].append(datapath)

    def candidates(self, stem: str) -> list[Datapath]:
        return self._by_stem.get(stem, [])


def _owner(key: str, number: ZoneId, directory: _Directory | None, local_ports: frozenset[str]) -> Zone:
    suffix = key[-5:]
    if suffix not in _SUFFIXES:
        return Zone(number, ZoneKind.PORT, owner=key, key=key)
    stem = key[:-5]
    candidates = [] if directory is None else directory.candidates(stem)
    is_local_port = key in local_ports
    if len(candidates) + is_local_port > 1:
        return Zone(number, ZoneKind.CONFLICT, key=key)
    if is_local_port:
        return Zone(number, ZoneKind.PORT, owner=key, key=key)
    if candidates:
        return _datapath_zone(key, number, suffix, candidates[0])
    return Zone(number, _KINDS[DatapathKind.UNKNOWN, suffix], owner=stem, key=key)


def _datapath_zone(key: str, number: ZoneId, suffix: str, datapath: Datapath) -> Zone:
    is_router = datapath.kind is DatapathKind.ROUTER and datapath.nb_uuid != ""
    return Zone(
        number,
        _KINDS[datapath.kind, suffix],
        owner=datapath.name or datapath.nb_uuid or datapath.uuid,
        key=key,
        alias=datapath.alias,
        router=RouterId(datapath.nb_uuid) if is_router else None,
        limit=datapath.ct_zone_limit,
    )


def _merge(number: ZoneId, claimants: list[Zone]) -> Zone:
    if number == HOST_ZONE:
        return Zone(HOST_ZONE, ZoneKind.HOST)
    if len(claimants) == 1:
        return claimants[0]
    return Zone(number, ZoneKind.CONFLICT)
