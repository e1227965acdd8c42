"""Reads a whole block of usual entries in one call: a regular expression over bytes does what a loop would.

Each alternative is one usual entry of a known length: its nlmsg_len, this dump's header, both tuples' headers, then
the zone. The lengths are learned from entries that were read one by one. The last alternative takes whatever is left,
so the matches always cover the block from its first byte to its last without a gap. If that last alternative was not
needed, every match begins where a message begins and ends where its own length says that it ends: the block is
nothing but usual entries, and their zones are exactly those found. Otherwise nothing of it is used.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from ctctl.wire import netlink
from ctctl.wire.conntrack import CTA_STATUS, CTA_TUPLE_ORIG, CTA_TUPLE_REPLY, CTA_ZONE

MAX_LENGTHS: Final = 48
"""More kinds of entries than this do not occur together; trying each costs a few nanoseconds per entry."""

_ATTRIBUTES_AT: Final = netlink.HEADER.size + netlink.GENERIC.size
_ZONE_BYTES: Final = 8
IPV4_PORTS: Final = 52
IPV6_PORTS: Final = 76
NUMBER_ONLY: Final = 36
IPV4_ICMP: Final = 60
IPV6_ICMP: Final = 84


def _header(kind: int, length: int, *, is_nested: bool = False) -> bytes:
    return re.escape(netlink.ATTRIBUTE.pack(length, kind | (netlink.NLA_F_NESTED if is_nested else 0)))


def _tuples(size: int) -> bytes:
    gap = b".{%d}" % (size - netlink.ATTRIBUTE.size)
    original, reply = (_header(kind, size, is_nested=True) for kind in (CTA_TUPLE_ORIG, CTA_TUPLE_REPLY))
    return original + gap + reply + gap


_ZONE: Final = _header(CTA_ZONE, netlink.ATTRIBUTE.size + 2)
_STATUS: Final = _header(CTA_STATUS, netlink.ATTRIBUTE.size + 4)
_SIZES: Final = (IPV4_PORTS, IPV6_PORTS, IPV4_ICMP, IPV6_ICMP, NUMBER_ONLY)
_ZONED: Final = b"|".join(_tuples(size) + _ZONE for size in _SIZES)
_UNZONED: Final = b"|".join(
    # Zone 0 has no CTA_ZONE; the upper half of the status, which is 0, is then taken for it. Only for sizes that
    # leave no room for a zone of one direction within a tuple.
    _tuples(size) + _STATUS + rb"(?=\0\0)"
    for size in (IPV4_PORTS, IPV6_PORTS, NUMBER_ONLY)
)


def _whole(length: int) -> bytes:
    """An entry of this length, from its first byte to its last.

    What was looked at to find the zone must lie within the entry; so a short one may have small tuples only.
    """
    begin = re.escape(struct.pack("=I", length))
    fitting = [size for size in _SIZES if _ATTRIBUTES_AT + 2 * size + _ZONE_BYTES <= length]
    if len(fitting) == len(_SIZES):
        return begin + b".{%d}" % (length - 4)
    original = b"|".join(_header(CTA_TUPLE_ORIG, size, is_nested=True) for size in fitting)
    return begin + b".{%d}(?:%s).{%d}" % (_ATTRIBUTES_AT - 4, original or rb"(?!)", length - _ATTRIBUTES_AT - 4)


class RunReader:
    """Reads runs of usual entries of one dump. `header`: what follows nlmsg_len in each of its entries."""

    __slots__ = ("_header", "_is_outdated", "_lengths", "_pattern")

    def __init__(self, header: bytes) -> None:
        self._header = re.escape(header)
        self._lengths: set[int] = set()
        self._is_outdated = False
        self._pattern: re.Pattern[bytes] | None = None

    def learn(self, length: int) -> None:
        """An entry of this length was met; `length` is its nlmsg_len."""
        if length not in self._lengths and len(self._lengths) < MAX_LENGTHS:
            self._lengths.add(length)
            self._is_outdated = True

    def zones(self, block: netlink.Block, end: int) -> list[bytes] | None:
        """The zone of every entry in `block[:end]`, two bytes each as the kernel writes them.

        None where the block is not a run of usual entries of known lengths.
        """
        if self._is_outdated:
            self._compile()
        if self._pattern is None:
            return None
        found: list[bytes] = self._pattern.findall(block, 0, end)
        return found if found and found[-1] else None

    def _compile(self) -> None:
        self._is_outdated = False
        zone = rb"(?=.{4}%s.{4}(?:%s|%s)(..))" % (self._header, _ZONED, _UNZONED)
        whole = b"|".join(map(_whole, sorted(self._lengths)))
        self._pattern = re.compile(rb"%s(?:%s)|.+" % (zone, whole), re.DOTALL)
