"""Conntrack requests that only read, and their answers ⇄ bytes. No request that deletes can be built here.

Source: the kernel's net/netfilter/nf_conntrack_netlink.c and include/uapi/linux/netfilter/nfnetlink_conntrack.h.
"""

from __future__ import annotations

import struct
from typing import Final

from ctctl.model.conntrack import EntryKey
from ctctl.model.counts import TableStats
from ctctl.wire import netlink
from ctctl.wire.netlink import MalformedMessageError, Message

SUBSYSTEM: Final = 1 << 8
"""NFNL_SUBSYS_CTNETLINK in the upper byte of a message type."""
CT_NEW: Final = SUBSYSTEM | 0
CT_GET: Final = SUBSYSTEM | 1
CT_DELETE: Final = SUBSYSTEM | 2
CT_GET_STATS_CPU: Final = SUBSYSTEM | 4
CT_GET_STATS: Final = SUBSYSTEM | 5

AF_UNSPEC: Final = 0
AF_INET: Final = 2
AF_INET6: Final = 10

CTA_TUPLE_ORIG: Final = 1
CTA_TUPLE_REPLY: Final = 2
CTA_STATUS: Final = 3
CTA_PROTOINFO: Final = 4
CTA_TIMEOUT: Final = 7
CTA_MARK: Final = 8
CTA_USE: Final = 11
CTA_ID: Final = 12
CTA_ZONE: Final = 18  # since Linux 2.6.34; limits a flush or dump since 6.8
CTA_TIMESTAMP: Final = 20  # since Linux 2.6.38
CTA_FILTER: Final = 25  # since Linux 5.8
CTA_STATUS_MASK: Final = 26  # since Linux 5.9

CTA_TUPLE_IP: Final = 1
CTA_TUPLE_PROTO: Final = 2
CTA_TUPLE_ZONE: Final = 3  # since Linux 4.3, direction zones

STATUS_SEEN_REPLY: Final = 0x2
STATUS_ASSURED: Final = 0x4
STATUS_OFFLOAD: Final = 0x4000
STATUS_HW_OFFLOAD: Final = 0x8000

CTA_STATS_GLOBAL_ENTRIES: Final = 1
CTA_STATS_GLOBAL_MAX_ENTRIES: Final = 2  # since Linux 4.18

CPU_COUNTERS: Final = {
    2: "found",
    4: "invalid",
    8: "insert",
    9: "insert_failed",
    10: "drop",
    11: "early_drop",
    12: "error",
    13: "search_restart",
    14: "clash_resolve",  # since Linux 5.9
    15: "chain_toolong",  # since Linux 5.15
}
"""CTA_STATS_* attribute → name. Others are no longer used by the kernel."""

_U16: Final = struct.Struct("!H")
_U32: Final = struct.Struct("!I")


def generic_header(family: int) -> bytes:
    """The nfnetlink header, struct nfgenmsg. Version 0: from 1 on the kernel limits a flush to the family."""
    return netlink.GENERIC.pack(family, 0, 0)


def u16(value: bytes) -> int:
    """A big-endian u16 attribute.

    Raises:
        MalformedMessageError: `value` is not 2 bytes long.
    """
    if len(value) != _U16.size:
        raise MalformedMessageError(f"u16 attribute of {len(value)} bytes")
    return int(_U16.unpack(value)[0])


def u32(value: bytes) -> int:
    """A big-endian u32 attribute.

    Raises:
        MalformedMessageError: `value` is not 4 bytes long.
    """
    if len(value) != _U32.size:
        raise MalformedMessageError(f"u32 attribute of {len(value)} bytes")
    return int(_U32.unpack(value)[0])


def dump_request(seq: int) -> bytes:
    """Ask for every entry of every zone and family.

    Never filtered: a filtered dump walks a large table with softirqs off until a buffer fills.
    """
    flags = netlink.NLM_F_REQUEST | netlink.NLM_F_DUMP
    return netlink.message(CT_GET, flags, seq, generic_header(AF_UNSPEC))


def filter_probe_request(seq: int, *, with_zone: bool) -> bytes:
    """A dump that a kernel refuses with EINVAL exactly if it builds a filter for it.

    CTA_STATUS_MASK without CTA_STATUS is invalid in a filter and ignored where none is built. A kernel that
    limits dumps and flushes by CTA_ZONE builds one because of that attribute (`ctnetlink_needs_filter`), and none
    without it; so the two forms together tell whether CTA_ZONE is what makes the difference.
    """
    zone = netlink.attribute(CTA_ZONE, _U16.pack(0xFFFF)) if with_zone else b""
    mask = netlink.attribute(CTA_STATUS_MASK, _U32.pack(STATUS_ASSURED))
    flags = netlink.NLM_F_REQUEST | netlink.NLM_F_DUMP
    return netlink.message(CT_GET, flags, seq, generic_header(AF_UNSPEC) + zone + mask)


def lookup_request(seq: int, key: EntryKey) -> bytes:
    """Ask for one entry by its original tuple and zone."""
    payload = (
        generic_header(key.family)
        + netlink.nested(CTA_TUPLE_ORIG, key.tuple_orig)
        + netlink.attribute(CTA_ZONE, _U16.pack(key.zone))
    )
    return netlink.message(CT_GET, netlink.NLM_F_REQUEST | netlink.NLM_F_ACK, seq, payload)


def stats_request(seq: int) -> bytes:
    """Ask for the table's exact size and limit."""
    return netlink.message(CT_GET_STATS, netlink.NLM_F_REQUEST | netlink.NLM_F_ACK, seq, generic_header(AF_UNSPEC))


def cpu_stats_request(seq: int) -> bytes:
    """Ask for the statistics of every CPU."""
    flags = netlink.NLM_F_REQUEST | netlink.NLM_F_DUMP
    return netlink.message(CT_GET_STATS_CPU, flags, seq, generic_header(AF_UNSPEC))


def table_stats(reply: Message) -> TableStats:
    """Size and limit from the answer to `stats_request`; buckets and per-CPU statistics come from elsewhere.

    Raises:
        MalformedMessageError: another message, or one without the number of entries.
    """
    values = netlink.by_type(_payload_of(reply, CT_GET_STATS), netlink.GENERIC.size)
    if CTA_STATS_GLOBAL_ENTRIES not in values:
        raise MalformedMessageError("conntrack statistics without the number of entries")
    limit = values.get(CTA_STATS_GLOBAL_MAX_ENTRIES)
    return TableStats(
        entries=u32(values[CTA_STATS_GLOBAL_ENTRIES]),
        limit=None if limit is None else u32(limit),
        buckets=None,
    )


def cpu_stats(reply: Message) -> tuple[int, dict[str, int]]:
    """CPU number and its counters (u32, wrapping) by name.

    Raises:
        MalformedMessageError: another message, or a counter that is no u32.
    """
    payload = _payload_of(reply, CT_GET_STATS_CPU)
    _, _, cpu = netlink.GENERIC.unpack_from(payload)
    values = netlink.by_type(payload, netlink.GENERIC.size)
    return cpu, {name: u32(values[kind]) for kind, name in CPU_COUNTERS.items() if kind in values}


def _payload_of(reply: Message, message_type: int) -> bytes:
    if reply.type != message_type:
        raise MalformedMessageError(f"answer of type {reply.type:#x} where {message_type:#x} was asked for")
    if len(reply.payload) < netlink.GENERIC.size:
        raise MalformedMessageError("nfnetlink answer without its own header")
    return reply.payload
