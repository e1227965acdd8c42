"""One conntrack entry out of a dump or look-up, decoded whole."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from ctctl.model.conntrack import EntryKey, Sighting
from ctctl.model.ids import HOST_ZONE, ZoneId, flushable_zone_id
from ctctl.model.instant import Instant
from ctctl.wire import netlink
from ctctl.wire.conntrack import (
    AF_INET,
    AF_INET6,
    CTA_ID,
    CTA_PROTOINFO,
    CTA_STATUS,
    CTA_TIMEOUT,
    CTA_TIMESTAMP,
    CTA_TUPLE_IP,
    CTA_TUPLE_ORIG,
    CTA_TUPLE_PROTO,
    CTA_TUPLE_REPLY,
    CTA_TUPLE_ZONE,
    CTA_ZONE,
    STATUS_ASSURED,
    STATUS_HW_OFFLOAD,
    STATUS_OFFLOAD,
    u16,
    u32,
)
from ctctl.wire.netlink import MalformedMessageError

CTA_PROTO_NUM: Final = 1
CTA_PROTOINFO_TCP: Final = 1
CTA_PROTOINFO_TCP_STATE: Final = 1
CTA_TIMESTAMP_START: Final = 1

_ADDRESS_TYPES: Final = {AF_INET: (1, 2), AF_INET6: (3, 4)}
"""CTA_IP_V4_SRC and _DST, CTA_IP_V6_SRC and _DST, by family."""
_ADDRESS_BYTES: Final = {AF_INET: 4, AF_INET6: 16}
_U64: Final = struct.Struct("!Q")

PROTOCOL_NAMES: Final = {
    1: "icmp",
    2: "igmp",
    6: "tcp",
    17: "udp",
    33: "dccp",
    47: "gre",
    50: "esp",
    58: "icmpv6",
    132: "sctp",
    136: "udplite",
}
TCP_STATE_NAMES: Final = (
    "none",
    "syn_sent",
    "syn_recv",
    "established",
    "fin_wait",
    "close_wait",
    "last_ack",
    "time_wait",
    "close",
    "syn_sent2",
)
"""By number, enum tcp_conntrack."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as the kernel reported it.

    `family`: AF_INET or AF_INET6. `tuple_orig`: payload of CTA_TUPLE_ORIG without a zone of its own, so that it can be
    sent back beside CTA_ZONE (the kernel refuses both at once). `is_zoned_by_reply`: the zone holds for the reply
    direction only, so `tuple_orig` does not find the entry in it. `addresses`: source and destination, original and
    reply, packed. `timeout_s`: whole seconds left, None for an offloaded entry. `started_wall_s`: Unix time, None where
    `nf_conntrack_timestamp` is off. `tcp_state`: enum tcp_conntrack, None where the kernel gives none.
    """

    family: int
    zone: ZoneId
    tuple_orig: bytes
    entry_id: int
    addresses: frozenset[bytes]
    protocol: int
    status: int
    is_zoned_by_reply: bool = False
    timeout_s: int | None = None
    started_wall_s: float | None = None
    tcp_state: int | None = None

    @property
    def is_assured(self) -> bool:
        """Claims that traffic went both ways, so that the kernel does not drop it early."""
        return bool(self.status & STATUS_ASSURED)

    @property
    def is_offloaded(self) -> bool:
        """Claims that a flow table carries its packets; then it has neither timeout nor TCP state."""
        return bool(self.status & (STATUS_OFFLOAD | STATUS_HW_OFFLOAD))

    def key(self) -> EntryKey:
        """What names the entry in a delete.

        Raises:
            InvalidZoneError: it is in zone 0, which is never deleted from.
        """
        return EntryKey(flushable_zone_id(self.zone), self.family, self.tuple_orig, self.entry_id)

    def sighting(self, seen: Instant) -> Sighting:
        """The entry as something to recognise later; `seen` is when its bytes were received."""
        expires = None if self.timeout_s is None else seen.boot_s + self.timeout_s
        return Sighting(self.zone, self.family, self.tuple_orig, self.entry_id, expires, self.started_wall_s)


def entry(payload: netlink.Bytes) -> Entry:
    """Decode the payload of one CT_NEW message.

    Raises:
        MalformedMessageError: it is cut short, or lacks tuples or id, which every kernel sends.
    """
    if len(payload) < netlink.GENERIC.size:
        raise MalformedMessageError("conntrack entry without nfnetlink header")
    family, _, _ = netlink.GENERIC.unpack_from(payload)
    values = netlink.by_type(payload, netlink.GENERIC.size)
    if not {CTA_TUPLE_ORIG, CTA_TUPLE_REPLY, CTA_ID} <= values.keys():
        raise MalformedMessageError(f"conntrack entry with attributes {sorted(values)} lacks a tuple or its id")
    original = netlink.by_type(values[CTA_TUPLE_ORIG])
    reply = netlink.by_type(values[CTA_TUPLE_REPLY])
    zone, is_by_reply = _zone(values, original, reply)
    tuple_orig = values[CTA_TUPLE_ORIG]
    if CTA_TUPLE_ZONE in original:
        tuple_orig = b"".join(
            netlink.nested(kind, original[kind]) for kind in (CTA_TUPLE_IP, CTA_TUPLE_PROTO) if kind in original
        )
    return Entry(
        family=family,
        zone=zone,
        tuple_orig=tuple_orig,
        entry_id=u32(values[CTA_ID]),
        addresses=_addresses(family, original) | _addresses(family, reply),
        protocol=_protocol(original),
        status=u32(values[CTA_STATUS]) if CTA_STATUS in values else 0,
        is_zoned_by_reply=is_by_reply,
        timeout_s=u32(values[CTA_TIMEOUT]) if CTA_TIMEOUT in values else None,
        started_wall_s=_start(values.get(CTA_TIMESTAMP)),
        tcp_state=_tcp_state(values.get(CTA_PROTOINFO)),
    )


def _zone(values: dict[int, bytes], original: dict[int, bytes], reply: dict[int, bytes]) -> tuple[ZoneId, bool]:
    if CTA_ZONE in values:
        return ZoneId(u16(values[CTA_ZONE])), False
    if CTA_TUPLE_ZONE in original:
        return ZoneId(u16(original[CTA_TUPLE_ZONE])), False
    if CTA_TUPLE_ZONE in reply:
        return ZoneId(u16(reply[CTA_TUPLE_ZONE])), True
    return HOST_ZONE, False


def _addresses(family: int, parts: dict[int, bytes]) -> frozenset[bytes]:
    if family not in _ADDRESS_TYPES:
        raise MalformedMessageError(f"conntrack entry of address family {family}")
    if CTA_TUPLE_IP not in parts:
        raise MalformedMessageError("conntrack tuple without addresses")
    values = netlink.by_type(parts[CTA_TUPLE_IP])
    found = [values.get(kind, b"") for kind in _ADDRESS_TYPES[family]]
    if any(len(address) != _ADDRESS_BYTES[family] for address in found):
        raise MalformedMessageError(f"conntrack tuple without two addresses of family {family}")
    return frozenset(found)


def _protocol(parts: dict[int, bytes]) -> int:
    values = netlink.by_type(parts.get(CTA_TUPLE_PROTO, b""))
    number = values.get(CTA_PROTO_NUM, b"")
    if len(number) != 1:
        raise MalformedMessageError("conntrack tuple without layer-4 protocol number")
    return number[0]


def _start(value: bytes | None) -> float | None:
    start = netlink.by_type(value or b"").get(CTA_TIMESTAMP_START)
    if start is None:
        return None
    if len(start) != _U64.size:
        raise MalformedMessageError(f"start timestamp of {len(start)} bytes")
    nanoseconds: int = _U64.unpack(start)[0]
    return nanoseconds / 1e9


def _tcp_state(value: bytes | None) -> int | None:
    tcp = netlink.by_type(value or b"").get(CTA_PROTOINFO_TCP)
    state = netlink.by_type(tcp or b"").get(CTA_PROTOINFO_TCP_STATE)
    if state is None:
        return None
    if len(state) != 1:
        raise MalformedMessageError(f"TCP state of {len(state)} bytes")
    return state[0]
