"""`ctctl zones --watch`: the table again and again, with how fast each zone grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, cast

from rich.live import Live
from rich.text import Text

from ctctl.agent.reports import Report
from ctctl.cli.output import console, table_lines

INTERVAL_S: Final = 1.0

Columns = dict[str, Callable[[Report], object]]


class Sort(StrEnum):
    """Column by which zones are sorted; figures largest first."""

    ZONE = "ct_zone"
    OWNER = "owner"
    ENTRIES = "entries"
    RATE = "rate"


class Rates:
    """Entries per second and zone, from one listing to the next that differs: an agent counts now and then only."""

    def __init__(self) -> None:
        self._before: dict[object, tuple[float, int]] = {}
        self._rates: dict[object, float] = {}

    def add(self, reports: Sequence[Report], now_s: float) -> list[Report]:
        """The reports, each with its `rate`; None before a zone's entries were seen to change."""
        for report in reports:
            zone, entries = report["ct_zone"], cast("int | None", report["entries"])
            if entries is None:
                continue
            seen_s, seen = self._before.get(zone, (now_s, entries))
            if zone not in self._before or entries != seen:
                if now_s > seen_s:
                    self._rates[zone] = (entries - seen) / (now_s - seen_s)
                self._before[zone] = (now_s, entries)
        return [{**report, "rate": self._rates.get(report["ct_zone"])} for report in reports]


def order(reports: Sequence[Report], sort: Sort) -> list[Report]:
    """Sorted for reading: names and numbers upwards, figures downwards, unknown ones last."""
    if sort in (Sort.ZONE, Sort.OWNER):
        return sorted(reports, key=lambda r: (str(r["owner"]) if sort is Sort.OWNER else "", cast("int", r["ct_zone"])))
    return sorted(reports, key=lambda r: -cast("float", r[sort.value] or 0))


def watch(columns: Columns, listing: Callable[[], list[Report]], sort: Sort) -> None:
    """Show the listing once a second until interrupted. On a terminal in place, else one table after the other."""
    rates = Rates()

    def current() -> list[Text]:
        return table_lines(columns, order(rates.add(listing(), time.monotonic()), sort))

    if not console.is_terminal:
        while True:
            for line in current():
                console.print(line)
            time.sleep(INTERVAL_S)
    with Live(console=console, auto_refresh=False, screen=True) as live:
        while True:
            room = max(3, console.height - 1)
            live.update(Text("\n").join(current()[:room]), refresh=True)
            time.sleep(INTERVAL_S)
