"""The virtual environment in the clone: ctctl editable and the development tools, exactly as pinned."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.setup.command import last_word, run
from tests.setup.errors import SetupError
from tests.setup.paths import CLONE

VENV: Final = CLONE / ".venv"
PYTHON: Final = VENV / "bin" / "python"
CONSTRAINTS: Final = CLONE / ".ci" / "constraints.txt"
PYPROJECT: Final = CLONE / "pyproject.toml"
BUILD_TOOLS: Final = ("editables", "setuptools", "wheel")
"""Beside the build backend: what makes ctctl editable, and what builds dependencies that come as source (ovs)."""
_STAMP: Final = VENV / ".set-up"


def is_current() -> bool:
    """Was the environment completed for this very project file, pins, interpreter and place?"""
    try:
        return _STAMP.read_text() == _fingerprint()
    except OSError:
        return False


def can_create() -> bool:
    """Debian ships `ensurepip` in a package of its own, python3-venv."""
    return importlib.util.find_spec("ensurepip") is not None


def create() -> None:
    """Make the environment anew; it counts only when complete, so one that was interrupted is made again.

    pip runs with the machine's own configuration. Build tools come first and under the same pins, and builds happen
    without isolation, so that no unpinned one is fetched behind our back.

    Raises:
        SetupError: Python or pip could not, with pip's own last word.
    """
    print(f"set-up: creating {VENV}", file=sys.stderr)
    if VENV.exists():
        shutil.rmtree(VENV)
    _run([sys.executable, "-I", "-m", "venv", VENV])
    project = tomllib.loads(PYPROJECT.read_text())
    _pip(*BUILD_TOOLS, *project["build-system"]["requires"])
    _pip("--no-build-isolation", "--editable", str(CLONE), *project["dependency-groups"]["dev"])
    _STAMP.write_text(_fingerprint())


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for part in (PYPROJECT.read_bytes(), CONSTRAINTS.read_bytes(), sys.version.encode(), sys.base_prefix.encode()):
        digest.update(len(part).to_bytes(8, "big") + part)
    # Scripts in an environment name it by its full path, so one that was moved is not this one.
    digest.update(os.fsencode(VENV))
    return digest.hexdigest()


def _pip(*arguments: str) -> None:
    pip: list[str | Path] = [
        PYTHON,
        "-I",
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "install",
    ]
    _run([*pip, "--constraint", CONSTRAINTS, *arguments])


def _run(command: Sequence[str | Path]) -> None:
    done = run(command)
    if done.returncode != 0:
        raise SetupError(f"cannot create {VENV}: {last_word(done, 'ERROR:')}")
