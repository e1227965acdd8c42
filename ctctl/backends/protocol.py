"""What the agent asks of a conntrack table, whoever keeps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final, Protocol

from ctctl.model.capability import Probe
from ctctl.model.conntrack import EntryKey, Sighting
from ctctl.model.counts import CountIncompleteError, CountPass, Keep, TableStats
from ctctl.model.flush import FlushFailure, FlushResult
from ctctl.model.ids import FlushableZoneId

__all__ = ["NO_SIGHTINGS", "ConntrackDeleter", "ConntrackReader", "CountIncompleteError"]

NO_SIGHTINGS: Final = Keep()
"""Count only."""


class ConntrackReader(Protocol):
    """Reads the table; cannot delete. Each method may be called from any thread, one call at a time per reader."""

    def probe(self) -> tuple[Probe, ...]:
        """Ask anew what this kernel (or vswitchd) can do. Changes nothing, never raises."""
        ...

    def count(self, should_stop: Callable[[], bool], keep: Keep = NO_SIGHTINGS) -> CountPass:
        """One pass over the whole table, retried where the other side interrupted it.

        `keep` chooses the entries that come back as sightings. A pass that is to keep whole zones is never a sampled
        one, and a sampled one has no sightings.

        Raises:
            CountIncompleteError: no whole pass could be had, with the reason, or `should_stop()` became true.
        """
        ...

    def look_up(self, keys: Sequence[EntryKey]) -> tuple[Sighting | None, ...]:
        """Each of these entries as it is now, None where there is none of this tuple, zone and id any more.

        Raises:
            CtctlError: the table cannot be reached, or answered with an error.
        """
        ...

    def table_stats(self) -> TableStats:
        """Exact total, limit and per-CPU statistics, in microseconds.

        Raises:
            UnavailableError: the table cannot be reached (module not loaded, no permission).
        """
        ...


class ConntrackDeleter(Protocol):
    """Deletes from named zones only."""

    def flush_zone(self, zone: FlushableZoneId, *, timeout_s: float) -> FlushResult | FlushFailure:
        """Delete every entry of one zone, by the fastest way that is safe on this kernel.

        "Nothing there" is success. Returns when done; a filtered flush cannot be interrupted (the kernel works
        inside `send()`), so call it from a worker thread.
        """
        ...

    def flush_zones(
        self, zones: Sequence[FlushableZoneId], *, timeout_s: float
    ) -> tuple[FlushResult | FlushFailure, ...]:
        """Delete every entry of several zones; one outcome per zone, in the order given."""
        ...

    def delete_entries(self, keys: Sequence[EntryKey], *, timeout_s: float) -> tuple[FlushResult | FlushFailure, ...]:
        """Delete exactly these entries; one outcome per zone, in order of first appearance."""
        ...

    def delete_address(
        self, zones: Sequence[FlushableZoneId], address: IPv4Address | IPv6Address, *, timeout_s: float
    ) -> tuple[FlushResult | FlushFailure, ...]:
        """Delete the entries of `zones` that have `address` in either tuple; one outcome per zone, as given."""
        ...
