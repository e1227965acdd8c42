"""Samples of one scrape, gathered under the names, types and labels of the catalogue.

A name or a number of labels that the catalogue does not know is a bug and raises at once. Keeps nothing between
scrapes, so a series ends with the thing it stood for.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from math import inf
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)

from ctctl.metrics.catalogue import METRICS
from ctctl.metrics.metric import Metric, MetricType
from ctctl.model.histogram import Histogram

_FAMILY_TYPES: Final = {
    MetricType.COUNTER: CounterMetricFamily,
    MetricType.GAUGE: GaugeMetricFamily,
    MetricType.HISTOGRAM: HistogramMetricFamily,
    MetricType.INFO: InfoMetricFamily,
}


class Families:
    """The families one collector fills at one scrape."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def _family(self, name: str, label_values: tuple[str, ...]) -> tuple[Metric, Family]:
        metric = METRICS[name]
        if len(label_values) != len(metric.labels):
            raise ValueError(f"{name} has labels {metric.label_names}, got values {label_values}")
        family = self._families.get(name)
        if family is None:
            # The info family's own name ends before `_info`; the client library appends it to each sample.
            own_name = name.removesuffix("_info") if metric.type is MetricType.INFO else name
            family = _FAMILY_TYPES[metric.type](own_name, metric.help)
            self._families[name] = family
        return metric, family

    def put(self, name: str, value: float, *label_values: str) -> None:
        """One sample of a counter, gauge or info (value 1)."""
        metric, family = self._family(name, label_values)
        family.add_sample(name, dict(zip(metric.label_names, label_values, strict=True)), value)

    def put_histogram(self, name: str, histogram: Histogram, *label_values: str) -> None:
        """One histogram; its bounds must be the catalogue's."""
        metric, family = self._family(name, label_values)
        if histogram.bounds != metric.bounds_s:
            raise ValueError(f"{name} has buckets {metric.bounds_s}, got {histogram.bounds}")
        labels = dict(zip(metric.label_names, label_values, strict=True))
        cumulative = accumulate(histogram.counts)
        for bound, count in zip((*histogram.bounds, inf), cumulative, strict=True):
            family.add_sample(f"{name}_bucket", {**labels, "le": "+Inf" if bound == inf else repr(bound)}, count)
        family.add_sample(f"{name}_count", labels, histogram.count)
        family.add_sample(f"{name}_sum", labels, histogram.total_s)

    def in_order(self) -> Iterable[Family]:
        """The families that have samples, in the catalogue's order."""
        return (self._families[name] for name in METRICS if name in self._families)
