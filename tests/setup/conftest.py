"""A machine whose package programs are scripts of the test."""

from __future__ import annotations

from pathlib import Path

import pytest


class Programs:
    """A directory that comes first on PATH; `say` puts a shell script there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def say(self, name: str, script: str) -> None:
        path = self.directory / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    directory = tmp_path / "programs"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.setenv("CTCTL_CACHE", str(tmp_path))
    return Programs(directory)
