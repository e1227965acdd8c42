"""Deletes entries by original tuple, zone and id, many per send, and keeps account of each zone's."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Batch:
    """Deletes that leave in one send. Only the last asks for an answer on success, which then follows all failures."""

    keys: tuple[EntryKey, ...]
    seqs: range
    data: bytes


def prepare(keys: Iterable[EntryKey]) -> list[Batch]:
    """The messages that delete `keys`, for one socket.

    Raises:
        InvalidZoneError, ValueError, MalformedMessageError: a key that no dump can have yielded.
    """
    batches = []
    first = 1
    remaining = iter(keys)
    while batch := tuple(islice(remaining, MAX_DELETES_PER_SEND)):
        seqs = range(first, first + len(batch))
        first = seqs.stop
        parts = [entry_delete(seq, key, wants_ack=seq == seqs[-1]) for seq, key in zip(seqs, batch, strict=True)]
        batches.append(Batch(batch, seqs, b"".join(parts)))
    return batches


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

    def delete(self, batches: Sequence[Batch]) -> None:
        """Send what `prepare` made of entries of the zones named. What the kernel answers is written to the accounts.

        Raises:
            CtctlError: no answer, or not a whole one; what became of the rest is not known.
        """
        started = self._clock()
        with NetlinkSocket(NETLINK_NETFILTER, timeout_s=self._timeout_s) as kernel:
            for batch in batches:
                kernel.send(batch.data)
                failed = dict(kernel.failures(batch.seqs, batch.seqs[-1], _WHAT))
                for seq, key in zip(batch.seqs, batch.keys, strict=True):
                    self._note(self.accounts[key.zone], failed.get(seq))
        self.seconds += self._clock().since(started)

    @staticmethod
    def _note(account: ZoneAccount, error: CtctlError | None) -> None:
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
