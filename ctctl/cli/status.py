"""`ctctl status`."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from ctctl.agent.reports import Report
from ctctl.cli.exit_codes import ExitCode
from ctctl.cli.options import config_option, output_option, settings_from
from ctctl.cli.output import Output, print_json, print_table
from ctctl.cli.zones import ASK_TIMEOUT_S
from ctctl.clients.control import ask


@click.command(short_help="Health of this node's agent in a few lines.")
@output_option
@config_option
def status(output: str, config: Path | None) -> int:
    """Show what the agent knows about itself and this host."""
    settings = settings_from(config)
    answer = ask(Path(settings.control.socket), {"command": "status"}, timeout_s=ASK_TIMEOUT_S)
    report = cast("Report", answer)
    if output == Output.JSON:
        print_json(report)
    else:
        lines: list[Report] = [{"what": key, "is": _shown(value)} for key, value in report.items()]
        print_table({"what": lambda r: r["what"], "is": lambda r: r["is"]}, lines)
    return ExitCode.DONE


def _shown(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items()) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value in ("", None) else value
