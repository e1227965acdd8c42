"""The table's exact size and the kernel's statistics, read at each scrape without ever waiting long for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final

from ctctl.errors import TimedOutError
from ctctl.metrics.catalogue import STATISTICS
from ctctl.metrics.families import Families
from ctctl.metrics.wrapping import WrapAccumulator
from ctctl.model.counts import TableStats
from ctctl.model.instant import Instant
from ctctl.model.snapshot import Snapshot

READ_TIMEOUT_S: Final = 0.5
"""The kernel answers in microseconds, or after the flush that holds its mutex (0.3 s at a million entries)."""


class PatientReader:
    """Calls `read` in a thread of its own, so that a caller waits at most `timeout_s` for it.

    At most one call is under way: while one hangs, later callers wait for that same call and start no other. May be
    called from any thread.
    """

    def __init__(self, read: Callable[[], TableStats], timeout_s: float = READ_TIMEOUT_S) -> None:
        self._read = read
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._pending: Future[TableStats] | None = None

    def __call__(self) -> TableStats:
        """The table's statistics as of now, or as of the call that was still under way.

        Raises:
            TimedOutError: no answer within `timeout_s`.
            UnavailableError: what `read` raised.
        """
        with self._lock:
            pending = self._pending
            if pending is None:
                pending = self._pending = Future()
                threading.Thread(target=self._answer, args=(pending,), name="ctctl-table-stats", daemon=True).start()
        wait((pending,), self._timeout_s)
        if not pending.done():
            raise TimedOutError(
                f"the kernel did not give the conntrack table's size within {self._timeout_s:g} s",
                remedy="another conntrack request may hold its lock; it is asked again at the next scrape",
            )
        return pending.result()

    def _answer(self, into: Future[TableStats]) -> None:
        try:
            stats = self._read()
        except Exception as error:  # noqa: BLE001 a thread's top: the error is raised where the answer is awaited
            self._end()
            into.set_exception(error)
        else:
            self._end()
            into.set_result(stats)

    def _end(self) -> None:
        with self._lock:
            self._pending = None


class TableCollector:
    """Fills in the families of `Subject.TABLE`. Not thread-safe."""

    def __init__(self, read_table_stats: Callable[[], TableStats]) -> None:
        self._read = read_table_stats
        self._statistics = WrapAccumulator()

    def __call__(self, snapshot: Snapshot | None, now: Instant, into: Families) -> None:  # noqa: ARG002 one shape for all
        """One scrape's worth.

        Raises:
            UnavailableError: the table cannot be read now; nothing was filled in.
        """
        stats = self._read()
        totals = self._statistics.add(stats.counters_by_cpu)
        into.put("ctctl_conntrack_entries", stats.entries)
        if stats.limit is not None:
            into.put("ctctl_conntrack_entries_limit", stats.limit)
        if stats.buckets is not None:
            into.put("ctctl_conntrack_buckets", stats.buckets)
        for name in STATISTICS:
            if name in totals:
                into.put(f"ctctl_conntrack_{name}_total", totals[name])
