from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.setup.errors import SetupError
from tests.setup.services import no_service_starts


def answer_of(policy: Path) -> int:
    return subprocess.run([policy, "some-service", "start"], check=False).returncode


def write_policy(policy: Path, exit_code: int) -> str:
    policy.write_text(f"#!/bin/sh\nexit {exit_code}\n")
    policy.chmod(0o755)
    return policy.read_text()


def test_services_are_forbidden_only_for_the_duration(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with no_service_starts(policy):
        assert answer_of(policy) == 101
    assert not policy.exists()


def test_the_policy_goes_away_when_the_installation_fails(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with pytest.raises(KeyboardInterrupt), no_service_starts(policy):
        raise KeyboardInterrupt
    assert not policy.exists()


def test_the_machines_own_forbidding_policy_is_kept(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    own = write_policy(policy, 101)
    with no_service_starts(policy):
        assert policy.read_text() == own
    assert policy.read_text() == own


def test_a_policy_that_allows_starts_is_neither_used_nor_replaced(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    own = write_policy(policy, 0)
    with pytest.raises(SetupError, match="lets packages start services"), no_service_starts(policy):
        pytest.fail("packages would have been installed")
    assert policy.read_text() == own


def test_a_policy_left_by_a_killed_run_is_adopted_and_removed(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with no_service_starts(policy):
        left_behind = policy.read_bytes()
    policy.write_bytes(left_behind)
    policy.chmod(0o644)
    with no_service_starts(policy):
        assert answer_of(policy) == 101
    assert not policy.exists()
