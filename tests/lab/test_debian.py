"""A tree of OVN is used only if it holds exactly what was unpacked, and is built once however many ask at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.debian import _is_intact, _manifest, ovn_tree, tree_path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/program").write_text("#!/bin/sh\n")
    (tmp_path / "schema").symlink_to("bin")
    (tmp_path / "manifest").write_text(_manifest(tmp_path))
    return tmp_path


def test_an_untouched_tree_is_intact(tree: Path) -> None:
    assert _is_intact(tree)


def _change(tree: Path) -> None:
    (tree / "bin/program").write_text("#!/bin/ss\n")


def _remove(tree: Path) -> None:
    (tree / "bin/program").unlink()


def _add(tree: Path) -> None:
    (tree / "bin/other").touch()


def _relink(tree: Path) -> None:
    (tree / "schema").unlink()
    (tree / "schema").symlink_to("elsewhere")


def _truncate_manifest(tree: Path) -> None:
    (tree / "manifest").write_text("")


def _remove_manifest(tree: Path) -> None:
    (tree / "manifest").unlink()


@pytest.mark.parametrize("damage", [_change, _remove, _add, _relink, _truncate_manifest, _remove_manifest])
def test_damage_is_noticed(tree: Path, damage: object) -> None:
    assert callable(damage)
    damage(tree)
    assert not _is_intact(tree)


def test_a_suite_that_is_not_offered_is_refused() -> None:
    with pytest.raises(ValueError, match="bookworm, trixie"):
        ovn_tree("sarge")


def test_trees_of_different_caches_and_suites_do_not_meet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The scripts in a tree name its place, so a tree that was moved must not be taken for one that works.
    monkeypatch.setenv("CTCTL_CACHE", str(tmp_path / "a"))
    first, second = tree_path("bookworm"), tree_path("trixie")
    monkeypatch.setenv("CTCTL_CACHE", str(tmp_path / "b"))
    assert len({first.name, second.name, tree_path("bookworm").name}) == 3


@pytest.mark.slow
def test_two_at_once_build_one_tree_and_a_damaged_one_is_built_anew(tmp_path: Path) -> None:
    environment = {**os.environ, "CTCTL_CACHE": str(tmp_path)}
    command = [sys.executable, "-m", "tests.lab.debian", "bookworm"]

    def fetch() -> subprocess.Popen[str]:
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    together = [process.communicate()[0] for process in [fetch(), fetch()]]
    assert sum("unpacking" in output for output in together) == 1
    (tree,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert _is_intact(tree)
    (tree / "bin/ovs-vswitchd").write_text("")
    assert "unpacking" in fetch().communicate()[0]
    assert _is_intact(tree)
    assert "unpacking" not in fetch().communicate()[0]
    assert {path.suffix for path in tmp_path.iterdir()} == {"", ".lock"}
