"""A pause outlives the agent, and what cannot be read counts as paused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctctl.clients.state_files import is_paused, set_paused
from ctctl.errors import UnavailableError


def test_a_pause_is_remembered_until_it_is_taken_back(tmp_path: Path) -> None:
    assert not is_paused(tmp_path)
    for _ in range(2):
        set_paused(tmp_path, is_paused=True)
        assert is_paused(tmp_path)
    for _ in range(2):
        set_paused(tmp_path, is_paused=False)
        assert not is_paused(tmp_path)


def test_without_a_state_directory_nothing_was_paused(tmp_path: Path) -> None:
    assert not is_paused(tmp_path / "none")


def test_a_pause_that_cannot_be_remembered_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"cannot remember the pause in .*/none/paused: .*make state.dir"):
        set_paused(tmp_path / "none", is_paused=True)


def test_a_pause_that_cannot_be_taken_back_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "paused").mkdir()
    with pytest.raises(UnavailableError, match="cannot forget the pause"):
        set_paused(tmp_path, is_paused=False)
    assert is_paused(tmp_path)


def test_what_cannot_be_read_counts_as_paused(tmp_path: Path) -> None:
    assert is_paused(tmp_path / ("x" * 300))
