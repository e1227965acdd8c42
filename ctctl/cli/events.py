"""`ctctl events`."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

import click

from ctctl.agent.reports import Report
from ctctl.cli.exit_codes import ExitCode
from ctctl.cli.options import config_option, output_option, settings_from
from ctctl.cli.output import Output, print_json, printable
from ctctl.cli.zones import ASK_TIMEOUT_S
from ctctl.clients.control import ask

FOLLOW_INTERVAL_S: Final = 0.5


@click.command(short_help="Verdicts, flushes, holds and changes, newest last.")
@click.option("--follow", is_flag=True, help="Go on and print what happens; as JSON lines with -o json.")
@output_option
@config_option
def events(follow: bool, output: str, config: Path | None) -> int:
    """Show what the agent saw and did."""
    socket = Path(settings_from(config).control.socket)
    last = 0
    found = _after(socket, last)
    if output == Output.JSON and not follow:
        print_json(found)
        return ExitCode.DONE
    while True:
        for report in found:
            click.echo(json.dumps(report) if output == Output.JSON else _line(report))
        if not follow:
            return ExitCode.DONE
        last = cast("int", found[-1]["number"]) if found else last
        time.sleep(FOLLOW_INTERVAL_S)
        found = _after(socket, last)


def _after(socket: Path, number: int) -> list[Report]:
    answer = ask(socket, {"command": "events", "after": number}, timeout_s=ASK_TIMEOUT_S)
    return cast("list[Report]", answer)


def _line(report: Report) -> str:
    at = datetime.fromtimestamp(cast("float", report["time"]), tz=UTC).astimezone()
    return f"{at:%Y-%m-%d %H:%M:%S} {report['kind']!s:8} {printable(str(report['text']))}"
