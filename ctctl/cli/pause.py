"""`ctctl pause` and `ctctl resume`."""

from __future__ import annotations

from pathlib import Path

import click

from ctctl.cli.exit_codes import ExitCode
from ctctl.cli.options import config_option, settings_from
from ctctl.cli.zones import ASK_TIMEOUT_S
from ctctl.clients.control import ask


@click.command(short_help="Hold every flush of this node's agent until `resume`.")
@config_option
def pause(config: Path | None) -> int:
    """Hold every flush, also across restarts of the agent. Counting and metrics go on."""
    ask(Path(settings_from(config).control.socket), {"command": "pause"}, timeout_s=ASK_TIMEOUT_S)
    click.echo("paused: nothing is flushed until `ctctl resume`")
    return ExitCode.DONE


@click.command(short_help="Take a pause back.")
@config_option
def resume(config: Path | None) -> int:
    """Let flushes go again."""
    ask(Path(settings_from(config).control.socket), {"command": "resume"}, timeout_s=ASK_TIMEOUT_S)
    click.echo("resumed")
    return ExitCode.DONE
