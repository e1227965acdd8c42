"""The page made of measurements: tables side by side, ratios, and what was aimed at."""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.bench.kernel_measure import (
    BARE,
    COUNT,
    DETAIL,
    FLOOR,
    FLUSH,
    FLUSH_MANY,
    KEEP,
    KEEP_SAMPLES,
    LIST,
    OLD_OVS,
    ONE_BY_ONE,
    PIPELINED,
    TOOL,
    Series,
)

HEAD: Final = """# Performance

Written by `python -m tests.bench.kernel` on {date}: Linux {kernel}, {cpu}, {cores} cores, Python {python}, conntrack
buckets {buckets}. Load average when it ended: {load:.1f}.

Tables of {zones} zones in a private network namespace: 60 % TCP over IPv4, 20 % UDP, 10 % TCP over IPv6, 5 % ICMP,
5 % SCTP. What is compared ran interleaved in one process; medians. *Once*: measured a single time because it takes
long. Times differ between machines and moments; the ratios are what to look at.
"""


def page(all_series: Sequence[Series], pyroute2: tuple[float, float]) -> str:
    """The whole page, in Markdown."""
    largest = all_series[-1]
    return "\n".join(
        [
            _head(),
            "## Counting\n",
            *_counting(all_series, pyroute2),
            "\n## Flushing\n",
            *_flushing(all_series),
            f"\n## What was aimed at, at {largest.entries:,} entries\n",
            *_aims(all_series, pyroute2),
            "",
        ]
    )


def _head() -> str:
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return HEAD.format(
        date=dt.datetime.now(tz=dt.UTC).date(),
        kernel=platform.release().split("-")[0],
        cpu=cpu[1].replace("(R)", "").replace("(TM)", "") if cpu else platform.machine(),
        cores=os.cpu_count(),
        python=platform.python_version(),
        buckets=Path("/proc/sys/net/netfilter/nf_conntrack_buckets").read_text(encoding="utf-8").strip(),
        load=os.getloadavg()[0],
        zones=500,
    )


def _counting(all_series: Sequence[Series], pyroute2: tuple[float, float]) -> list[str]:
    header = "| | " + " | ".join(f"{s.entries:,}: ms | µs/entry | × floor" for s in all_series) + " |"
    lines = [header, "|---|" + "---:|---:|---:|" * len(all_series)]
    for name in (FLOOR, COUNT, KEEP, KEEP_SAMPLES, DETAIL, LIST):
        cells = [
            f"{s.median(name) * 1e3:,.0f}{_mark(s, name)} | {s.median(name) / s.entries * 1e6:.2f} | "
            f"{s.median(name) / s.median(FLOOR):.2f}"
            for s in all_series
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    per_entry, _ = pyroute2
    lines += [
        "",
        f"pyroute2's `NFCTSocket.dump()` took {per_entry * 1e6:.0f} µs per entry, in a small table (once, IPv4 only).",
        "",
        "Memory of a process that counts: "
        + ", ".join(f"{s.counting_rss_mib} MiB at {s.entries:,}" for s in all_series)
        + " (peak RSS, interpreter included).",
    ]
    return lines


def _flushing(all_series: Sequence[Series]) -> list[str]:
    lines = ["| ms | " + " | ".join(f"{s.entries:,}" for s in all_series) + " |", "|---|" + "---:|" * len(all_series)]
    for name in (BARE, FLUSH, TOOL, OLD_OVS, FLUSH_MANY):
        cells = [f"{s.median(name) * 1e3:,.1f}{_mark(s, name)}" for s in all_series]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines.append(
        "| 50 zones: 50 × `conntrack -D -w`, from one | "
        + " | ".join(f"{50 * s.median(TOOL) * 1e3:,.0f}" for s in all_series)
        + " |"
    )
    lines += [
        "",
        "| µs | " + " | ".join(f"{s.entries:,}" for s in all_series) + " |",
        "|---|" + "---:|" * len(all_series),
    ]
    for name in (ONE_BY_ONE, PIPELINED):
        lines.append(f"| {name} | " + " | ".join(f"{s.median(name) * 1e6:.2f}" for s in all_series) + " |")
    lines += [
        "",
        "From how many zones on one dump with entry deletes is chosen instead of a filtered flush each, and where the "
        "costs cross by the medians above: "
        + ", ".join(f"{s.crossover_chosen} and {s.crossover_measured:.1f} at {s.entries:,}" for s in all_series)
        + ".",
    ]
    return lines


def _aims(all_series: Sequence[Series], pyroute2: tuple[float, float]) -> list[str]:
    last, first = all_series[-1], all_series[0]
    per_entry = [s.median(COUNT) / s.entries for s in all_series]
    count_ratio = last.median(COUNT) / last.median(FLOOR)
    rows = [
        ("count, × the floor", count_ratio, 1.15, "at most"),
        ("count, × faster than pyroute2", pyroute2[0] / (last.median(COUNT) / last.entries), 25, "at least"),
        ("keeping 2 % of the zones, × a count", last.median(KEEP) / last.median(COUNT), 1.10, "at most"),
        ("keeping those and samples, × a count", last.median(KEEP_SAMPLES) / last.median(COUNT), 1.10, "at most"),
        ("memory of a counting process, MiB", float(last.counting_rss_mib), 60, "at most"),
        ("flush of 1 zone, × faster than `conntrack -D -w`", last.median(TOOL) / last.median(FLUSH), 9, "at least"),
        ("flush of 1 zone, × the bare request", last.median(FLUSH) / last.median(BARE), 1.10, "at most"),
        (
            "flush of 50 zones, × faster than 50 × `conntrack -D -w`",
            50 * last.median(TOOL) / last.median(FLUSH_MANY), 30, "at least",
        ),
        ("pipelined, × faster than one by one", last.median(ONE_BY_ONE) / last.median(PIPELINED), 2.5, "at least"),
        (
            "crossover chosen, off from where costs cross (share)",
            abs(last.crossover_chosen - last.crossover_measured) / last.crossover_measured, 0.2, "at most",
        ),
        (f"count per entry, {last.entries:,} against {first.entries:,}", per_entry[-1] / per_entry[0], 1.25, "at most"),
    ]  # fmt: skip
    lines = ["| | aim | measured | |", "|---|---:|---:|---|"]
    for name, value, aim, direction in rows:
        is_met = value <= aim if direction == "at most" else value >= aim
        lines.append(f"| {name} | {direction} {aim:g} | {value:.2f} | {'met' if is_met else 'missed'} |")
    return lines


def _mark(series: Series, name: str) -> str:
    return " *once*" if name in series.once else ""
