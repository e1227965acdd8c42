"""How the demo talks: time-stamped, in colour on a terminal, with a check list that decides the exit code."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

INDENT = " " * 9
WIDTH = 118
PICTURED = ("3", "4")
"""Numbers of the scenes that the picture in the README shows."""


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, and whether it was kept."""

    promise: str
    is_kept: bool
    found: str


class Narrative:
    """Prints scenes, what was said and seen, and remembers every check."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, width=WIDTH, soft_wrap=True)
        self._picture = Console(highlight=False, width=WIDTH, soft_wrap=True, record=True, file=io.StringIO())
        self._is_pictured = False
        self.checks: list[Check] = []
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._begun

    def scene(self, title: str, what: str) -> None:
        """A new scene: what happens, and what to look for."""
        self._is_pictured = title.startswith(PICTURED)
        self._show(Text())
        self._show(Text(f"{title} ".ljust(WIDTH, "─"), style="bold cyan"))
        self._show(Text(what, style="italic"))

    def act(self, text: str) -> None:
        """Something that the demo does."""
        self._line(Text("▶ ") + Text(text, style="bold"))

    def say(self, text: str, style: str = "") -> None:
        """Something worth knowing."""
        self._line(Text(text, style=style))

    def quote(self, lines: Iterable[str], style: str = "dim") -> None:
        """Output of a program, as it came."""
        for line in lines:
            self._show(Text(INDENT + "│ " + line, style=style))

    def check(self, promise: str, is_kept: bool, found: str = "") -> None:
        """Note whether a promise was kept; shown at once and in the check list."""
        self.checks.append(Check(promise, is_kept, found))
        mark = Text("✔ ", style="bold green") if is_kept else Text("✘ ", style="bold red")
        detail = Text(f"  ({found})", style="dim") if found else Text()
        self._line(mark + Text(promise, style="green" if is_kept else "red") + detail)

    def finish(self) -> bool:
        """Print the check list; whether every promise was kept."""
        failed = [check for check in self.checks if not check.is_kept]
        self._is_pictured = False
        self._show(Text())
        self._show(Text("What was promised, and what happened ".ljust(WIDTH, "─"), style="bold cyan"))
        for check in self.checks:
            mark = Text(" ✔ ", style="bold green") if check.is_kept else Text(" ✘ ", style="bold red")
            detail = "" if check.is_kept or not check.found else f"  ({check.found})"
            self._show(mark + Text(check.promise) + Text(detail, style="red"))
        verdict = f"{len(self.checks) - len(failed)} of {len(self.checks)} kept, in {self.seconds:.0f} s"
        self._show(Text(verdict, style="bold green" if not failed else "bold red"))
        return not failed

    def _line(self, text: Text) -> None:
        self._show(Text(f"{self.seconds:7.2f}  ", style="dim") + text)

    def save_picture(self, path: str) -> None:
        """Save the scenes that the README shows, as SVG."""
        svg = self._picture.export_svg(title="make demo")
        # The viewer's own monospace font does; a picture fetches nothing from elsewhere.
        Path(path).write_text(re.sub(r"@font-face \{[^}]*\}", "", svg))

    def _show(self, line: Text) -> None:
        self.console.print(line)
        if self._is_pictured:
            self._picture.print(line)
