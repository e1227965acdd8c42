"""`ctctl doctor`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.text import Text

from ctctl.cli.examination import Check, Host, State, examine
from ctctl.cli.exit_codes import ExitCode
from ctctl.cli.measuring import measure
from ctctl.cli.options import config_option, output_option, settings_from
from ctctl.cli.output import Output, console, print_json, printable

_STYLES = {State.GOOD: "green", State.NOTE: "yellow", State.BAD: "bold red", State.UNKNOWN: "yellow"}


@click.command(short_help="Every capability, permission, version and path, and what to do about each.")
@click.option("--measure", "is_measuring", is_flag=True, help="Also flush a free, empty zone once, to time a flush.")
@output_option
@config_option
def doctor(is_measuring: bool, output: str, config: Path | None) -> int:
    """Look at this host as the agent would, and say what is wrong and what would help.

    Reads only, unless asked to measure: the table is counted once, each daemon is asked for its version. Exits with 3
    when something is bad.
    """
    host = Host(settings_from(config))
    checks = examine(host)
    if is_measuring:
        checks.append(measure(host))
    if output == Output.JSON:
        print_json([asdict(check) for check in checks])
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            _print(check, width)
    return ExitCode.FOUND if any(check.state is State.BAD for check in checks) else ExitCode.DONE


def _print(check: Check, width: int) -> None:
    head = Text(f"{check.state:8}", style=_STYLES[check.state]) + Text(f"{check.name:{width}}  ")
    console.print(head + Text(printable(check.found)))
    if check.remedy:
        console.print(Text(" " * (10 + width) + "→ " + printable(check.remedy), style="cyan"))
