"""Conntrack entries as bytes, in the order and form in which the kernel writes them (`ctnetlink_fill_info`).

One builder serves two ends: what a fake kernel dumps, and what the real one is asked to create; the attributes are the
same. Written apart from `ctctl.wire` on purpose, since it judges it.
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

Protocol = Literal["tcp", "udp", "sctp", "icmp", "icmpv6", "gre", "ospf"]
NUMBERS = {"icmp": 1, "tcp": 6, "udp": 17, "gre": 47, "icmpv6": 58, "ospf": 89, "sctp": 132}
OFFLOADED = 0x4000
ASSURED = 0x4
CONFIRMED_SEEN_REPLY = 0xA


@dataclass(frozen=True, slots=True)
class Flow:
    """One entry. `direction`: which tuples the zone holds for. `sport` is an echo's id for ICMP.

    `reply_src`: where the reply comes from, if not from `dst` (NAT).
    """

    zone: int = 0
    proto: Protocol = "tcp"
    src: str = "10.0.0.1"
    dst: str = "10.0.0.2"
    sport: int = 40000
    dport: int = 443
    direction: Literal["both", "original", "reply"] = "both"
    reply_src: str | None = None
    timeout_s: int | None = 3600
    tcp_state: int = 3
    status: int = CONFIRMED_SEEN_REPLY | ASSURED
    mark: int = 0
    labels: bytes = b""
    started_ns: int | None = None
    entry_id: int = 1

    @property
    def family(self) -> int:
        """AF_INET or AF_INET6."""
        return 10 if ":" in self.src else 2

    def offloaded(self) -> Flow:
        """The same entry as a flow table would carry it: no timeout, no protocol state."""
        return replace(self, status=self.status | OFFLOADED, timeout_s=None)


def attr(kind: int, value: bytes) -> bytes:
    """One attribute, padded."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def nest(kind: int, *parts: bytes) -> bytes:
    """One nested attribute."""
    return attr(kind | 0x8000, b"".join(parts))


def u8(value: int) -> bytes:
    """One byte."""
    return bytes([value])


def u16(value: int) -> bytes:
    """Big-endian."""
    return struct.pack("!H", value)


def u32(value: int) -> bytes:
    """Big-endian."""
    return struct.pack("!I", value)


def message(kind: int, flags: int, seq: int, portid: int, payload: bytes) -> bytes:
    """One netlink message."""
    return struct.pack("=IHHII", 16 + len(payload), kind, flags, seq, portid) + payload


@lru_cache
def _packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def _tuple(flow: Flow, *, is_reply: bool) -> bytes:
    """The payload of a tuple attribute."""
    src, dst, sport, dport = flow.src, flow.dst, flow.sport, flow.dport
    if is_reply:
        src, dst, sport, dport = flow.reply_src or dst, src, dport, sport
    first = 1 if flow.family == 2 else 3
    packed = [_packed(address) for address in (src, dst)]
    addresses = nest(1, attr(first, packed[0]), attr(first + 1, packed[1]))
    number = attr(1, u8(NUMBERS[flow.proto]))
    if flow.proto in ("icmp", "icmpv6"):
        kind = 4 if flow.proto == "icmp" else 7
        echo = {"icmp": (8, 0), "icmpv6": (128, 129)}[flow.proto][is_reply]
        ports = [attr(kind, u16(flow.sport)), attr(kind + 1, u8(echo)), attr(kind + 2, u8(0))]
    elif flow.proto == "ospf":
        ports = []
    else:
        ports = [attr(2, u16(sport)), attr(3, u16(dport))]
    zone = [attr(3, u16(flow.zone))] if flow.direction == ("reply" if is_reply else "original") else []
    return addresses + nest(2, number, *ports) + b"".join(zone)


def original_tuple(flow: Flow) -> bytes:
    """The payload of CTA_TUPLE_ORIG."""
    return _tuple(flow, is_reply=False)


def reply_tuple(flow: Flow) -> bytes:
    """The payload of CTA_TUPLE_REPLY."""
    return _tuple(flow, is_reply=True)


def _state(flow: Flow) -> list[bytes]:
    if flow.timeout_s is None:
        return []
    if flow.proto == "tcp":
        window = [attr(2, u8(7)), attr(3, u8(7))]
        flags = [attr(4, b"\x0a\x0a"), attr(5, b"\x0a\x0a")]
        return [nest(4, nest(1, attr(1, u8(flow.tcp_state)), *window, *flags))]
    if flow.proto == "sctp":
        return [nest(4, nest(3, attr(1, u8(4)), attr(2, u32(1)), attr(3, u32(2))))]
    return []


@lru_cache(maxsize=1 << 16)
def payload(flow: Flow) -> bytes:
    """nfgenmsg and attributes, as in a dump."""
    parts = [nest(1, original_tuple(flow)), nest(2, reply_tuple(flow))]
    if flow.zone and flow.direction == "both":
        parts.append(attr(18, u16(flow.zone)))
    parts += [attr(3, u32(flow.status)), attr(8, u32(flow.mark))]
    if flow.labels:
        parts.append(attr(22, flow.labels))
    parts += [attr(12, u32(flow.entry_id)), attr(11, u32(1))]
    if flow.timeout_s is not None:
        parts.append(attr(7, u32(flow.timeout_s)))
    parts += _state(flow)
    if flow.started_ns is not None:
        parts += [nest(9, attr(1, bytes(8)), attr(2, bytes(8))), nest(20, attr(1, struct.pack("!Q", flow.started_ns)))]
    return struct.pack("!BBH", flow.family, 0, 0) + b"".join(parts)


def dumped(flow: Flow, seq: int, portid: int) -> bytes:
    """One entry's message in a dump."""
    return message(0x100, 2, seq, portid, payload(flow))


def done(seq: int, portid: int, status: int = 0) -> bytes:
    """The last message of a dump; `status` 0 or a negative error number."""
    return message(3, 2, seq, portid, struct.pack("=i", status))
