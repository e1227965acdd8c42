"""Conntrack entries made by hand, one exactly or a hundred thousand in about a second: stale state and volume.

Entries made here carry no traffic. Whatever must be alive is in `tests.lab.live`.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.lab import netlink
from tests.lab.namespace import Namespace

Protocol = Literal["tcp", "udp", "icmp", "icmpv6", "sctp"]

BATCH = 200
IPS_SEEN_REPLY = 0x2
IPS_ASSURED = 0x4
IPS_CONFIRMED = 0x8
ECHO_REQUEST = {"icmp": (8, 0), "icmpv6": (128, 0)}
TABLE_LIMIT = Path("/proc/sys/net/netfilter/nf_conntrack_max")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry to be: addresses as text of either family. For icmp, `sport` is the id of an echo, `dport` unused."""

    zone: int
    proto: Protocol = "tcp"
    src: str = "10.0.0.1"
    dst: str = "10.0.0.2"
    sport: int = 40000
    dport: int = 443
    timeout_s: int = 3600
    mark: int = 0
    is_assured: bool = True

    @property
    def family(self) -> int:
        """AF_INET or AF_INET6."""
        return socket.AF_INET6 if ":" in self.src else socket.AF_INET


def _addresses(family: int, src: bytes, dst: bytes) -> bytes:
    kinds = (
        (netlink.CTA_IP_V4_SRC, netlink.CTA_IP_V4_DST)
        if family == socket.AF_INET
        else (netlink.CTA_IP_V6_SRC, netlink.CTA_IP_V6_DST)
    )
    return netlink.nested(netlink.CTA_TUPLE_IP, netlink.attribute(kinds[0], src), netlink.attribute(kinds[1], dst))


def _protocol(entry: Entry, *, is_reply: bool) -> bytes:
    number = netlink.attribute(netlink.CTA_PROTO_NUM, bytes([netlink.PROTOCOL_NUMBERS[entry.proto]]))
    if entry.proto in ECHO_REQUEST:
        kind, code = ECHO_REQUEST[entry.proto]
        if is_reply:
            kind += -8 if entry.proto == "icmp" else 1
        first = netlink.CTA_PROTO_ICMP_ID if entry.proto == "icmp" else netlink.CTA_PROTO_ICMPV6_ID
        echo = (struct.pack("!H", entry.sport), bytes([kind]), bytes([code]))
        fields = [netlink.attribute(first + index, value) for index, value in enumerate(echo)]
    else:
        ports = (entry.dport, entry.sport) if is_reply else (entry.sport, entry.dport)
        fields = [
            netlink.attribute(netlink.CTA_PROTO_SRC_PORT, struct.pack("!H", ports[0])),
            netlink.attribute(netlink.CTA_PROTO_DST_PORT, struct.pack("!H", ports[1])),
        ]
    return netlink.nested(netlink.CTA_TUPLE_PROTO, number, *fields)


def original_tuple(entry: Entry) -> bytes:
    """The attribute that names the entry from its first packet's side."""
    src, dst = (ipaddress.ip_address(address).packed for address in (entry.src, entry.dst))
    return netlink.nested(netlink.CTA_TUPLE_ORIG, _addresses(entry.family, src, dst), _protocol(entry, is_reply=False))


def zone_attribute(zone: int) -> bytes:
    """CTA_ZONE, big-endian u16."""
    return netlink.attribute(netlink.CTA_ZONE, struct.pack("!H", zone))


def _state(entry: Entry) -> list[bytes]:
    """What the protocols with a state want to be told: established, and TCP not to be strict about windows."""
    if entry.proto == "tcp":
        liberal = bytes([0x0A, 0x0A])  # IP_CT_TCP_FLAG_BE_LIBERAL | IP_CT_TCP_FLAG_SACK_PERM, flags and mask
        fields = [netlink.attribute(1, b"\x03"), netlink.attribute(4, liberal), netlink.attribute(5, liberal)]
        return [netlink.nested(netlink.CTA_PROTOINFO, netlink.nested(1, *fields))]
    if entry.proto == "sctp":
        tag = struct.pack("!I", 1)
        fields = [netlink.attribute(1, b"\x04"), netlink.attribute(2, tag), netlink.attribute(3, tag)]
        return [netlink.nested(netlink.CTA_PROTOINFO, netlink.nested(3, *fields))]
    return []


