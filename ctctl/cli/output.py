"""How results are shown: a table for people, JSON for scripts. Names from databases cannot steer the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ctctl.agent.reports import Report


class Output(StrEnum):
    """`-o`."""

    TABLE = "table"
    JSON = "json"


_RIGHT: Final = frozenset({"ct_zone", "entries", "share", "limit", "number", "deleted", "duration"})
_STYLES: Final[Mapping[str, str]] = {
    "conflicting": "yellow",
    "ownerless": "yellow",
    "flushed": "green",
    "refused": "yellow",
    "failed": "red",
}

console = Console(highlight=False, soft_wrap=True)
"""Standard output; no colour when it is no terminal or NO_COLOR is set."""


def print_json(data: object) -> None:
    """One JSON document."""
    sys.stdout.write(json.dumps(data, indent=2) + "\n")


def print_table(columns: Mapping[str, Callable[[Report], object]], reports: Sequence[Report]) -> None:
    """Aligned columns; one plain line per report, no borders, so that it can be piped."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in _RIGHT else "left", no_wrap=True, overflow="fold")
    for report in reports:
        cells = [printable(_cell(value(report))) for value in columns.values()]
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in cells))
    width = None if console.is_terminal else 10_000
    console.print(table, width=width, crop=False)


def printable(text: str) -> str:
    """`text` without anything that a terminal would act on."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
