"""`ctctl`: the command group, and the boundary where errors become one line and an exit code."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Final

import click

import ctctl
from ctctl.cli.exit_codes import ExitCode
from ctctl.cli.output import printable
from ctctl.errors import ConfigError, CtctlError, InvalidZoneError

_COMMANDS: Final = {
    "agent": "ctctl.cli.agent",
    "zones": "ctctl.cli.zones",
    "flush": "ctctl.cli.flush",
    "doctor": "ctctl.cli.doctor",
    "status": "ctctl.cli.status",
    "events": "ctctl.cli.events",
    "pause": "ctctl.cli.pause",
    "resume": "ctctl.cli.pause",
    "check-config": "ctctl.cli.check_config",
    "completion": "ctctl.cli.completion",
    "metrics": "ctctl.cli.metrics",
}


class _Group(click.Group):
    """Loads a command's module when it is used, so that `ctctl zones` does not import the agent's libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = __import__(_COMMANDS[cmd_name], fromlist=["command"])
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command


@click.command(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(ctctl.__version__, prog_name="ctctl")
def ctctl_command() -> None:
    """Conntrack zones of an OVN node: who owns them, what they hold, and how to flush one safely."""


def main() -> None:
    """Run the command line; never shows a traceback."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot spell is still a result
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    stdout = sys.stdout
    try:
        code = ctctl_command.main(arguments, prog_name="ctctl", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        return _without_reader()
    except SystemExit as end:
        # When a pipe breaks under them, click replaces standard output and exits, and rich exits on the error itself.
        # Completion for a shell exits too.
        is_broken = sys.stdout is not stdout or isinstance(end.__context__, BrokenPipeError)
        return _without_reader() if is_broken else int(end.code or 0)
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the last boundary: nothing is dumped on an operator
        return _complain(*_explained(error))
    return int(code or ExitCode.DONE)


def _explained(error: BaseException) -> tuple[str, ExitCode]:
    match error:
        case click.exceptions.Abort() | KeyboardInterrupt():
            return "aborted", ExitCode.FAILED
        case ConfigError() | InvalidZoneError():
            return str(error), ExitCode.USAGE
        case CtctlError():
            return str(error), ExitCode.FAILED
        case OSError():
            return f"the operating system refused: {error}", ExitCode.FAILED
        case _:
            text = f"unexpected {type(error).__name__}: {error}; please report this with what you ran"
            return text, ExitCode.FAILED


def _without_reader() -> int:
    """The reader of a pipe went away; so may we, quietly and without a second error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return int(ExitCode.DONE)


def _complain(text: str, code: ExitCode) -> int:
    click.echo(f"ctctl: {printable(text)}", err=True)
    return int(code)


if __name__ == "__main__":
    main()
