"""What the agent asks of a conntrack table, whoever keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ctctl.errors import CtctlError
from ctctl.model.capability import Probe
from ctctl.model.counts import CountPass, IncompleteReason, TableStats
from ctctl.model.flush import FlushFailure, FlushResult
from ctctl.model.ids import FlushableZoneId


class CountIncompleteError(CtctlError):
    """A pass did not see the whole table; none of its figures is to be used."""

    def __init__(self, reason: IncompleteReason, what: str, *, remedy: str | None = None) -> None:
        super().__init__(what, remedy=remedy)
        self.reason = reason


class ConntrackReader(Protocol):
    """Reads the table; cannot delete. Each method may be called from any thread, one call at a time per reader."""

    def probe(self) -> tuple[Probe, ...]:
        """Ask anew what this kernel (or vswitchd) can do. Changes nothing, never raises."""
        ...

    def count(self, should_stop: Callable[[], bool]) -> CountPass:
        """One pass over the whole table, retried where the other side interrupted it.

        Raises:
            CountIncompleteError: no whole pass could be had, with the reason, or `should_stop()` became true.
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
