"""Who owns which zone: `ct-zone-` keys of the local database, resolved against the OVN datapaths.

Keys come in two generations: `<datapath uuid>_dnat` up to OVN 23.06.0, `<name>_dnat` since; both may be present
during an upgrade. Neither form is unambiguous (a port may be called `x_snat`, a switch and a router may share a
name), so a zone whose owner is not certain is a conflict, and a conflict is never flushed automatically.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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


def resolve(local: LocalView, datapaths: Iterable[Datapath] | None) -> ZoneMap:
    """The zone map that `local`'s keys make, with owners from `datapaths` (None: no OVN database was read)."""
    return Resolver().resolve(local, None if datapaths is None else tuple(datapaths), {})


class Resolver:
    """Makes zone maps, each from the last: only keys whose value or candidate owners changed are looked at again.

    With tens of thousands of keys that is what keeps a flush within milliseconds of its key.
    """

    def __init__(self) -> None:
        self._directory: _Directory | None = None
        self._made_from: tuple[Datapath, ...] | None = None
        self._known: dict[tuple[str, str, str], tuple[Sequence[Datapath], bool, Zone]] = {}

    def resolve(
        self,
        local: LocalView,
        datapaths: tuple[Datapath, ...] | None,
        former_names: Mapping[str, frozenset[str]],
    ) -> ZoneMap:
        """The zone map that `local`'s keys make, with owners from `datapaths` (None: no OVN database was read).

        `former_names`: names that datapaths had before, with their `nb_uuid`s: ovn-controller goes on using the key of
        the former name until it is restarted (seen with OVN 25.03).

        A key claimed by several datapaths and a zone claimed by several keys, on one bridge or on two, become
        `conflict`. Zone 0 is the host's whoever claims it. A value that is no zone number lands in `malformed`.
        """
        self._look_up_names(local, datapaths, former_names)
        known, self._known = self._known, {}
        zones: dict[ZoneId, Zone] = {}
        malformed = []
        for bridge in local.bridges:
            for key, value in bridge.zone_keys.items():
                place = (bridge.name, key, value)
                candidates = _NOBODY if self._directory is None else self._directory.candidates(key[:-5])
                is_local_port = key in local.local_ports
                former = known.get(place)
                if former is None or former[0] is not candidates or former[1] is not is_local_port:
                    number = parse_zone(value)
                    if number is None:
                        malformed.append(MalformedKey(key, value))
                        continue
                    former = (candidates, is_local_port, _owner(place, number, candidates, is_local_port))
                self._known[place] = former
                _claim(zones, former[2])
        return ZoneMap(zones=zones, malformed=tuple(sorted(malformed, key=lambda m: m.key)))

    def _look_up_names(
        self,
        local: LocalView,
        datapaths: tuple[Datapath, ...] | None,
        former_names: Mapping[str, frozenset[str]],
    ) -> None:
        if datapaths is None:
            self._directory = None
        elif datapaths is not self._made_from or former_names or self._directory is None:
            keys = {key for bridge in local.bridges for key in bridge.zone_keys} if former_names else set()
            self._directory = _Directory(datapaths, former_names, keys, self._directory)
        self._made_from = datapaths


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
    """Datapaths by the stems that keys are made of. Takes the lists that have not changed over from `former`, so that
    whoever holds one can tell by identity that it is still right.
    """

    def __init__(
        self,
        datapaths: Iterable[Datapath],
        former_names: Mapping[str, frozenset[str]],
        keys: set[str],
        former: _Directory | None,
    ) -> None:
        by_stem: dict[str, list[Datapath]] = defaultdict(list)
        by_identity: dict[str, Datapath] = {}
        for datapath in datapaths:
            by_identity[datapath.nb_uuid] = datapath
            for stem in {datapath.uuid, datapath.name} - {""}:
                by_stem[stem].append(datapath)
        for name, identities in former_names.items():
            for datapath in (by_identity[i] for i in identities if i in by_identity):
                has_own_keys = any(stem + _SUFFIXES[0] in keys for stem in (datapath.uuid, datapath.name))
                if datapath.name != name and not has_own_keys:
                    by_stem[name].append(datapath)
        self._by_stem: dict[str, Sequence[Datapath]] = {}
        for stem, found in by_stem.items():
            before = _NOBODY if former is None else former.candidates(stem)
            self._by_stem[stem] = before if before == found else found

    def candidates(self, stem: str) -> Sequence[Datapath]:
        return self._by_stem.get(stem, _NOBODY)


_NOBODY: Final[Sequence[Datapath]] = []


def _owner(place: tuple[str, str, str], number: ZoneId, candidates: Sequence[Datapath], is_local_port: bool) -> Zone:
    bridge, key, _ = place
    suffix = key[-5:]
    if suffix not in _SUFFIXES:
        return Zone(number, ZoneKind.PORT, owner=key, key=key, bridge=bridge)
    if len(candidates) + is_local_port > 1:
        return Zone(number, ZoneKind.CONFLICT, key=key, bridge=bridge)
    if is_local_port:
        return Zone(number, ZoneKind.PORT, owner=key, key=key, bridge=bridge)
    if not candidates:
        return Zone(number, _KINDS[DatapathKind.UNKNOWN, suffix], owner=key[:-5], key=key, bridge=bridge)
    datapath = candidates[0]
    is_router = datapath.kind is DatapathKind.ROUTER and datapath.nb_uuid != ""
    return Zone(
        number,
        _KINDS[datapath.kind, suffix],
        owner=datapath.name or datapath.nb_uuid or datapath.uuid,
        key=key,
        alias=datapath.alias,
        bridge=bridge,
        router=RouterId(datapath.nb_uuid) if is_router else None,
        limit=datapath.ct_zone_limit,
    )


def _claim(zones: dict[ZoneId, Zone], claim: Zone) -> None:
    number = claim.zone
    if number == HOST_ZONE:
        zones[number] = Zone(HOST_ZONE, ZoneKind.HOST)
    elif number in zones:
        zones[number] = Zone(number, ZoneKind.CONFLICT)
    else:
        zones[number] = claim