def _creation(entry: Entry) -> bytes:
    """The message that creates one entry. The order of attributes is what `fill` relies on."""
    src, dst = (ipaddress.ip_address(address).packed for address in (entry.src, entry.dst))
    status = IPS_CONFIRMED | IPS_SEEN_REPLY | (IPS_ASSURED if entry.is_assured else 0)
    return netlink.message(
        netlink.CT_NEW,
        netlink.NLM_F_CREATE | netlink.NLM_F_EXCL,
        entry.family,
        original_tuple(entry),
        netlink.nested(netlink.CTA_TUPLE_REPLY, _addresses(entry.family, dst, src), _protocol(entry, is_reply=True)),
        zone_attribute(entry.zone),
        netlink.attribute(netlink.CTA_STATUS, struct.pack("!I", status)),
        netlink.attribute(netlink.CTA_TIMEOUT, struct.pack("!I", entry.timeout_s)),
        netlink.attribute(netlink.CTA_MARK, struct.pack("!I", entry.mark)),
        *_state(entry),
    )


def _send(namespace: Namespace, messages: Iterable[bytes]) -> int:
    """Send messages in batches, the last of each asking for an answer; the number sent.

    Raises:
        OSError: the kernel refused one (EEXIST: such an entry is there, ENOMEM: the table is full).
    """
    sent = 0
    batch: list[bytes] = []

    def flush(socket_: socket.socket) -> None:
        last = bytearray(batch[-1])
        struct.pack_into("=H", last, 6, struct.unpack_from("=H", last, 6)[0] | netlink.NLM_F_ACK)
        struct.pack_into("=I", last, 8, sent)
        socket_.send(b"".join([*batch[:-1], last]))
        for sequence, _, _ in netlink.replies(socket_):
            if sequence == sent:
                break
        batch.clear()

    with netlink.open_socket(namespace) as opened:
        for message in messages:
            batch.append(message)
            sent += 1
            if len(batch) == BATCH:
                flush(opened)
        if batch:
            flush(opened)
    return sent


def insert(namespace: Namespace, entries: Iterable[Entry]) -> int:
    """Create entries, each exactly as described; how many.

    Raises:
        OSError: the kernel refused one (EEXIST: such an entry is there, ENOMEM: the table is full).
    """
    return _send(namespace, (_creation(entry) for entry in entries))


def _numbered(template: Entry, zones: Mapping[int, int], first: int) -> Iterator[bytes]:
    """Creation messages that differ in zone, source address, source port and their mirror images only."""
    message = bytearray(_creation(template))
    size = 16 if template.family == socket.AF_INET6 else 4
    header = netlink.ATTRIBUTE.size
    first_tuple = netlink.HEADER.size + netlink.NFGENMSG_SIZE
    (tuple_size,) = struct.unpack_from("=H", message, first_tuple)
    zone_at = first_tuple + 2 * tuple_size + header
    src = first_tuple + 3 * header  # inside the tuple, its addresses, the first of them
    sport = src + size + (header + size) + header + (header + 4) + header  # past destination and protocol number
    reply_dst = src + tuple_size + size + header
    reply_dport = sport + tuple_size + 4 + header
    low = size - 4  # the last four bytes of an address are what is numbered
    base = int.from_bytes(message[src + low : src + size], "big")
    for zone, count in zones.items():
        struct.pack_into("!H", message, zone_at, zone)
        for number in range(first, first + count):
            high, port = divmod(number, 60_000)
            address = (base + high).to_bytes(4, "big")
            ports = (1024 + port).to_bytes(2, "big")
            message[src + low : src + size] = address
            message[reply_dst + low : reply_dst + size] = address
            message[sport : sport + 2] = ports
            message[reply_dport : reply_dport + 2] = ports
            yield bytes(message)


def fill(
    namespace: Namespace,
    zones: Mapping[int, int],
    *,
    proto: Literal["tcp", "udp", "sctp"] = "tcp",
    family: Literal[4, 6] = 4,
    first: int = 0,
    timeout_s: int = 3600,
) -> int:
    """Create `zones[zone]` entries in each zone, fast; how many in all.

    Tuples are numbered from `first` in each zone alike, so the same tuples appear in every zone.

    Raises:
        OSError: the kernel refused one (EEXIST: such an entry is there, ENOMEM: the table is full).
    """
    src, dst = ("10.64.0.0", "10.255.0.1") if family == 4 else ("fd00:64::", "fd00:255::1")
    template = Entry(zone=0, proto=proto, src=src, dst=dst, timeout_s=timeout_s)
    return _send(namespace, _numbered(template, zones, first))


@contextmanager
def table_limit(at_least: int) -> Iterator[None]:
    """Raise `nf_conntrack_max`, which all namespaces of a machine share, for as long as a large table is needed."""
    if not TABLE_LIMIT.exists():
        subprocess.run(["conntrack", "-C"], capture_output=True, check=False)  # loads the module
    before = int(TABLE_LIMIT.read_text())
    if before and before < at_least:
        TABLE_LIMIT.write_text(f"{at_least}\n")
    try:
        yield
    finally:
        if before and before < at_least:
            TABLE_LIMIT.write_text(f"{before}\n")
