"""One event, one line on standard error, whatever is in it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import logging, sys, structlog
from ctctl.agent import log
from ctctl.config.log import LogFormat, LogLevel, LogSettings
log.configure(LogSettings(LogLevel(sys.argv[1]), LogFormat(sys.argv[2])))
logger = structlog.get_logger("ctctl")
logger.debug("quiet")
logger.info('router "r1" = ready', kind="verdict", why="a\\nb \\"c\\" \\\\ d=e", none=None, zones=[1, 2])
logger.warning("loud")
logging.getLogger("library").info("not shown")
logging.getLogger("library").warning("shown")
try:
    1 / 0
except ZeroDivisionError:
    logger.exception("a thread died")
"""


def logged(level: str, form: str) -> list[str]:
    """In a process of its own: logging is configured once for each."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, level, form], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


@pytest.mark.parametrize(("level", "lines"), [("debug", 5), ("info", 4), ("warning", 3), ("error", 2)])
def test_what_is_less_severe_than_the_level_is_not_written(level: str, lines: int) -> None:
    found = logged(level, "logfmt")
    assert len(found) == lines
    assert not any("not shown" in line for line in found)


def test_logfmt_begins_with_time_level_and_event_and_an_exception_stays_on_its_line() -> None:
    info, warning, library, failure = logged("info", "logfmt")
    assert info.startswith("time=2")
    assert " level=info event=" in info
    assert "kind=verdict" in info
    assert "level=warning event=loud" in warning
    assert library == "level=warning logger=library shown"
    assert "ZeroDivisionError" in failure


def test_json_is_one_object_a_line() -> None:
    ours = [json.loads(line) for line in logged("info", "json") if line.startswith("{")]
    assert [entry["event"] for entry in ours] == ['router "r1" = ready', "loud", "a thread died"]
    assert (ours[0]["why"], ours[0]["zones"], ours[0]["none"]) == ('a\nb "c" \\ d=e', [1, 2], None)
    assert "ZeroDivisionError" in ours[2]["exception"]
