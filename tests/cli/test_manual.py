from __future__ import annotations

from pathlib import Path

from ctctl.cli import manual
from ctctl.cli.main import _COMMANDS, run

PAGE = Path(__file__).parents[2] / "docs/reference/ctctl.1"
COMMANDS = Path(__file__).parents[2] / "docs/reference/commands.md"


def test_the_man_page_is_what_the_commands_say() -> None:
    assert PAGE.read_text() == manual.page(), "run `make docs`"


def test_every_command_stands_in_the_man_page_and_in_the_reference() -> None:
    for name in _COMMANDS:
        assert f".SS ctctl {name.replace('-', chr(92) + '-')}" in PAGE.read_text()
        assert f"`ctctl {name}" in COMMANDS.read_text()


def test_text_that_roff_would_obey_is_escaped() -> None:
    assert manual._escaped(".TH a\\b -c") == "\\&.TH a\\eb \\-c"


def test_a_completion_script_is_printed_for_each_shell(capsys: object) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert run(["completion", shell]) == 0
