"""Deletes from named conntrack zones of the kernel's table, by the fastest way that is safe on this kernel."""

from __future__ import annotations

import errno
import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ctctl.backends.kernel import dump
from ctctl.backends.kernel.table import filters_by_zone
from ctctl.backends.protocol import CountIncompleteError
from ctctl.clients.netlink import (
    NETLINK_NETFILTER,
    InterruptedDumpError,
    KernelRefusedError,
    NetlinkSocket,
    OverrunError,
    TruncatedError,
)
from ctctl.errors import (
    CtctlError,
    PermissionDeniedError,
    ProtocolError,
    TimedOutError,
    UnavailableError,
)
from ctctl.model.conntrack import EntryKey
from ctctl.model.counts import IncompleteReason
from ctctl.model.flush import FailureReason, FlushFailure, FlushResult, Strategy
from ctctl.model.ids import FlushableZoneId, flushable_zone_id
from ctctl.model.instant import Instant
from ctctl.wire import netlink
from ctctl.wire.conntrack_delete import (
    MAX_DELETES_PER_SEND,
    PlainFormEvidence,
    entry_delete,
    guarded_zone_flush,
    plain_zone_flush,
)
from ctctl.wire.conntrack_entry import Entry, entry
from ctctl.wire.conntrack_walk import zone_of

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
PROBE_TIMEOUT_S: Final = 5.0
DEFAULT_TIMEOUT_S: Final = 60.0
CROSSOVER_ZONES: Final = 10
"""Zones from which on one dump and entry deletes are faster than one filtered flush each."""


@dataclass(slots=True)
class _Outcome:
    """What happened to one zone's entries so far."""

    deleted: int = 0
    already_gone: int = 0
    failure: CtctlError | None = None


