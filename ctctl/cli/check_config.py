"""`ctctl check-config`."""

from __future__ import annotations

from pathlib import Path

import click

from ctctl.cli.exit_codes import ExitCode
from ctctl.config.settings import load


@click.command("check-config", short_help="Check a configuration file with the agent's own parser.")
@click.argument("file", type=click.Path(path_type=Path))
def check_config(file: Path) -> int:
    """Read FILE as the agent would. Exits with 2 and names file, line and key when something is wrong."""
    load(file)
    click.echo(f"{file}: good")
    return ExitCode.DONE
