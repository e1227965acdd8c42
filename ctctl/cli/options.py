"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ctctl.cli.output import Output
from ctctl.config.settings import Settings, load

F = TypeVar("F", bound=Callable[..., Any])


def output_option(function: F) -> F:
    """`-o table|json`, passed as `output`."""
    words = click.Choice([o.value for o in Output])
    return click.option("-o", "--output", type=words, default=Output.TABLE.value, help="How to print the result.")(
        function
    )


def config_option(function: F) -> F:
    """`--config FILE`, passed as `config`."""
    kind = click.Path(dir_okay=False, path_type=Path)
    return click.option("--config", type=kind, help="The agent's configuration file (YAML).")(function)


def settings_from(config: Path | None) -> Settings:
    """The file's settings, or all defaults without a file.

    Raises:
        ConfigError: the file is wrong.
    """
    return Settings() if config is None else load(config)
