from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.setup import venv


@pytest.fixture(autouse=True)
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(venv, "VENV", tmp_path / ".venv")
    for name, path in (
        ("PYPROJECT", tmp_path / "pyproject.toml"),
        ("CONSTRAINTS", tmp_path / "constraints.txt"),
        ("_STAMP", tmp_path / "stamp"),
    ):
        monkeypatch.setattr(venv, name, path)
        path.write_text(name)
    return tmp_path


def complete() -> None:
    venv._STAMP.write_text(venv._fingerprint())


def test_an_environment_that_was_never_completed_is_not_current() -> None:
    venv._STAMP.unlink()
    assert not venv.is_current()


def test_a_completed_environment_is_current() -> None:
    complete()
    assert venv.is_current()


@pytest.mark.parametrize("changed", ["PYPROJECT", "CONSTRAINTS"])
def test_a_change_of_dependencies_or_pins_makes_a_new_environment(changed: str) -> None:
    complete()
    getattr(venv, changed).write_text("something else")
    assert not venv.is_current()


def test_a_clone_that_was_moved_makes_a_new_environment(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete()
    monkeypatch.setattr(venv, "VENV", clone / "moved" / ".venv")
    assert not venv.is_current()


def test_another_python_makes_a_new_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    complete()
    monkeypatch.setattr(sys, "version", "3.13.5 (main)")
    assert not venv.is_current()
