"""Counts the entries of one conntrack dump per zone, with as few Python operations per entry as exactness allows.

The kernel writes an entry as header, both tuples, CTA_ZONE unless the zone is 0 or holds for one direction only, and
CTA_STATUS (`ctnetlink_fill_info`, in every release since zones exist). So for each size of tuple the zone stands at a
fixed offset, together with everything that proves it is there: message length, header, and the attribute headers on
the way. Blocks are read in the first of three ways that fits:

* whole, by `RunReader`, when they hold nothing but usual entries of lengths met before;
* entry by entry, one `unpack_from` each;
* attribute by attribute, by `DumpWalk`: direction zones, other sizes, the dump's end, foreign messages.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from itertools import compress
from typing import Final

from ctctl.model.ids import MAX_ZONE, ZoneId
from ctctl.wire import netlink
from ctctl.wire.conntrack import CT_NEW, CTA_STATUS, CTA_TUPLE_ORIG, CTA_TUPLE_REPLY, CTA_ZONE
from ctctl.wire.conntrack_runs import IPV4_ICMP, IPV4_PORTS, IPV6_ICMP, IPV6_PORTS, NUMBER_ONLY, RunReader
from ctctl.wire.conntrack_walk import DumpEnd, DumpWalk, zone_of
from ctctl.wire.netlink import MalformedMessageError

OnWanted = Callable[[netlink.Block, int, int, ZoneId], None]
"""Takes the block, the start and end of an entry's message in it, and its zone; the block is overwritten afterwards."""

_LENGTH: Final = struct.Struct("=I")
_AFTER_LENGTH: Final = struct.Struct("=HHII")
"""A message header without nlmsg_len: type, flags, sequence number, port id."""


def _attribute_header(kind: int, length: int) -> int:
    """An attribute header as the one u32 it is read as."""
    return int(struct.unpack("=I", netlink.ATTRIBUTE.pack(length, kind))[0])


class _Layout:
    """Where the zone stands behind two tuples of equal size.

    `may_hide_zone`: a smaller tuple with a zone of its own has this size too, so that an entry of this layout without
    CTA_ZONE need not be in zone 0.
    """

    __slots__ = ("may_hide_zone", "original", "reply", "size", "unpack")

    def __init__(self, tuple_bytes: int, *, may_hide_zone: bool = False) -> None:
        gap = tuple_bytes - netlink.ATTRIBUTE.size
        fields = struct.Struct(f"=I12s4xI{gap}xI{gap}xIH2x")
        self.unpack = fields.unpack_from
        self.size = fields.size
        self.original = _attribute_header(CTA_TUPLE_ORIG | netlink.NLA_F_NESTED, tuple_bytes)
        self.reply = _attribute_header(CTA_TUPLE_REPLY | netlink.NLA_F_NESTED, tuple_bytes)
        self.may_hide_zone = may_hide_zone


_ZONE: Final = _attribute_header(CTA_ZONE, netlink.ATTRIBUTE.size + 2)
_STATUS: Final = _attribute_header(CTA_STATUS, netlink.ATTRIBUTE.size + 4)
_COMMON: Final = _Layout(IPV4_PORTS)
_LAYOUTS: Final = {
    layout.original: layout
    for layout in (
        _COMMON,
        _Layout(IPV6_PORTS),
        _Layout(IPV4_ICMP, may_hide_zone=True),
        _Layout(IPV6_ICMP, may_hide_zone=True),
        _Layout(NUMBER_ONLY),
    )
}


def _as_read(zone: int) -> int:
    """A zone number as a host-order read of its big-endian bytes sees it, and back."""
    return int(struct.unpack("=H", struct.pack("!H", zone))[0])


