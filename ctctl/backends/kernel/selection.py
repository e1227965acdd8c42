"""The sink of a dump that deletes: takes the entries of named zones, and has them deleted while the dump goes on."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Final

from ctctl.backends.kernel.deletion import Deletion, prepare
from ctctl.model.conntrack import EntryKey
from ctctl.model.ids import ZoneId
from ctctl.wire import netlink
from ctctl.wire.conntrack_count import ZoneCounter
from ctctl.wire.conntrack_entry import entry
from ctctl.wire.conntrack_quick import key
from ctctl.wire.conntrack_walk import DumpEnd

KEYS_AT_ONCE: Final = 4096
"""Bounds the memory of flushing a zone of a million entries."""


class Selection:
    """The entries of `deletion`'s zones; with `address` only those that have it as source or destination, in either
    direction. `unnameable`: entries whose zone holds for the reply direction only, per zone: no delete by original
    tuple finds them.
    """

    def __init__(self, deletion: Deletion, address: IPv4Address | IPv6Address | None) -> None:
        self._deletion = deletion
        self._address = None if address is None else address.packed
        self.begin(0, 0)

    def begin(self, seq: int, portid: int) -> None:
        """Expect a new dump. What was deleted during an earlier one stays deleted and accounted for."""
        self.unnameable: dict[ZoneId, int] = {}
        self._keys: list[EntryKey] = []
        self._counter = ZoneCounter(seq, portid, self._on_wanted)
        for zone in self._deletion.accounts:
            self._counter.want(zone)

    def feed(self, block: bytearray, end: int) -> DumpEnd | None:
        """Take the entries in `block[:end]`; returns how the dump ended once it has.

        Raises:
            CtctlError: the block is not what the kernel sends, or deletes went unanswered.
        """
        ended = self._counter.feed(block, end)
        if len(self._keys) >= KEYS_AT_ONCE or ended is not None:
            keys, self._keys = self._keys, []
            self._deletion.delete(prepare(keys))
        return ended

    def is_enough(self) -> bool:
        """Claims nothing: a zone's entries are spread over the whole dump."""
        return False

    def entries_by_zone(self) -> dict[ZoneId, int]:
        """Entries that the dump showed, deleted or not."""
        return self._counter.entries_by_zone()

    def _on_wanted(self, block: netlink.Block, start: int, end: int, zone: ZoneId) -> None:
        if self._address is not None and block.find(self._address, start, end) < 0:
            return
        usual = key(block, start, end)
        if usual is not None and self._address is None:
            self._keys.append(usual)
            return
        found = entry(memoryview(block)[start + netlink.HEADER.size : end])
        if self._address is not None and self._address not in found.addresses:
            return  # those bytes were something else
        if found.is_zoned_by_reply:
            self.unnameable[zone] = self.unnameable.get(zone, 0) + 1
        else:
            self._keys.append(found.key())
