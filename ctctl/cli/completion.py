"""`ctctl completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ctctl.cli.exit_codes import ExitCode


@click.command(short_help="A script that completes ctctl's commands in your shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script, e.g. `ctctl completion bash > /etc/bash_completion.d/ctctl`."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    from ctctl.cli.main import ctctl_command  # noqa: PLC0415  # the group imports this module

    click.echo(kind(ctctl_command, {}, "ctctl", "_CTCTL_COMPLETE").source(), nl=False)
    return ExitCode.DONE
