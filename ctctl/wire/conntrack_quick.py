"""Reads the usual entry at fixed offsets: what recognises it, and what the detail of a pass counts.

An entry with CTA_ZONE goes on with CTA_STATUS, CTA_MARK, CTA_ID, CTA_USE and CTA_TIMEOUT, 8 bytes each, then whatever
else it has (`ctnetlink_fill_info`). One `unpack_from` reads these with their headers. An entry that is otherwise
(offloaded, with labels or a helper, in zone 0, from a kernel with another order) is decoded whole.
"""

from __future__ import annotations

import struct
from typing import Final

from ctctl.model.conntrack import EntryKey, Sighting
from ctctl.model.ids import ZoneId, flushable_zone_id
from ctctl.model.instant import Instant
from ctctl.wire import netlink
from ctctl.wire.conntrack import (
    CTA_ID,
    CTA_MARK,
    CTA_PROTOINFO,
    CTA_STATUS,
    CTA_TIMEOUT,
    CTA_TIMESTAMP,
    CTA_TUPLE_ORIG,
    CTA_TUPLE_PROTO,
    CTA_TUPLE_REPLY,
    CTA_USE,
    CTA_ZONE,
    STATUS_ASSURED,
)
from ctctl.wire.conntrack_entry import (
    CTA_PROTO_NUM,
    CTA_PROTOINFO_TCP,
    CTA_PROTOINFO_TCP_STATE,
    CTA_TIMESTAMP_START,
    entry,
)
from ctctl.wire.conntrack_walk import ENTRY_OFFSET, walk_attributes

_TCP: Final = 6


def _header(kind: int, length: int) -> bytes:
    return netlink.ATTRIBUTE.pack(length, kind)


_FIXED: Final = struct.Struct("!4sH2x4sI4s4x4sI4s4x4sI")
_FIXED_HEADERS: Final = (
    _header(CTA_ZONE, 6),
    *(_header(kind, 8) for kind in (CTA_STATUS, CTA_MARK, CTA_ID, CTA_USE, CTA_TIMEOUT)),
)
_LENGTH: Final = struct.Struct("=H")
_NUMBER: Final = struct.Struct("=2xH4sB")
"""Type of CTA_TUPLE_PROTO, the header of CTA_PROTO_NUM, the number."""
_NUMBER_HEADERS: Final = [CTA_TUPLE_PROTO | netlink.NLA_F_NESTED, _header(CTA_PROTO_NUM, 5)]
_STATE: Final = struct.Struct("=2xH2xH4sB")
"""Types of CTA_PROTOINFO and CTA_PROTOINFO_TCP, the header of the state, the state."""
_STATE_HEADERS: Final = [
    CTA_PROTOINFO | netlink.NLA_F_NESTED,
    CTA_PROTOINFO_TCP | netlink.NLA_F_NESTED,
    _header(CTA_PROTOINFO_TCP_STATE, 5),
]
_TIMESTAMP_BEGINS: Final = _header(CTA_TIMESTAMP | netlink.NLA_F_NESTED, 16) + _header(CTA_TIMESTAMP_START, 12)
_START: Final = struct.Struct("!4sQ")
_START_HEADER: Final = _header(CTA_TIMESTAMP_START, 12)

_Usual = tuple[int, int, int, int, int, int]
"""End of the original tuple, zone, status, id, timeout, and where the other attributes begin."""


def _usual(block: netlink.Block, start: int, end: int) -> _Usual | None:
    """What every usual entry has; None for any other."""
    first = start + ENTRY_OFFSET
    original_bytes, original_kind = netlink.ATTRIBUTE.unpack_from(block, first)
    second = first + original_bytes
    if original_kind != CTA_TUPLE_ORIG | netlink.NLA_F_NESTED or second + netlink.ATTRIBUTE.size > end:
        return None
    reply_bytes, reply_kind = netlink.ATTRIBUTE.unpack_from(block, second)
    third = second + reply_bytes
    if reply_kind != CTA_TUPLE_REPLY | netlink.NLA_F_NESTED or third + _FIXED.size > end:
        return None
    h_zone, zone, h_status, status, h_mark, h_id, entry_id, h_use, h_timeout, timeout = _FIXED.unpack_from(block, third)
    if (h_zone, h_status, h_mark, h_id, h_use, h_timeout) != _FIXED_HEADERS:
        return None
    return second, zone, status, entry_id, timeout, third + _FIXED.size


def sighting(block: netlink.Block, start: int, end: int, seen: Instant) -> Sighting:
    """What recognises the entry whose message is `block[start:end]` later; `seen`: when its bytes were received.

    Raises:
        MalformedMessageError: see `conntrack_entry.entry`.
    """
    usual = _usual(block, start, end)
    if usual is None:
        return entry(memoryview(block)[start + netlink.HEADER.size : end]).sighting(seen)
    second, zone, _, entry_id, timeout_s, rest = usual
    return Sighting(
        ZoneId(zone),
        block[start + netlink.HEADER.size],
        bytes(block[start + ENTRY_OFFSET + netlink.ATTRIBUTE.size : second]),
        entry_id,
        seen.boot_s + timeout_s,
        _started_wall_s(block, rest, end),
    )


def key(block: netlink.Block, start: int, end: int) -> EntryKey | None:
    """What names the usual entry whose message is `block[start:end]` in a delete; None where it is not usual.

    Raises:
        InvalidZoneError: it is in zone 0.
    """
    usual = _usual(block, start, end)
    if usual is None:
        return None
    second, zone, _, entry_id, _, _ = usual
    tuple_orig = bytes(block[start + ENTRY_OFFSET + netlink.ATTRIBUTE.size : second])
    return EntryKey(flushable_zone_id(zone), block[start + netlink.HEADER.size], tuple_orig, entry_id)


def _started_wall_s(block: netlink.Block, start: int, end: int) -> float | None:
    if block.find(_TIMESTAMP_BEGINS, start, end) < 0:  # nearly always, where start times are off
        return None
    for kind, value, after in walk_attributes(block, start, end):
        if kind == CTA_TIMESTAMP and after - value >= _START.size:
            header, nanoseconds = _START.unpack_from(block, value)
            if header == _START_HEADER:
                return int(nanoseconds) / 1e9
    return None


def traits(block: netlink.Block, start: int, end: int) -> tuple[int, int | None, bool]:
    """Protocol number, TCP state and assured of the entry whose message is `block[start:end]`.

    Raises:
        MalformedMessageError: see `conntrack_entry.entry`.
    """
    usual = _usual(block, start, end)
    if usual is not None:
        second, _, status, _, _, rest = usual
        ip = start + ENTRY_OFFSET + netlink.ATTRIBUTE.size
        (ip_bytes,) = _LENGTH.unpack_from(block, ip)
        if ip + ip_bytes + _NUMBER.size <= second:
            *number_headers, number = _NUMBER.unpack_from(block, ip + ip_bytes)
            is_number = number_headers == _NUMBER_HEADERS
            if is_number and number != _TCP:
                return number, None, bool(status & STATUS_ASSURED)
            if is_number and rest + _STATE.size <= end:
                *state_headers, state = _STATE.unpack_from(block, rest)
                if state_headers == _STATE_HEADERS:
                    return number, state, bool(status & STATUS_ASSURED)
    found = entry(memoryview(block)[start + netlink.HEADER.size : end])
    return found.protocol, found.tcp_state, found.is_assured
