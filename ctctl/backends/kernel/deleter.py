"""Deletes from named conntrack zones of the kernel's table, by the fastest way that is safe on this kernel."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from ctctl.backends.kernel import dump
from ctctl.backends.kernel.costs import FlushCosts
from ctctl.backends.kernel.deletion import Deletion, prepare
from ctctl.backends.kernel.failures import failure
from ctctl.backends.kernel.selection import Selection
from ctctl.backends.kernel.table import entries_now, filters_by_zone
from ctctl.clients.netlink import NETLINK_NETFILTER, KernelRefusedError, NetlinkSocket
from ctctl.errors import CtctlError
from ctctl.model.conntrack import EntryKey
from ctctl.model.flush import FailureReason, FlushFailure, FlushResult, Strategy
from ctctl.model.ids import FlushableZoneId, flushable_zone_id
from ctctl.model.instant import Instant
from ctctl.wire.conntrack_delete import PlainFormEvidence, guarded_zone_flush, plain_zone_flush

DEFAULT_TIMEOUT_S: Final = 60.0

Outcome = FlushResult | FlushFailure


class KernelDeleter:
    """Deletes in the table of the calling thread's network namespace. Every method names its zones.

    `clock` times what is done. `costs`: measurements to share with a `KernelReader` of the same table.

    What this kernel can do is probed before every flush, in the same namespace, so no answer outlives its question.
    """

    def __init__(self, clock: Callable[[], Instant], *, costs: FlushCosts | None = None) -> None:
        self._clock = clock
        self._costs = FlushCosts() if costs is None else costs

    def flush_zone(self, zone: FlushableZoneId, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> Outcome:
        """Delete every entry of one zone; see `ConntrackDeleter.flush_zone`.

        Raises:
            InvalidZoneError: `zone` may not be flushed.
        """
        return self.flush_zones((zone,), timeout_s=timeout_s)[0]

    def flush_zones(
        self, zones: Sequence[FlushableZoneId], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[Outcome, ...]:
        """Delete every entry of several zones; one outcome per zone, in the order given, equal zones once.

        Few zones are flushed one by one by the kernel's filter; from about ten on one dump with entry deletes is
        faster. Where exactly follows from what both took here.

        Raises:
            InvalidZoneError: one of them may not be flushed; then nothing is sent.
        """
        remaining = _checked(zones)
        outcomes: list[Outcome] = []
        while remaining:
            try:
                by_dump = not filters_by_zone() or self._costs.is_dump_cheaper(remaining, entries_now())
            except CtctlError as error:
                return (*outcomes, *(failure(zone, error) for zone in remaining))
            if by_dump:
                return (*outcomes, *self._flush_by_dump(remaining, timeout_s, address=None))
            outcomes.append(self._flush_by_filter(remaining[0], timeout_s))
            remaining = remaining[1:]
        return tuple(outcomes)

    def delete_entries(self, keys: Sequence[EntryKey], *, timeout_s: float = DEFAULT_TIMEOUT_S) -> tuple[Outcome, ...]:
        """Delete exactly these entries; one outcome per zone, in order of first appearance.

        Raises:
            InvalidZoneError, ValueError, MalformedMessageError: a key no dump can have yielded; then nothing is sent.
        """
        started = self._clock()
        batches = prepare(keys)
        deletion = Deletion((key.zone for key in keys), self._clock, timeout_s=timeout_s)
        try:
            deletion.delete(batches)
        except CtctlError as error:
            deletion.fail(error)
        return self._outcomes(deletion, started)

    def delete_address(
        self,
        zones: Sequence[FlushableZoneId],
        address: IPv4Address | IPv6Address,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> tuple[Outcome, ...]:
        """Delete the entries of `zones` that have `address` as source or destination, in either direction.

        One outcome per zone, in the order given. Costs one dump: the kernel's own address filter does not limit by
        zone, and inverts its answer for IPv6 (Linux 6.12, 6.18).

        Raises:
            InvalidZoneError: a zone that may not be deleted from; then nothing is sent.
        """
        return self._flush_by_dump(_checked(zones), timeout_s, address=address)

    def _flush_by_filter(self, zone: FlushableZoneId, timeout_s: float) -> Outcome:
        """Let the kernel flush one zone. Only after a positive probe."""
        try:
            entries = entries_now()
            started = self._clock()
            try:
                _send_flush(lambda seq: guarded_zone_flush(seq, zone), zone, timeout_s)
            except KernelRefusedError as error:
                if error.number != errno.EOPNOTSUPP or not filters_by_zone():
                    raise
                # Linux 6.8 … 6.11: filters a flush by zone and does not know CTA_FILTER in one.
                evidence = PlainFormEvidence(kernel_filters_by_zone=True, guarded_form_refused=True)
                _send_flush(lambda seq: plain_zone_flush(seq, zone, evidence), zone, timeout_s)
        except CtctlError as error:
            return failure(zone, error)
        duration_s = self._clock().since(started)
        self._costs.note_filtered_flush(duration_s, entries)
        return FlushResult(zone, Strategy.KERNEL_FILTER, duration_s, deleted=None)

    def _flush_by_dump(
        self, zones: tuple[FlushableZoneId, ...], timeout_s: float, *, address: IPv4Address | IPv6Address | None
    ) -> tuple[Outcome, ...]:
        if not zones:
            return ()
        started = self._clock()
        deletion = Deletion(zones, self._clock, timeout_s=timeout_s)
        selection = Selection(deletion, address)
        try:
            _, attempts = dump.read_table(selection, lambda: self._clock().since(started) > timeout_s)
        except CtctlError as error:
            deletion.fail(error)
        else:
            if attempts == 1:
                dump_s = self._clock().since(started) - deletion.seconds
                self._costs.note_dump(dump_s, selection.entries_by_zone())
            self._costs.note_deletes(deletion.seconds, deletion.deletes)
        return tuple(
            _unnameable(outcome, selection.unnameable.get(outcome.zone, 0))
            for outcome in self._outcomes(deletion, started)
        )

    def _outcomes(self, deletion: Deletion, started: Instant) -> tuple[Outcome, ...]:
        duration_s = self._clock().since(started)
        return tuple(
            FlushResult(zone, Strategy.ENTRY_DELETE, duration_s, account.deleted, account.already_gone)
            if account.error is None
            else failure(zone, account.error, account.deleted, account.already_gone)
            for zone, account in deletion
        )


def _checked(zones: Sequence[FlushableZoneId]) -> tuple[FlushableZoneId, ...]:
    return tuple(dict.fromkeys(flushable_zone_id(zone) for zone in zones))


def _send_flush(build: Callable[[int], bytes], zone: FlushableZoneId, timeout_s: float) -> None:
    with NetlinkSocket(NETLINK_NETFILTER, timeout_s=timeout_s) as kernel:
        seq = kernel.next_seq()
        kernel.send(build(seq))
        for _ in kernel.answers(seq, f"flushing conntrack zone {zone}"):
            pass


def _unnameable(outcome: Outcome, count: int) -> Outcome:
    """An outcome that does not claim entries gone which no delete by original tuple can name."""
    if not count or isinstance(outcome, FlushFailure):
        return outcome
    why = f"{count} entries of conntrack zone {outcome.zone} are in it by their reply direction only and were left"
    return FlushFailure(outcome.zone, FailureReason.KERNEL_ERROR, why, outcome.deleted or 0, outcome.already_gone)
