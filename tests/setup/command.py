"""Running another program quietly: its output goes to a log, and onto the screen only when somebody asks for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.debian import cache_directory


def log_path() -> Path:
    """What the programs of the last set-ups said."""
    return cache_directory() / "set-up.log"


def run(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None, *, has_own_session: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run `command` without input, in this environment plus `environment`. stdout holds both of its streams.

    `has_own_session`: what is typed at the terminal does not reach it, Control-C above all.
    """
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | (environment or {}),
        start_new_session=has_own_session,
        check=False,
    )
    with log_path().open("a") as log:
        log.write(f"$ {' '.join(map(str, command))}\n{done.stdout}\n[exit code {done.returncode}]\n\n")
    return done


def last_word(done: subprocess.CompletedProcess[str], mark: str) -> str:
    """The last line of its output that starts with `mark`, or the last at all, and where to read the rest."""
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(mark)]
    said = (marked or lines or [f"exit code {done.returncode}"])[-1]
    return f"{said} (all it said: {log_path()})"
