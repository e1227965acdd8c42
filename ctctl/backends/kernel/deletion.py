"""Deletes entries by original tuple, zone and id, many per send, and keeps account of each zone's."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from ctctl.clients.netlink import NETLINK_NETFILTER, KernelRefusedError, NetlinkSocket
from ctctl.errors import CtctlError
from ctctl.model.conntrack import EntryKey
from ctctl.model.ids import FlushableZoneId
from ctctl.model.instant import Instant
from ctctl.wire.conntrack_delete import MAX_DELETES_PER_SEND, entry_delete

_WHAT: Final = "deleting conntrack entries"


class ZoneAccount:
    """What became of one zone's entries. `error`: the first for which an entry may still be there."""

    __slots__ = ("already_gone", "deleted", "error")

    def __init__(self) -> None:
        self.deleted = 0
        self.already_gone = 0
        self.error: CtctlError | None = None


class Deletion:
    """Accounts of the zones named, and the one way to add to them.

    `timeout_s`: for the answer to each send. `seconds`: spent deleting so far.
    """

    def __init__(self, zones: Iterable[FlushableZoneId], clock: Callable[[], Instant], *, timeout_s: float) -> None:
        self.accounts = {zone: ZoneAccount() for zone in zones}
        self.seconds = 0.0
        self._clock = clock
        self._timeout_s = timeout_s

    @property
    def deletes(self) -> int:
        """Deletes that the kernel answered, whether or not the entry was still there."""
        return sum(account.deleted + account.already_gone for account in self.accounts.values())

    def delete(self, keys: Iterable[EntryKey]) -> None:
        """Delete entries of the zones named. What the kernel answers is written to the accounts.

        Raises:
            ValueError: a key that no dump can have yielded. Nothing of its batch was sent.
            CtctlError: no answer, or not a whole one; what became of the rest is not known.
        """
        remaining = iter(keys)
        started = self._clock()
        with NetlinkSocket(NETLINK_NETFILTER, timeout_s=self._timeout_s) as kernel:
            while batch := tuple(islice(remaining, MAX_DELETES_PER_SEND)):
                self._delete_batch(kernel, batch)
        self.seconds += self._clock().since(started)

    def _delete_batch(self, kernel: NetlinkSocket, batch: Sequence[EntryKey]) -> None:
        """One send. Only the last delete asks for an answer on success; its answer comes after all failures."""
        by_seq = {kernel.next_seq(): key for key in batch}
        last = next(reversed(by_seq))
        kernel.send(b"".join(entry_delete(seq, key, wants_ack=seq == last) for seq, key in by_seq.items()))
        failed = dict(kernel.failures(by_seq.keys(), last, _WHAT))
        for seq, key in by_seq.items():
            account, error = self.accounts[key.zone], failed.get(seq)
            if error is None:
                account.deleted += 1
            elif isinstance(error, KernelRefusedError) and error.number == errno.ENOENT:
                account.already_gone += 1
            else:
                account.error = account.error or error

    def fail(self, error: CtctlError) -> None:
        """Note that no zone's deletion came to its end."""
        for account in self.accounts.values():
            account.error = account.error or error

    def __iter__(self) -> Iterator[tuple[FlushableZoneId, ZoneAccount]]:
        return iter(self.accounts.items())
