"""One scrape: each part of the exposition built apart from the others, timed, and counted when it fails.

Reads the agent's last snapshot and the table's statistics, nothing else; never dumps, never talks to a daemon.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from threading import Lock
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger

import ctctl
from ctctl.errors import PermissionDeniedError, ProtocolError, TimedOutError, UnavailableError
from ctctl.metrics.catalogue import COLLECTORS
from ctctl.metrics.collect_agent import collect_agent
from ctctl.metrics.collect_flushes import collect_flushes, collect_routers
from ctctl.metrics.collect_stalls import collect_stalls
from ctctl.metrics.collect_table import TableCollector
from ctctl.metrics.collect_zones import ZoneCollector
from ctctl.metrics.families import Families
from ctctl.metrics.metric import CollectorError, Subject
from ctctl.model.counts import TableStats
from ctctl.model.instant import Instant
from ctctl.model.snapshot import Snapshot

log: Final[FilteringBoundLogger] = structlog.get_logger("ctctl.metrics")

Clock = Callable[[], Instant]
SnapshotPart = Callable[[Snapshot, Instant, Families], None]


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """What `/metrics` may cost."""

    max_zone_series: int = 512
    """Zones that get series of their own; the entries of all others are `ctctl_ct_zone_entries_unlisted`."""


def error_class(error: Exception) -> CollectorError:
    """The class under which a collector's failure is counted."""
    match error:
        case PermissionDeniedError():
            return CollectorError.PERMISSION
        case TimedOutError():
            return CollectorError.TIMEOUT
        case UnavailableError():
            return CollectorError.UNAVAILABLE
        case ProtocolError():
            return CollectorError.PROTOCOL
        case _:
            return CollectorError.BUG


class SnapshotCollector(Collector):
    """All `ctctl_*` families except those of the HTTP server, built afresh at each scrape.

    `snapshot`: the last one published, None before the first. `read_table_stats`: may raise UnavailableError, must
    return promptly. Only tallies of its own failures and the wrap-free kernel counters live from scrape to scrape.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot | None],
        read_table_stats: Callable[[], TableStats],
        clock: Clock,
        settings: MetricsSettings | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._table = TableCollector(read_table_stats)
        self._parts: Mapping[Subject, SnapshotPart] = {
            Subject.AGENT: collect_agent,
            Subject.ZONES: ZoneCollector((settings or MetricsSettings()).max_zone_series),
            Subject.FLUSHES: collect_flushes,
            Subject.ROUTERS: collect_routers,
            Subject.STALLS: collect_stalls,
        }
        self._errors: dict[tuple[Subject, CollectorError], int] = dict.fromkeys(product(COLLECTORS, CollectorError), 0)
        self._last_success: dict[Subject, float] = {}
        self._failing: dict[Subject, str] = {}
        self._lock = Lock()

    def describe(self) -> Iterable[Family]:
        """Nothing: registering must not collect."""
        return ()

    def collect(self) -> Iterable[Family]:
        """One scrape. Never raises for a part that fails; that part's families are absent then."""
        with self._lock:
            snapshot, now = self._snapshot(), self._clock()
            frame = Families()
            frame.put("ctctl_build_info", 1, ctctl.__version__, platform.python_version())
            parts = [self._collect_part(subject, snapshot, now, frame) for subject in COLLECTORS]
            for (subject, reason), number in self._errors.items():
                frame.put("ctctl_collector_errors_total", number, subject, reason)
            for subject, wall_s in self._last_success.items():
                frame.put("ctctl_collector_last_success_timestamp_seconds", wall_s, subject)
        return [*frame.in_order(), *(family for part in parts for family in part.in_order())]

    def _collect_part(self, subject: Subject, snapshot: Snapshot | None, now: Instant, frame: Families) -> Families:
        """One part, and its success and duration put into `frame`; empty when it fails or nothing is known yet."""
        part = Families()
        is_success = False
        started_s = time.perf_counter()
        try:
            if subject is Subject.TABLE:
                self._table(snapshot, now, part)
                is_success = True
            elif snapshot is not None:
                self._parts[subject](snapshot, now, part)
                is_success = True
        except Exception as error:  # noqa: BLE001 the per-collector boundary: one failing part never fails the scrape
            part = Families()
            self._errors[subject, error_class(error)] += 1
            self._log_failure(subject, error)
        else:
            if self._failing.pop(subject, None) is not None:
                log.info("collector_recovered", collector=subject.value)
        frame.put("ctctl_scrape_collector_duration_seconds", time.perf_counter() - started_s, subject)
        frame.put("ctctl_scrape_collector_success", is_success, subject)
        if is_success and (wall_s := _data_time(subject, snapshot, now)) is not None:
            self._last_success[subject] = wall_s
        return part

    def _log_failure(self, subject: Subject, error: Exception) -> None:
        """One line when a failure starts or changes; a traceback only for what is a bug."""
        text = str(error) or type(error).__name__
        if self._failing.get(subject) == text:
            return
        self._failing[subject] = text
        is_bug = error_class(error) is CollectorError.BUG
        log.warning("collector_failed", collector=subject.value, error=text, exc_info=error if is_bug else None)


def _data_time(subject: Subject, snapshot: Snapshot | None, now: Instant) -> float | None:
    """Unix time of the data a part was just made of, None while there is none."""
    if subject is Subject.TABLE or snapshot is None:
        return now.wall_s
    if subject is Subject.ZONES:
        return None if snapshot.count is None else snapshot.count.ended.wall_s
    return snapshot.at.wall_s


def build_registry(*collectors: Collector) -> CollectorRegistry:
    """A registry with `collectors` and the client library's own process_* and python_* families."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
