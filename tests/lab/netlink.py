"""Just enough ctnetlink to insert, look up and read conntrack entries, written apart from the product's on purpose.

What judges the product must not share its code. Numbers are from the kernel's `linux/netlink.h`,
`linux/netfilter/nfnetlink.h` and `nfnetlink_conntrack.h`.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

from tests.lab.namespace import Namespace

NETLINK_NETFILTER = 12
SOL_NETLINK = 270
NETLINK_CAP_ACK = 10  # error replies without a copy of the request

NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_DUMP = 0x300
NLM_F_EXCL = 0x200
NLM_F_CREATE = 0x400
NLMSG_ERROR = 2
NLMSG_DONE = 3

CT_NEW = 0x100
CT_GET = 0x101

CTA_TUPLE_ORIG = 1
CTA_TUPLE_REPLY = 2
CTA_STATUS = 3
CTA_PROTOINFO = 4
CTA_TIMEOUT = 7
CTA_MARK = 8
CTA_ID = 12
CTA_ZONE = 18
CTA_TIMESTAMP = 20
CTA_TUPLE_IP = 1
CTA_TUPLE_PROTO = 2
CTA_IP_V4_SRC = 1
CTA_IP_V4_DST = 2
CTA_IP_V6_SRC = 3
CTA_IP_V6_DST = 4
CTA_PROTO_NUM = 1
CTA_PROTO_SRC_PORT = 2
CTA_PROTO_DST_PORT = 3
CTA_PROTO_ICMP_ID = 4
CTA_PROTO_ICMPV6_ID = 7
CTA_TIMESTAMP_START = 1

NLA_F_NESTED = 0x8000
NLA_TYPE_MASK = 0x3FFF
HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")
NFGENMSG_SIZE = 4
RECEIVE_SIZE = 1 << 17
TIMEOUT_S = 30.0

PROTOCOL_NUMBERS = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132}
PROTOCOL_NAMES = {number: name for name, number in PROTOCOL_NUMBERS.items()}


def attribute(kind: int, payload: bytes) -> bytes:
    """One attribute, padded."""
    return ATTRIBUTE.pack(4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def nested(kind: int, *attributes: bytes) -> bytes:
    """One attribute that holds attributes."""
    return attribute(kind | NLA_F_NESTED, b"".join(attributes))


def message(kind: int, flags: int, family: int, *attributes: bytes) -> bytes:
    """One ctnetlink message with sequence number 0; `family` is AF_INET, AF_INET6 or AF_UNSPEC."""
    body = struct.pack("=BBH", family, 0, 0) + b"".join(attributes)
    return HEADER.pack(HEADER.size + len(body), kind, flags | NLM_F_REQUEST, 0, 0) + body


def attributes_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and payload of each attribute.

    Raises:
        ValueError: a length does not fit.
    """
    offset = 0
    while offset < len(data):
        length, kind = ATTRIBUTE.unpack_from(data, offset)
        if length < ATTRIBUTE.size or offset + length > len(data):
            raise ValueError(f"attribute of {length} bytes at {offset} of {len(data)}")
        yield kind & NLA_TYPE_MASK, data[offset + ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3


def open_socket(namespace: Namespace) -> socket.socket:
    """A netfilter netlink socket in the namespace."""
    opened = namespace.call(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
    opened.bind((0, 0))
    opened.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
    opened.settimeout(TIMEOUT_S)
    return opened


def replies(netlink: socket.socket) -> Iterator[tuple[int, int, bytes]]:
    """Sequence number, message type and body of every message that arrives, until the caller has what it wants.

    Raises:
        OSError: the kernel answered with an error; or nothing came in time.
        ValueError: a datagram was truncated.
    """
    while True:
        data, _, flags, _ = netlink.recvmsg(RECEIVE_SIZE)
        if flags & socket.MSG_TRUNC:
            raise ValueError("netlink datagram truncated")
        offset = 0
        while offset < len(data):
            length, kind, _, sequence, _ = HEADER.unpack_from(data, offset)
            body = data[offset + HEADER.size : offset + length]
            if kind in (NLMSG_ERROR, NLMSG_DONE) and len(body) >= 4:
                (error,) = struct.unpack_from("=i", body)
                if error < 0:
                    raise OSError(-error, os.strerror(-error))
            yield sequence, kind, body
            offset += (length + 3) & ~3
