"""The settings' own rules, and reading them from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctctl.config.parse import parse
from ctctl.config.settings import Settings, load
from ctctl.errors import ConfigError
from ctctl.model.flush import Mode, Switch, Trigger


def flush_policy(text: str):  # noqa: ANN201  # the test's own shorthand
    return parse(text, Settings, "c.yaml").flush.policy()


def test_the_default_policy_is_the_documented_one() -> None:
    policy = flush_policy("")
    assert policy.switch is Switch.ENFORCE
    modes = {trigger: policy.mode(trigger) for trigger in Trigger}
    assert {t for t, m in modes.items() if m is Mode.VERIFY} == {Trigger.ROUTER_CREATED, Trigger.ROUTER_REMOVED}
    assert {t for t, m in modes.items() if m is Mode.ALWAYS} == {Trigger.REQUESTED, Trigger.MANUAL}
    assert (policy.grace_s, policy.max_lateness_s, policy.budget_per_minute) == (30.0, 5.0, 60)


def test_every_key_under_flush_reaches_the_policy() -> None:
    policy = flush_policy(
        """
flush:
  switch: dry_run
  triggers: {router_created: always, router_removed: off, renumbered: verify}
  grace: 1m
  max_lateness: 500ms
  budget_per_minute: 7
  mass_change: 8
  exclude_routers: [r1, "2"]
"""
    )
    assert policy.switch is Switch.DRY_RUN
    assert policy.mode(Trigger.ROUTER_CREATED) is Mode.ALWAYS
    assert policy.mode(Trigger.ROUTER_REMOVED) is Mode.OFF
    assert policy.mode(Trigger.RENUMBERED) is Mode.VERIFY
    assert policy.mode(Trigger.MANUAL) is Mode.ALWAYS
    assert (policy.grace_s, policy.max_lateness_s) == (60.0, 0.5)
    assert (policy.budget_per_minute, policy.mass_change) == (7, 8)
    assert policy.exclude_routers == {"r1", "2"}


def test_flushing_by_hand_has_no_mode() -> None:
    with pytest.raises(ConfigError, match=r"flush\.triggers\.manual: unknown key"):
        flush_policy("flush: {triggers: {manual: off}}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("flush:\n  budget_per_minute: -1\n", "budget_per_minute must not be negative"),
        ("flush:\n  mass_change: -1\n", "mass_change must not be negative"),
        ("count:\n  interval: 0s\n", "interval must be positive"),
        ("count:\n  max_cpu_ratio: 0\n", "max_cpu_ratio must be above 0 and at most 1"),
        ("count:\n  max_cpu_ratio: 1.5\n", "max_cpu_ratio must be above 0 and at most 1"),
        ("count:\n  max_cpu_ratio: -1\n", "max_cpu_ratio must be above 0 and at most 1"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        parse(text, Settings, "c.yaml")
    assert str(caught.value).startswith("c.yaml:2: ")


def test_a_file_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("log: {level: debug}\n")
    assert load(file).log.level == "debug"


def test_an_error_in_a_file_names_it(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("\nlogg: {level: debug}\n")
    with pytest.raises(ConfigError, match=f"^{file}:2: logg: unknown key; did you mean log\\?$"):
        load(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*/none\.yaml: No such file"):
        load(tmp_path / "none.yaml")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        load(tmp_path)


def test_a_file_that_is_no_utf_8_is_named_with_the_byte(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(b"log: \xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8 text: invalid start byte at byte 5"):
        load(file)
