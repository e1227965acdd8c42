"""What a metric is: the noun the catalogue is made of. Knows no value of any metric and no third party."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MetricType(StrEnum):
    """Types of the exposition formats. An info is a gauge that is always 1."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


class Subject(StrEnum):
    """Who fills a metric: label values of `collector`, and `scrape`, the frame around the collectors."""

    SCRAPE = "scrape"
    AGENT = "agent"
    TABLE = "table"
    ZONES = "zones"
    FLUSHES = "flushes"
    ROUTERS = "routers"
    STALLS = "stalls"
    HTTP = "http"


class CollectorError(StrEnum):
    """Why a collector failed: label values of `reason` in `ctctl_collector_errors_total`."""

    PERMISSION = "permission"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class Label:
    """One label. `values`: every value it can have where these are fixed, empty where they come from the node."""

    name: str
    meaning: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family of the exposition.

    `name`: as scraped, with `_total` on counters. `counts`: what a value stands for. `refreshed`: when it changes.
    `misses`: what it does not see, "" where it sees everything. `bounds_s`: upper bounds of a histogram's buckets.
    """

    name: str
    type: MetricType
    subject: Subject
    counts: str
    refreshed: str
    misses: str = ""
    labels: tuple[Label, ...] = ()
    bounds_s: tuple[float, ...] = ()

    @property
    def help(self) -> str:
        """The HELP line: what is counted, when it is refreshed, what it misses."""
        text = f"{self.counts}. Refreshed {self.refreshed}."
        return f"{text} Misses {self.misses}." if self.misses else text

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels, in the order samples give their values."""
        return tuple(label.name for label in self.labels)
