"""The whole exposition of a busy node, as bytes that do not change by themselves.

`python -m tests.metrics.golden` writes it to golden.prom, and the reference page, after a change that is meant.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from ctctl.metrics.catalogue import markdown
from ctctl.metrics.collectors import SnapshotCollector
from tests.metrics.snapshots import NOW, busy_snapshot, table_stats

GOLDEN: Final = Path(__file__).with_name("golden.prom")
REFERENCE: Final = Path(__file__).parents[2] / "docs/reference/metrics.md"

_VARYING: Final = (
    (r"^(ctctl_scrape_collector_duration_seconds\{.*\}) .*$", r"\1 0.0"),
    (r"^ctctl_build_info\{.*\}", 'ctctl_build_info{python="3.11.0",version="0.0.0"}'),
)


def exposition() -> str:
    """The busy node's exposition in the classic text format, without durations and versions."""
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(busy_snapshot, table_stats, lambda: NOW))
    text = generate_latest(registry).decode()
    for pattern, replacement in _VARYING:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


if __name__ == "__main__":
    GOLDEN.write_text(exposition())
    REFERENCE.write_text(markdown())