class ZoneCounter:
    """Adds up one dump. Feed it block after block until it tells how the dump ended.

    Entries of zones named by `want` are handed to `on_wanted` as well, which may itself call `want` and `forget`.
    """

    __slots__ = ("_counts", "_header", "_in_runs", "_on_wanted", "_runs", "_unwanted", "_walk", "_wanted", "_wants")

    def __init__(self, seq: int, portid: int, on_wanted: OnWanted) -> None:
        self._walk = DumpWalk(seq, portid, self._count_slowly)
        self._header = _AFTER_LENGTH.pack(CT_NEW, netlink.NLM_F_MULTI, seq, portid)
        self._on_wanted = on_wanted
        self._runs = RunReader(self._header)
        # Entries met in runs by the zone's two bytes, and entries met singly by the zone as a host-order number: what
        # each way of reading yields, so that neither converts anything per entry.
        self._in_runs: Counter[bytes] = Counter()
        self._counts = [0] * (MAX_ZONE + 1)
        self._wanted: set[bytes] = set()
        self._unwanted: set[bytes] | None = None  # after `want_all`: the exceptions, in place of `_wanted`
        self._wants = bytearray(MAX_ZONE + 1)

    def entries(self) -> int:
        """Entries counted so far. Adds up all possible zones: not for every block."""
        return sum(self._counts) + self._in_runs.total()

    def entries_by_zone(self) -> dict[ZoneId, int]:
        """Entries of every zone that has any."""
        counts = self._counts
        found = Counter({ZoneId(_as_read(zone)): counts[zone] for zone in compress(range(len(counts)), counts)})
        for zone, count in self._in_runs.items():
            found[ZoneId(int.from_bytes(zone, "big"))] += count
        return dict(found)

    def want(self, zone: ZoneId) -> None:
        """From now on hand over the entries of `zone`."""
        self._wants[_as_read(zone)] = 1
        if self._unwanted is None:
            self._wanted.add(zone.to_bytes(2, "big"))
        else:
            self._unwanted.discard(zone.to_bytes(2, "big"))

    def want_all(self) -> None:
        """From now on hand over every entry."""
        self._wants[:] = b"\1" * len(self._wants)
        self._unwanted = set()

    def forget(self, zone: ZoneId) -> None:
        """No longer hand over the entries of `zone`."""
        self._wants[_as_read(zone)] = 0
        if self._unwanted is None:
            self._wanted.discard(zone.to_bytes(2, "big"))
        else:
            self._unwanted.add(zone.to_bytes(2, "big"))

    def feed(self, block: netlink.Block, end: int) -> DumpEnd | None:
        """Count the entries in `block[:end]`. Returns how the dump ended, None while it has not.

        Raises:
            MalformedMessageError: the block is no sequence of whole messages, or goes on after the dump's end.
        """
        if self._walk.end is None and self._count_run(block, end):
            return None
        start = 0 if self._walk.end else self._count_known(block, end)
        if start > end:
            raise MalformedMessageError(f"conntrack dump reaches {start - end} bytes past its block")
        return self._walk.feed(block, end, start)

    def _count_run(self, block: netlink.Block, end: int) -> bool:
        """Count the whole block at once, if it can be."""
        zones = self._runs.zones(block, end)
        if zones is None:
            return False
        self._in_runs.update(zones)
        if self._unwanted is None:
            has_wanted = not self._wanted.isdisjoint(zones)
        else:
            has_wanted = not self._unwanted.issuperset(zones)
        if has_wanted:
            self._hand_over_from_run(block, zones)
        return True

    def _hand_over_from_run(self, block: netlink.Block, zones: list[bytes]) -> None:
        wants_named, length_at = self._unwanted is None, _LENGTH.unpack_from
        named = self._wanted if self._unwanted is None else self._unwanted
        start = 0
        for zone in zones:
            after = start + length_at(block, start)[0]
            if (zone in named) is wants_named:
                self._on_wanted(block, start, after, ZoneId(int.from_bytes(zone, "big")))
            start = after

    def _count_known(self, block: netlink.Block, end: int) -> int:
        """Count while a whole common layout fits before `end`; returns the offset of what is left."""
        unpack, size, original, reply = _COMMON.unpack, _COMMON.size, _COMMON.original, _COMMON.reply
        zone_header, header, counts, wants = _ZONE, self._header, self._counts, self._wants
        learn = self._runs.learn
        start, last_start = 0, end - size
        while start <= last_start:
            length, its_header, first, second, third, zone = unpack(block, start)
            if third != zone_header or second != reply or first != original or its_header != header or length < size:
                length, zone = self._by_layout(_LAYOUTS.get(first), block, start, end)
                if not length:
                    start = self._walk.step(block, end, start)
                    if self._walk.end:
                        break
                    continue
            counts[zone] += 1
            learn(length)
            if wants[zone]:
                self._hand_over(block, start, start + length, end, zone)
            start += length
        return start

    def _by_layout(self, layout: _Layout | None, block: netlink.Block, start: int, end: int) -> tuple[int, int]:
        """Length and zone, as read, of the entry at `start`; length 0 where the layout does not prove them."""
        if layout is None or start + layout.size > end:
            return 0, 0
        length, header, _, second, third, zone = layout.unpack(block, start)
        if second != layout.reply or header != self._header or length < layout.size:
            return 0, 0
        if third == _ZONE:
            return length, zone
        if third == _STATUS and not layout.may_hide_zone:
            return length, 0
        return 0, 0

    def _count_slowly(self, block: netlink.Block, start: int, end: int) -> None:
        zone = _as_read(zone_of(block, start, end))
        self._counts[zone] += 1
        if self._wants[zone]:
            self._hand_over(block, start, end, end, zone)

    def _hand_over(self, block: netlink.Block, start: int, after: int, end: int, zone_as_read: int) -> None:
        if after > end:
            raise MalformedMessageError(f"conntrack entry reaches {after - end} bytes past its block")
        self._on_wanted(block, start, after, ZoneId(_as_read(zone_as_read)))
