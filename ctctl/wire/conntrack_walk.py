"""Walks the blocks of one conntrack dump: finds this dump's entries, skips foreign messages, notices how it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ctctl.model.ids import HOST_ZONE, ZoneId
from ctctl.wire import netlink
from ctctl.wire.conntrack import (
    CT_NEW,
    CTA_TUPLE_ORIG,
    CTA_TUPLE_REPLY,
    CTA_TUPLE_ZONE,
    CTA_ZONE,
    u16,
)
from ctctl.wire.netlink import ATTRIBUTE, GENERIC, HEADER, NLA_TYPE_MASK, MalformedMessageError

ENTRY_OFFSET: Final = HEADER.size + GENERIC.size
"""Where an entry's attributes start, from the start of its message."""

OnEntry = Callable[[netlink.Bytes, int, int], None]
"""Takes the block and the start and end of one entry's message in it; the block is overwritten afterwards."""


class DumpWalk:
    """The state of one dump. Feed it block after block until `is_done`; then `error_number` and `is_interrupted` tell
    whether what came was everything.
    """

    __slots__ = ("_on_entry", "_portid", "_seq", "error_number", "foreign", "is_done", "is_interrupted", "is_overrun")

    def __init__(self, seq: int, portid: int, on_entry: OnEntry) -> None:
        self._seq = seq
        self._portid = portid
        self._on_entry = on_entry
        self.is_done = False
        self.is_interrupted = False
        self.is_overrun = False
        self.error_number = 0
        self.foreign = 0

    def feed(self, block: netlink.Bytes, end: int, start: int = 0) -> bool:
        """Walk the messages in `block[start:end]`. Returns whether the dump has ended.

        Raises:
            MalformedMessageError: the block is no sequence of whole messages, or goes on after the dump's end.
        """
        for first, last in netlink.spans(block, end, start):
            _, message_type, flags, seq, portid = HEADER.unpack_from(block, first)
            if seq != self._seq or portid != self._portid:
                self.foreign += 1
                continue
            if self.is_done:
                raise MalformedMessageError("conntrack dump goes on after its end")
            if flags & netlink.NLM_F_DUMP_INTR:
                self.is_interrupted = True
            if message_type == CT_NEW:
                self._on_entry(block, first, last)
            else:
                self._control(message_type, block, first, last)
        return self.is_done

    def _control(self, message_type: int, block: netlink.Bytes, first: int, last: int) -> None:
        if message_type in (netlink.NLMSG_DONE, netlink.NLMSG_ERROR):
            self.is_done = True
            self.error_number = netlink.error_number(memoryview(block)[first + HEADER.size : last])
        elif message_type == netlink.NLMSG_OVERRUN:
            self.is_overrun = True
        elif message_type != netlink.NLMSG_NOOP:
            raise MalformedMessageError(f"message of type {message_type:#x} in a conntrack dump")


def zone_of(block: netlink.Bytes, start: int, end: int) -> ZoneId:
    """The zone of the entry whose message is `block[start:end]`.

    CTA_ZONE where there is one; otherwise the zone that holds for one direction (CTA_TUPLE_ZONE in a tuple);
    otherwise zone 0, for which the kernel sends neither.

    Raises:
        MalformedMessageError: attributes that contradict their lengths, or an entry without both tuples.
    """
    direction_zone = HOST_ZONE
    tuples = 0
    position = start + ENTRY_OFFSET
    while position < end:
        kind, value, after = _attribute_at(block, position, end)
        if kind == CTA_ZONE:
            return ZoneId(u16(bytes(block[value:after])))
        if kind in (CTA_TUPLE_ORIG, CTA_TUPLE_REPLY):
            tuples |= kind
            direction_zone = direction_zone or _tuple_zone(block, value, after)
        position = netlink.align(after - start) + start
    if tuples != CTA_TUPLE_ORIG | CTA_TUPLE_REPLY:
        raise MalformedMessageError("conntrack entry without both tuples")
    return direction_zone


def _tuple_zone(block: netlink.Bytes, start: int, end: int) -> ZoneId:
    position = start
    while position < end:
        kind, value, after = _attribute_at(block, position, end)
        if kind == CTA_TUPLE_ZONE:
            return ZoneId(u16(bytes(block[value:after])))
        position = netlink.align(after - start) + start
    return HOST_ZONE


def _attribute_at(block: netlink.Bytes, position: int, end: int) -> tuple[int, int, int]:
    """Type, and start and end of the value, of the attribute at `position`."""
    if end - position < ATTRIBUTE.size:
        raise MalformedMessageError(f"{end - position} bytes left where an attribute header needs {ATTRIBUTE.size}")
    length, kind = ATTRIBUTE.unpack_from(block, position)
    if length < ATTRIBUTE.size or position + length > end:
        raise MalformedMessageError(f"attribute claims {length} bytes where {end - position} are left")
    return kind & NLA_TYPE_MASK, position + ATTRIBUTE.size, position + length
