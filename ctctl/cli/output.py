"""How results are shown: a table for people, JSON for scripts. Names from databases cannot steer the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from rich.console import Console
from rich.text import Text

from ctctl.agent.reports import Report


class Output(StrEnum):
    """`-o`."""

    TABLE = "table"
    JSON = "json"


_RIGHT: Final = frozenset({"ct_zone", "entries", "share", "limit", "rate/s", "number", "deleted", "duration"})
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
    """Aligned columns; one line per report, never cut, no borders, so that it can be piped."""
    for line in table_lines(columns, reports):
        console.print(line)


def table_lines(columns: Mapping[str, Callable[[Report], object]], reports: Sequence[Report]) -> list[Text]:
    """The lines of such a table, the head first."""
    cells = [[printable(_cell(value(report))) for value in columns.values()] for report in reports]
    widths = [max(map(len, column)) for column in zip(list(columns), *cells, strict=True)]
    lines = [Text("  ").join(_padded(name, name, width, "bold") for name, width in zip(columns, widths, strict=True))]
    for row in cells:
        named = zip(columns, row, widths, strict=True)
        line = Text("  ").join(_padded(name, cell, width, _STYLES.get(cell, "")) for name, cell, width in named)
        line.rstrip()
        lines.append(line)
    return lines


def _padded(column: str, cell: str, width: int, style: str) -> Text:
    return Text(cell.rjust(width) if column in _RIGHT else cell.ljust(width), style=style)


def printable(text: str) -> str:
    """`text` without anything that a terminal would act on."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
