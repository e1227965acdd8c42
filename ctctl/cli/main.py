"""`ctctl`: the command group, and the boundary where errors become one line and an exit code."""

from __future__ import annotations

import os
import sys
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
    "status": "ctctl.cli.status",
    "events": "ctctl.cli.events",
    "pause": "ctctl.cli.pause",
    "resume": "ctctl.cli.pause",
    "check-config": "ctctl.cli.check_config",
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
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        code = ctctl_command.main(arguments, prog_name="ctctl", standalone_mode=False)
    except click.exceptions.Abort:
        return _complain("aborted", ExitCode.FAILED)
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except (ConfigError, InvalidZoneError) as error:
        return _complain(str(error), ExitCode.USAGE)
    except CtctlError as error:
        return _complain(str(error), ExitCode.FAILED)
    except BrokenPipeError:
        # The reader of a pipe went away; so may we, quietly and without a second error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    except KeyboardInterrupt:
        return _complain("interrupted", ExitCode.FAILED)
    except Exception as error:  # noqa: BLE001  # the last boundary: a defect is reported, not dumped on an operator
        kind = type(error).__name__
        return _complain(f"unexpected {kind}: {error}; please report this with what you ran", ExitCode.FAILED)
    return int(code or ExitCode.DONE)


def _complain(text: str, code: ExitCode) -> int:
    click.echo(f"ctctl: {printable(text)}", err=True)
    return int(code)


if __name__ == "__main__":
    main()
