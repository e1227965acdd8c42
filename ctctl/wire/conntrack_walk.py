"""Walks the blocks of one conntrack dump: finds this dump's entries, skips foreign messages, notices how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ctctl.model.ids import HOST_ZONE, ZoneId
from ctctl.wire import netlink
from ctctl.wire.conntrack import CT_NEW, CTA_TUPLE_ORIG, CTA_TUPLE_REPLY, CTA_TUPLE_ZONE, CTA_ZONE, u16
from ctctl.wire.netlink import ATTRIBUTE, GENERIC, HEADER, NLA_TYPE_MASK, MalformedMessageError

ENTRY_OFFSET: Final = HEADER.size + GENERIC.size
"""Where an entry's attributes start, from the start of its message."""

OnEntry = Callable[[netlink.Block, int, int], None]
"""Takes the block and the start and end of one entry's message in it; the block is overwritten afterwards."""


@dataclass(frozen=True, slots=True)
class DumpEnd:
    """How a dump ended. It was whole only if there is no error and neither claim is true.

    `error_number`: positive errno of its last message, 0 for a clean end. `is_interrupted`: the kernel said that the
    list changed underneath (NLM_F_DUMP_INTR). `is_overrun`: the kernel said that messages were lost (NLMSG_OVERRUN).
    """

    error_number: int
    is_interrupted: bool
    is_overrun: bool


class DumpWalk:
    """The state of one dump. Feed it block after block until it tells how the dump ended."""

    __slots__ = ("_is_interrupted", "_is_overrun", "_on_entry", "_portid", "_seq", "end", "foreign")

    def __init__(self, seq: int, portid: int, on_entry: OnEntry) -> None:
        self._seq = seq
        self._portid = portid
        self._on_entry = on_entry
        self._is_interrupted = False
        self._is_overrun = False
        self.end: DumpEnd | None = None
        self.foreign = 0

    def feed(self, block: netlink.Block, end: int, start: int = 0) -> DumpEnd | None:
        """Walk the messages in `block[start:end]`. Returns how the dump ended, None while it has not.

        Raises:
            MalformedMessageError: the block is no sequence of whole messages, or goes on after the dump's end.
        """
        while start < end:
            start = self.step(block, end, start)
        return self.end

    def step(self, block: netlink.Block, end: int, start: int) -> int:
        """Walk the one message at `start`; returns where the next begins, `end` after the last.

        Raises:
            MalformedMessageError: no whole message there, or one of this dump after its end.
        """
        last = netlink.message_end(block, start, end)
        _, message_type, flags, seq, portid = HEADER.unpack_from(block, start)
        after = min(netlink.align(last), end)
        if seq != self._seq or portid != self._portid:
            self.foreign += 1
            return after
        if self.end is not None:
            raise MalformedMessageError("conntrack dump goes on after its end")
        if flags & netlink.NLM_F_DUMP_INTR:
            self._is_interrupted = True
        if message_type == CT_NEW:
            self._on_entry(block, start, last)
        else:
            self._control(message_type, memoryview(block)[start + HEADER.size : last])
        return after

    def _control(self, message_type: int, payload: memoryview) -> None:
        if message_type in (netlink.NLMSG_DONE, netlink.NLMSG_ERROR):
            self.end = DumpEnd(netlink.error_number(payload), self._is_interrupted, self._is_overrun)
        elif message_type == netlink.NLMSG_OVERRUN:
            self._is_overrun = True
        elif message_type != netlink.NLMSG_NOOP:
            raise MalformedMessageError(f"message of type {message_type:#x} in a conntrack dump")


def zone_of(block: netlink.Block, start: int, end: int) -> ZoneId:
    """The zone of the entry whose message is `block[start:end]`.

    CTA_ZONE where there is one; otherwise the zone that holds for one direction (CTA_TUPLE_ZONE in a tuple);
    otherwise zone 0, for which the kernel sends neither.

    Raises:
        MalformedMessageError: attributes that contradict their lengths, or an entry without both tuples.
    """
    zone: ZoneId | None = None
    direction_zone = HOST_ZONE
    tuples = 0
    for kind, value, after in walk_attributes(block, start + ENTRY_OFFSET, end):
        if kind == CTA_ZONE:
            zone = _u16_at(block, value, after)
        elif kind in (CTA_TUPLE_ORIG, CTA_TUPLE_REPLY):
            tuples |= kind
            for inner, inner_value, inner_after in walk_attributes(block, value, after):
                if inner == CTA_TUPLE_ZONE:
                    direction_zone = direction_zone or _u16_at(block, inner_value, inner_after)
    if tuples != CTA_TUPLE_ORIG | CTA_TUPLE_REPLY:
        raise MalformedMessageError("conntrack entry without both tuples")
    return direction_zone if zone is None else zone


def walk_attributes(block: netlink.Block, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Type, and start and end of the value, of each attribute in `block[start:end]`, copying nothing.

    Raises:
        MalformedMessageError: a length smaller than an attribute header or past `end`.
    """
    while start < end:
        if end - start < ATTRIBUTE.size:
            raise MalformedMessageError(f"{end - start} bytes left where an attribute header needs {ATTRIBUTE.size}")
        length, kind = ATTRIBUTE.unpack_from(block, start)
        if length < ATTRIBUTE.size or start + length > end:
            raise MalformedMessageError(
                f"attribute {kind & NLA_TYPE_MASK} claims {length} bytes where {end - start} are left"
            )
        yield kind & NLA_TYPE_MASK, start + ATTRIBUTE.size, start + length
        start += netlink.align(length)


def _u16_at(block: netlink.Block, start: int, end: int) -> ZoneId:
    return ZoneId(u16(bytes(block[start:end])))
