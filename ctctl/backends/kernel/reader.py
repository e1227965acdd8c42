"""Counts the kernel's conntrack table. Holds nothing that could build a delete."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import replace

from ctctl.backends.kernel import dump
from ctctl.backends.kernel.costs import FlushCosts
from ctctl.backends.kernel.table import (
    BUCKETS_PATH,
    TIMEOUT_S,
    TIMESTAMP_PATH,
    entries_now,
    filters_by_zone,
    read_stats,
    setting,
)
from ctctl.backends.kernel.tally import Tally
from ctctl.backends.protocol import NO_SIGHTINGS
from ctctl.clients.netlink import NETLINK_NETFILTER, KernelRefusedError, NetlinkSocket
from ctctl.errors import CtctlError, UnavailableError
from ctctl.model.capability import Capability, Probe
from ctctl.model.conntrack import EntryKey, Sighting
from ctctl.model.counts import CountPass, Keep, TableStats
from ctctl.model.instant import Instant
from ctctl.wire import conntrack
from ctctl.wire.conntrack_entry import entry

Clock = Callable[[], Instant]


class KernelReader:
    """Reads the table of the calling thread's network namespace.

    `clock` dates passes and sightings. `wants_detail`: count by protocol, TCP state and assured too. `sample_above`:
    entries from which on a pass reads only that many and scales (None: never). `costs`: measurements to share with a
    `KernelDeleter` of the same table.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        wants_detail: bool = False,
        sample_above: int | None = None,
        costs: FlushCosts | None = None,
    ) -> None:
        self._clock = clock
        self._costs = FlushCosts() if costs is None else costs
        self._wants_detail = wants_detail
        self._sample_above = sample_above

    def probe(self) -> tuple[Probe, ...]:
        """Ask anew what this kernel can do. Changes nothing, never raises."""
        try:
            with NetlinkSocket(NETLINK_NETFILTER, timeout_s=TIMEOUT_S) as kernel:
                stats = read_stats(kernel)
        except CtctlError as error:
            return (
                Probe(Capability.CONNTRACK, is_supported=False, why=str(error)),
                Probe(Capability.KERNEL_ZONE_FLUSH, is_supported=None, why="conntrack cannot be reached"),
                _timestamps(),
            )
        found = Probe(Capability.CONNTRACK, is_supported=True, why=f"{stats.entries} entries")
        return found, _zone_flush(), _timestamps()

    def count(self, should_stop: Callable[[], bool], keep: Keep = NO_SIGHTINGS) -> CountPass:
        """One pass over the whole table; see `ConntrackReader.count`."""
        limit = None if keep.zones else self._sample_above
        if limit is not None and self._entries_now() <= limit:
            limit = None
        tally = Tally(
            keep if limit is None else NO_SIGHTINGS, self._clock, wants_detail=self._wants_detail, stop_at=limit
        )
        started = self._clock()
        is_whole, attempts = dump.read_table(tally, should_stop)
        ended = self._clock()
        if not is_whole:
            return tally.scaled(started, ended, attempts, self._entries_now())
        whole = tally.whole(started, ended, attempts)
        if attempts == 1 and not self._wants_detail:
            self._costs.note_dump(whole.duration_s, whole.entries_by_zone)
        return whole

    def _entries_now(self) -> int:
        try:
            return entries_now()
        except CtctlError as error:
            raise dump.incomplete(error) from error

    def look_up(self, keys: Sequence[EntryKey]) -> tuple[Sighting | None, ...]:
        """Each of these entries as it is now; see `ConntrackReader.look_up`. About 11 µs each."""
        with NetlinkSocket(NETLINK_NETFILTER, timeout_s=TIMEOUT_S) as kernel:
            return tuple(self._look_up_one(kernel, key) for key in keys)

    def _look_up_one(self, kernel: NetlinkSocket, key: EntryKey) -> Sighting | None:
        seq = kernel.next_seq()
        kernel.send(conntrack.lookup_request(seq, key))
        try:
            replies = list(kernel.answers(seq, f"looking up an entry of conntrack zone {key.zone}"))
        except KernelRefusedError as error:
            if error.number == errno.ENOENT:
                return None
            raise
        for reply in replies:
            found = entry(reply.payload)
            if (found.zone, found.tuple_orig, found.entry_id) == (key.zone, key.tuple_orig, key.entry_id):
                return found.sighting(self._clock())
        return None

    def table_stats(self) -> TableStats:
        """Exact total, limit, buckets and per-CPU statistics; see `ConntrackReader.table_stats`."""
        try:
            with NetlinkSocket(NETLINK_NETFILTER, timeout_s=TIMEOUT_S) as kernel:
                stats = read_stats(kernel)
                seq = kernel.next_seq()
                kernel.send(conntrack.cpu_stats_request(seq))
                counters = dict(
                    conntrack.cpu_stats(reply) for reply in kernel.answers(seq, "reading conntrack CPU statistics")
                )
        except KernelRefusedError as error:
            raise UnavailableError(f"conntrack statistics: {error}") from error
        return replace(stats, buckets=setting(BUCKETS_PATH), counters_by_cpu=counters)


def _zone_flush() -> Probe:
    try:
        is_supported = filters_by_zone()
    except CtctlError as error:
        return Probe(Capability.KERNEL_ZONE_FLUSH, is_supported=None, why=str(error))
    why = "the kernel limits a flush to a zone" if is_supported else "the kernel ignores CTA_ZONE in a flush (< 6.8)"
    return Probe(Capability.KERNEL_ZONE_FLUSH, is_supported=is_supported, why=why)


def _timestamps() -> Probe:
    value = setting(TIMESTAMP_PATH)
    if value is None:
        return Probe(Capability.TIMESTAMPS, is_supported=None, why=f"cannot read {TIMESTAMP_PATH}")
    why = "entries carry their start time" if value else "off; set net.netfilter.nf_conntrack_timestamp=1"
    return Probe(Capability.TIMESTAMPS, is_supported=bool(value), why=why)
