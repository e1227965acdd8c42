"""An independent reader of the kernel's conntrack table: what the tests believe when they judge the product."""

from __future__ import annotations

import errno
import socket
import struct
from collections import Counter
from dataclasses import dataclass

from tests.lab import netlink
from tests.lab.entries import Entry, original_tuple, zone_attribute
from tests.lab.namespace import Namespace


@dataclass(frozen=True, slots=True, order=True)
class TableEntry:
    """One entry as the kernel shows it. For icmp, `sport` is the echo's id and `dport` 0.

    `entry_id`: CTA_ID. `timeout_s`: None for offloaded entries. `started_ns`: wall clock, None where
    `nf_conntrack_timestamp` was off when it was created.
    """

    zone: int
    proto: str
    src: str
    dst: str
    sport: int
    dport: int
    entry_id: int
    mark: int = 0
    status: int = 0
    timeout_s: int | None = None
    started_ns: int | None = None


def _number(payload: bytes | None) -> int | None:
    return None if payload is None else int.from_bytes(payload, "big")


def _address(packed: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def _parse(body: bytes) -> TableEntry:
    attributes = dict(netlink.attributes_of(body[netlink.NFGENMSG_SIZE :]))
    original = dict(netlink.attributes_of(attributes[netlink.CTA_TUPLE_ORIG]))
    addresses = dict(netlink.attributes_of(original[netlink.CTA_TUPLE_IP]))
    protocol = dict(netlink.attributes_of(original[netlink.CTA_TUPLE_PROTO]))
    src = addresses.get(netlink.CTA_IP_V4_SRC) or addresses[netlink.CTA_IP_V6_SRC]
    dst = addresses.get(netlink.CTA_IP_V4_DST) or addresses[netlink.CTA_IP_V6_DST]
    number = protocol[netlink.CTA_PROTO_NUM][0]
    sport = next(
        (
            protocol[kind]
            for kind in (netlink.CTA_PROTO_SRC_PORT, netlink.CTA_PROTO_ICMP_ID, netlink.CTA_PROTO_ICMPV6_ID)
            if kind in protocol
        ),
        b"\0\0",
    )
    times = dict(netlink.attributes_of(attributes.get(netlink.CTA_TIMESTAMP, b"")))
    return TableEntry(
        zone=_number(attributes.get(netlink.CTA_ZONE)) or 0,
        proto=netlink.PROTOCOL_NAMES.get(number, str(number)),
        src=_address(src),
        dst=_address(dst),
        sport=int.from_bytes(sport, "big"),
        dport=int.from_bytes(protocol.get(netlink.CTA_PROTO_DST_PORT, b""), "big"),
        entry_id=int.from_bytes(attributes[netlink.CTA_ID], "big"),
        mark=_number(attributes.get(netlink.CTA_MARK)) or 0,
        status=_number(attributes.get(netlink.CTA_STATUS)) or 0,
        timeout_s=_number(attributes.get(netlink.CTA_TIMEOUT)),
        started_ns=_number(times.get(netlink.CTA_TIMESTAMP_START)),
    )


def _dump(namespace: Namespace) -> list[bytes]:
    bodies = []
    with netlink.open_socket(namespace) as opened:
        opened.send(netlink.message(netlink.CT_GET, netlink.NLM_F_DUMP, socket.AF_UNSPEC))
        for _, kind, body in netlink.replies(opened):
            if kind == netlink.NLMSG_DONE:
                break
            if kind == netlink.CT_NEW:
                bodies.append(body)
    return bodies


def entries(namespace: Namespace, zone: int | None = None) -> list[TableEntry]:
    """Every entry of the namespace's table, or of one zone; both families, sorted."""
    found = (_parse(body) for body in _dump(namespace))
    return sorted(entry for entry in found if zone is None or entry.zone == zone)


def zone_counts(namespace: Namespace) -> Counter[int]:
    """Zone → entries."""
    counts: Counter[int] = Counter()
    for body in _dump(namespace):
        attributes = netlink.attributes_of(body[netlink.NFGENMSG_SIZE :])
        counts[
            next((struct.unpack("!H", payload)[0] for kind, payload in attributes if kind == netlink.CTA_ZONE), 0)
        ] += 1
    return counts


def look_up(namespace: Namespace, entry: Entry) -> TableEntry | None:
    """The entry that has this original tuple in this zone now, whatever else is in the table."""
    with netlink.open_socket(namespace) as opened:
        opened.send(netlink.message(netlink.CT_GET, 0, entry.family, original_tuple(entry), zone_attribute(entry.zone)))
        try:
            body = next(body for _, kind, body in netlink.replies(opened) if kind == netlink.CT_NEW)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
    return _parse(body)


def delete_zone(namespace: Namespace, zone: int) -> None:
    """Delete every entry of one zone with the distribution's `conntrack`, entry by entry."""
    for family in ("ipv4", "ipv6"):
        # It answers 1 when there was nothing to delete.
        namespace.run(["conntrack", "-D", "-f", family, "-w", str(zone)], check=False)
