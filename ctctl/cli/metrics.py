"""`ctctl metrics`."""

from __future__ import annotations

import click

from ctctl.cli.exit_codes import ExitCode
from ctctl.cli.output import print_json
from ctctl.metrics import catalogue


@click.command(short_help="The catalogue of all metrics.")
@click.option("-o", "--output", type=click.Choice(["markdown", "json"]), default="markdown", help="Format.")
def metrics(output: str) -> int:
    """Print every metric: name, type, labels and meaning."""
    if output == "json":
        print_json(catalogue.as_data())
    else:
        click.echo(catalogue.markdown(), nl=False)
    return ExitCode.DONE
