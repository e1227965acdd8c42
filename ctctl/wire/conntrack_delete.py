"""The only place where a conntrack delete is built, and every one built here names its zone.

A delete without a tuple is a flush, and one without CTA_ZONE is a flush of the whole table, of all zones and
families; kernels before 6.8 read a flush's CTA_ZONE and ignore it. So each function checks the zone at run time,
writes CTA_ZONE itself as the big-endian u16 the kernel reads, and takes nothing it could be talked out of it with.
Source: `ctnetlink_del_conntrack` and `ctnetlink_flush_conntrack` in net/netfilter/nf_conntrack_netlink.c.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from ctctl.model.conntrack import EntryKey
from ctctl.model.ids import FlushableZoneId, flushable_zone_id
from ctctl.wire import netlink
from ctctl.wire.conntrack import (
    AF_INET,
    AF_INET6,
    AF_UNSPEC,
    CT_DELETE,
    CTA_FILTER,
    CTA_ID,
    CTA_TUPLE_IP,
    CTA_TUPLE_ORIG,
    CTA_TUPLE_PROTO,
    CTA_ZONE,
    generic_header,
)
from ctctl.wire.conntrack_walk import walk_attributes

MAX_DELETES_PER_SEND: Final = 128
"""More unread error replies than this overflow a default receive buffer, and with it the last acknowledgement."""

_U16: Final = struct.Struct("!H")
_U32: Final = struct.Struct("!I")
_MAX_U32: Final = 0xFFFFFFFF
_ID_HEADER: Final = netlink.ATTRIBUTE.pack(8, CTA_ID)
_TUPLE_PARTS: Final = (CTA_TUPLE_IP, CTA_TUPLE_PROTO)
"""As the kernel writes them. A zone of its own beside CTA_ZONE it would refuse."""


@dataclass(frozen=True, slots=True)
class PlainFormEvidence:
    """What must be known before a flush may leave without CTA_FILTER (Linux 6.8 … 6.11)."""

    kernel_filters_by_zone: bool
    guarded_form_refused: bool


def guarded_zone_flush(seq: int, zone: FlushableZoneId) -> bytes:
    """Delete every entry of `zone`: CTA_ZONE and an empty CTA_FILTER.

    The empty filter closes the trap: Linux 5.8 … 6.11 refuse it (EOPNOTSUPP) and delete nothing.

    Raises:
        InvalidZoneError: `zone` is no zone that may be flushed.
    """
    return _delete(seq, AF_UNSPEC, netlink.NLM_F_ACK, zone, netlink.nested(CTA_FILTER))


def plain_zone_flush(seq: int, zone: FlushableZoneId, evidence: PlainFormEvidence) -> bytes:
    """Delete every entry of `zone` by CTA_ZONE alone, which kernels before 6.8 take for "everything".

    Raises:
        InvalidZoneError: `zone` is no zone that may be flushed.
        ValueError: `evidence` does not show that this kernel filters by zone and refuses only the guarded form.
    """
    if evidence.kernel_filters_by_zone is not True or evidence.guarded_form_refused is not True:
        raise ValueError(f"a flush of zone {zone} without CTA_FILTER needs evidence that this kernel honours CTA_ZONE")
    return _delete(seq, AF_UNSPEC, netlink.NLM_F_ACK, zone, b"")


def entry_delete(seq: int, key: EntryKey, *, wants_ack: bool) -> bytes:
    """Delete one entry: its original tuple, zone and id. The kernel answers ENOENT where any of them differs.

    Errors are answered in any case; `wants_ack` asks for an answer on success too.

    Raises:
        InvalidZoneError: the key's zone is no zone that may be flushed.
        ValueError: family, tuple or id are not what a dump yields; without a tuple a delete would be a flush.
    """
    if key.family not in (AF_INET, AF_INET6):
        raise ValueError(f"address family {key.family!r} of an entry in zone {key.zone} is neither IPv4 nor IPv6")
    if type(key.entry_id) is not int or not 0 <= key.entry_id <= _MAX_U32:
        raise ValueError(f"id {key.entry_id!r} of an entry in zone {key.zone} is no u32")
    parts = tuple(kind for kind, _, _ in walk_attributes(key.tuple_orig, 0, len(key.tuple_orig)))
    if parts != _TUPLE_PARTS:
        raise ValueError(f"tuple of an entry in zone {key.zone} is not addresses and protocol, but parts {parts}")
    flags = netlink.NLM_F_ACK if wants_ack else 0
    selector = netlink.nested(CTA_TUPLE_ORIG, key.tuple_orig) + _ID_HEADER + _U32.pack(key.entry_id)
    return _delete(seq, key.family, flags, key.zone, selector)


def _delete(seq: int, family: int, flags: int, zone: FlushableZoneId, selector: bytes) -> bytes:
    checked = flushable_zone_id(zone)
    payload = generic_header(family) + netlink.attribute(CTA_ZONE, _U16.pack(checked)) + selector
    return netlink.message(CT_DELETE, netlink.NLM_F_REQUEST | flags, seq, payload)