class KernelDeleter:
    """Deletes in the table of the calling thread's network namespace. Every method names its zones."""

    def __init__(self, clock: Callable[[], Instant]) -> None:
        self._clock = clock

    def flush_zone(self, zone: FlushableZoneId, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> FlushResult | FlushFailure:
        """Delete every entry of one zone; see `ConntrackDeleter.flush_zone`.

        Raises:
            InvalidZoneError: `zone` may not be flushed.
        """
        checked = flushable_zone_id(zone)
        started = self._clock()
        try:
            if not filters_by_zone(PROBE_TIMEOUT_S):
                return self._flush_by_dump((checked,), timeout_s=timeout_s)[0]
            _filtered_flush(checked, timeout_s)
        except CtctlError as error:
            return failure(checked, error)
        return FlushResult(checked, Strategy.KERNEL_FILTER, self._clock().since(started), deleted=None)

    def flush_zones(
        self, zones: Sequence[FlushableZoneId], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[FlushResult | FlushFailure, ...]:
        """Delete every entry of several zones; one outcome per zone, in the order given.

        Few zones are flushed one by one by the kernel's filter; from some number on one dump and entry deletes are
        faster.

        Raises:
            InvalidZoneError: one of them may not be flushed; then nothing is sent.
        """
        checked = tuple(dict.fromkeys(flushable_zone_id(zone) for zone in zones))
        if len(checked) < CROSSOVER_ZONES:
            return tuple(self.flush_zone(zone, timeout_s=timeout_s) for zone in checked)
        return self._flush_by_dump(checked, timeout_s=timeout_s)

    def delete_entries(
        self, keys: Sequence[EntryKey], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[FlushResult | FlushFailure, ...]:
        """Delete exactly these entries; one outcome per zone, in order of first appearance.

        Raises:
            InvalidZoneError, ValueError: a key that no dump can have yielded; then nothing is sent.
        """
        for key in keys:
            entry_delete(1, key, wants_ack=False)
        outcomes: dict[FlushableZoneId, _Outcome] = {}
        started = self._clock()
        _delete(keys, outcomes, timeout_s)
        return self._results(outcomes, started)

    def delete_address(
        self, zones: Sequence[FlushableZoneId], address: Address, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[FlushResult | FlushFailure, ...]:
        """Delete the entries of `zones` in which `address` is source or destination, in either direction.

        One outcome per zone, in the order given.

        Raises:
            InvalidZoneError: a zone that may not be deleted from; then nothing is sent.
        """
        checked = tuple(dict.fromkeys(flushable_zone_id(zone) for zone in zones))
        packed = address.packed
        return self._flush_by_dump(checked, timeout_s=timeout_s, wants=lambda found: packed in found.addresses)

    def _flush_by_dump(
        self,
        zones: tuple[FlushableZoneId, ...],
        *,
        timeout_s: float,
        wants: Callable[[Entry], bool] = lambda _: True,
    ) -> tuple[FlushResult | FlushFailure, ...]:
        started = self._clock()
        wanted = frozenset(zones)
        pending: list[EntryKey] = []

        def on_entry(block: netlink.Bytes, start: int, end: int) -> None:
            if zone_of(block, start, end) in wanted:
                found = entry(memoryview(block)[start + netlink.HEADER.size : end])
                if not found.is_zoned_by_reply and wants(found):
                    pending.append(found.key())

        outcomes = {zone: _Outcome() for zone in zones}
        for attempt in range(1, dump.MAX_ATTEMPTS + 1):
            pending.clear()
            try:
                dump.read_table(on_entry, lambda: self._clock().since(started) > timeout_s)
            except CountIncompleteError as error:
                if attempt == dump.MAX_ATTEMPTS or not dump.is_worth_repeating(error):
                    return tuple(failure(zone, error) for zone in zones)
            else:
                break
        _delete(pending, outcomes, timeout_s)
        return self._results(outcomes, started)

    def _results(
        self, outcomes: dict[FlushableZoneId, _Outcome], started: Instant
    ) -> tuple[FlushResult | FlushFailure, ...]:
        duration_s = self._clock().since(started)
        return tuple(
            failure(zone, outcome.failure)
            if outcome.failure is not None
            else FlushResult(zone, Strategy.ENTRY_DELETE, duration_s, outcome.deleted, outcome.already_gone)
            for zone, outcome in outcomes.items()
        )


def failure(zone: FlushableZoneId, error: CtctlError) -> FlushFailure:
    """The reason a flush failed for, as one of the closed list."""
    if isinstance(error, CountIncompleteError):
        reason = {
            IncompleteReason.PERMISSION: FailureReason.PERMISSION,
            IncompleteReason.TIMEOUT: FailureReason.TIMEOUT,
            IncompleteReason.STOPPED: FailureReason.TIMEOUT,
        }.get(error.reason, FailureReason.INCOMPLETE_DUMP)
        return FlushFailure(zone, reason, str(error))
    for kind, reason in (
        (PermissionDeniedError, FailureReason.PERMISSION),
        (TimedOutError, FailureReason.TIMEOUT),
        (UnavailableError, FailureReason.UNAVAILABLE),
        (OverrunError, FailureReason.OVERRUN),
        (TruncatedError, FailureReason.OVERRUN),
        (InterruptedDumpError, FailureReason.INTERRUPTED),
        (ProtocolError, FailureReason.MALFORMED),
    ):
        if isinstance(error, kind):
            return FlushFailure(zone, reason, str(error))
    return FlushFailure(zone, FailureReason.KERNEL_ERROR, str(error))


def _filtered_flush(zone: FlushableZoneId, timeout_s: float) -> None:
    """Let the kernel flush one zone. Only after a positive probe."""
    try:
        _acknowledged(lambda seq: guarded_zone_flush(seq, zone), zone, timeout_s)
    except KernelRefusedError as error:
        if error.number != errno.EOPNOTSUPP:
            raise
        # Linux 6.8 … 6.11: filters by zone, knows no CTA_FILTER in a flush. Probed once more, right before.
        evidence = PlainFormEvidence(kernel_filters_by_zone=filters_by_zone(PROBE_TIMEOUT_S), guarded_form_refused=True)
        if not evidence.kernel_filters_by_zone:
            raise
        _acknowledged(lambda seq: plain_zone_flush(seq, zone, evidence), zone, timeout_s)


def _acknowledged(build: Callable[[int], bytes], zone: FlushableZoneId, timeout_s: float) -> None:
    with NetlinkSocket(NETLINK_NETFILTER, timeout_s=timeout_s) as kernel:
        seq = kernel.next_seq()
        kernel.send(build(seq))
        for _ in kernel.answers(seq, f"flushing conntrack zone {zone}"):
            pass


def _delete(keys: Sequence[EntryKey], outcomes: dict[FlushableZoneId, _Outcome], timeout_s: float) -> None:
    """Delete `keys` in batches and write what happened into `outcomes`."""
    if not keys:
        return
    for key in keys:
        outcomes.setdefault(key.zone, _Outcome())
    remaining = iter(keys)
    try:
        with NetlinkSocket(NETLINK_NETFILTER, timeout_s=timeout_s) as kernel:
            while batch := tuple(islice(remaining, MAX_DELETES_PER_SEND)):
                _delete_batch(kernel, batch, outcomes)
    except CtctlError as error:
        for outcome in outcomes.values():
            outcome.failure = outcome.failure or error


def _delete_batch(
    kernel: NetlinkSocket, batch: tuple[EntryKey, ...], outcomes: dict[FlushableZoneId, _Outcome]
) -> None:
    """One send. Only its last delete asks to be acknowledged; the others answer only if they fail."""
    by_seq = {kernel.next_seq(): key for key in batch}
    last = next(reversed(by_seq))
    kernel.send(b"".join(entry_delete(seq, key, wants_ack=seq == last) for seq, key in by_seq.items()))
    for key in batch:
        outcomes[key.zone].deleted += 1
    for seq, error in kernel.failures(by_seq.keys(), last, "deleting a conntrack entry"):
        outcome = outcomes[by_seq[seq].zone]
        outcome.deleted -= 1
        if isinstance(error, KernelRefusedError) and error.number == errno.ENOENT:
            outcome.already_gone += 1
        else:
            outcome.failure = outcome.failure or error
