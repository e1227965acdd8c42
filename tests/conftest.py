"""What every test may rely on."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def temporary_directories_can_be_entered(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests that become another user reach their own files: pytest makes the directories above for root alone."""
    if os.geteuid() != 0:
        return
    base = tmp_path_factory.getbasetemp()
    for directory in (base, *base.parents):
        if directory.name.startswith(("pytest-", "popen-")):
            directory.chmod(0o711)
