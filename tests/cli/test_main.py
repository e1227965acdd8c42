"""What every command has in common: exit codes scripts rely on, one clear line for every error, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctctl.cli import main as main_module
from ctctl.cli.main import ctctl_command, run
from ctctl.errors import ConfigError, CtctlError, InvalidZoneError, UnavailableError

PROGRAM = [sys.executable, "-m", "ctctl"]


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    return captured.out, captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["bogus"],
        ["zones", "extra"],
        ["zones", "-o", "xml"],
        ["zones", "--nonsense"],
        ["flush"],
        ["flush", "--yes"],
        ["flush", "--zone"],
        ["flush", "--zone", "x", "--yes"],
        ["flush", "--zone", "1.5", "--yes"],
        ["flush", "--zone", "0", "--yes"],
        ["flush", "--zone", "70000", "--yes"],
        ["flush", "--zone", "-1", "--yes"],
        ["flush", "--zone", "5", "--zone", "0", "--yes"],
        ["flush", "--zone", "99999999999999999999", "--yes"],
        ["check-config"],
        ["check-config", "/nonexistent"],
        ["zones", "--config", "/nonexistent"],
        ["zones", "--config", "/"],
        ["metrics", "-o", "table"],
    ],
)
def test_wrong_usage_and_configuration_exit_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    out, err = said(capsys)
    assert out == ""
    assert err


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], ["metrics"], ["flush", "--help"]])
def test_what_prints_something_asked_for_exits_with_zero(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 0
    assert said(capsys)[0]


@pytest.mark.parametrize("command", list(main_module._COMMANDS))
def test_every_command_has_help_and_is_listed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    assert f"Usage: ctctl {command}" in said(capsys)[0]
    run(["--help"])
    assert f"  {command} " in said(capsys)[0]


@pytest.mark.parametrize("command", ["status", "events", "pause", "resume"])
def test_without_an_agent_what_needs_one_says_so(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"control: {{socket: {tmp_path}/none.sock}}")
    assert run([command, "--config", str(config)]) == 1
    assert said(capsys)[1] == (
        f"ctctl: no agent on {tmp_path}/none.sock; start `ctctl agent`, or name its control.socket\n"
    )


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ConfigError("c.yaml:1: wrong"), 2, "ctctl: c.yaml:1: wrong\n"),
        (InvalidZoneError("zone 0 is never flushed"), 2, "ctctl: zone 0 is never flushed\n"),
        (UnavailableError("cannot", remedy="do"), 1, "ctctl: cannot; do\n"),
        (CtctlError("a\nb\x1b[31m"), 1, "ctctl: a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}[31m\n"),
        (OSError(28, "No space left on device"), 1, "ctctl: the operating system refused: [Errno 28]"),
        (KeyboardInterrupt(), 1, "ctctl: aborted\n"),
        (ZeroDivisionError("x"), 1, "ctctl: unexpected ZeroDivisionError: x; please report"),
        (RecursionError("deep"), 1, "ctctl: unexpected RecursionError"),
    ],
)
def test_each_error_is_one_line_and_an_exit_code(
    error: BaseException, code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(context: object) -> None:
        raise error

    monkeypatch.setattr(ctctl_command, "invoke", fail)
    assert run(["metrics"]) == code
    out, err = said(capsys)
    assert out == ""
    assert err.lstrip("\n").startswith(text)
    assert err.strip().count("\n") == 0


def shell(line: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which `$ctctl` is the program; its exit code is the line's."""
    program = " ".join(PROGRAM)
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"ctctl='{program}'; {line}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **env},
    )


@pytest.mark.parametrize("arguments", ["metrics", "metrics -o json", "--help"])
def test_a_reader_that_goes_away_is_no_error(arguments: str) -> None:
    done = shell(f"$ctctl {arguments} | true")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_an_error_of_one_line() -> None:
    done = shell("$ctctl metrics > /dev/full")
    assert done.returncode == 1
    assert done.stderr == "ctctl: the operating system refused: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_descriptors_are_no_error(closed: str) -> None:
    done = shell(f"$ctctl metrics {closed}")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_that_cannot_spell_a_result_gets_it_escaped() -> None:
    done = shell("$ctctl metrics | grep -a -c 'u2026\\|xe2'", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_catalogue_as_json_is_a_list_of_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", "-o", "json"]) == 0
    found = json.loads(said(capsys)[0])
    assert {"ctctl_build_info", "ctctl_flushes_total"} <= {metric["name"] for metric in found}


def test_a_good_configuration_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("flush: {switch: observe}")
    assert run(["check-config", str(file)]) == 0
    assert said(capsys)[0] == f"{file}: good\n"


def test_a_wrong_configuration_is_named_with_line_and_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("flush:\n  swich: observe\n")
    assert run(["check-config", str(file)]) == 2
    assert said(capsys)[1] == f"ctctl: {file}:2: flush.swich: unknown key; did you mean switch?\n"
