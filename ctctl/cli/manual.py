"""The man page, made from the commands' own help: `make docs` writes it to docs/reference/ctctl.1."""

from __future__ import annotations

import inspect

import click

import ctctl
from ctctl.cli.main import ctctl_command

_EXIT_CODES = (
    ("0", "Done."),
    ("1", "Failed."),
    ("2", "Usage or configuration."),
    ("3", "A check found something."),
    ("4", "Refused for safety."),
)


def page() -> str:
    """The page in roff."""
    context = click.Context(ctctl_command, info_name="ctctl", **ctctl_command.context_settings)
    lines = [
        f'.TH CTCTL 1 "" "ctctl {ctctl.__version__}" "User commands"',
        ".SH NAME",
        "ctctl \\- conntrack zones of an OVN node: exporter and flush controller",
        ".SH SYNOPSIS",
        ".B ctctl",
        "COMMAND [OPTION...]",
        ".SH DESCRIPTION",
        _escaped(ctctl_command.help or ""),
        ".SH COMMANDS",
    ]
    for name in ctctl_command.list_commands(context):
        command = ctctl_command.get_command(context, name)
        if command is not None:
            lines += _command(name, command, context)
    lines += [".SH EXIT STATUS"]
    for code, meaning in _EXIT_CODES:
        lines += [".TP", f".B {code}", meaning]
    return "\n".join(lines) + "\n"


def _command(name: str, command: click.Command, parent: click.Context) -> list[str]:
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f".SS ctctl {_escaped(name)} {_escaped(usage)}",
        *map(_escaped, inspect.cleandoc(command.help or "").splitlines()),
    ]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            lines += [".TP", f".B {_escaped(record[0])}", _escaped(record[1])]
    return lines


def _escaped(text: str) -> str:
    """Text that roff takes as text: backslashes, hyphens, and dots or quotes at the start of a line."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201  # `make docs` redirects it into the page
