from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.setup import venv
from tests.setup.__main__ import main
from tests.setup.conftest import Programs
from tests.setup.needs import NEEDS
from tests.setup.packages import names_in
from tests.setup.paths import CLONE


def test_the_set_up_needs_nothing_but_the_standard_library() -> None:
    command = f"import sys; sys.path.insert(0, {str(CLONE)!r}); import tests.setup.__main__, tests.setup.fresh_root"
    subprocess.run([sys.executable, "-I", "-S", "-c", command], check=True)


def test_every_package_list_belongs_to_a_target_and_exists() -> None:
    named = {CLONE / path for need in NEEDS.values() for path in need.package_lists}
    assert named == set(CLONE.glob("tests/**/packages*.txt"))


def test_no_list_names_a_package_that_would_run_ovs_or_ovn_on_the_machine() -> None:
    names = names_in(CLONE.glob("tests/**/packages*.txt"))
    assert not [name for name in names if name.startswith(("openvswitch", "ovn"))]


@pytest.mark.parametrize(("smaller", "larger"), [("demo", "test"), ("test", "test-slow")])
def test_what_a_target_needs_grows_with_what_it_runs(smaller: str, larger: str) -> None:
    assert set(NEEDS[smaller].package_lists) <= set(NEEDS[larger].package_lists)
    assert set(NEEDS[smaller].unpacked) <= set(NEEDS[larger].unpacked)


def test_an_unknown_target_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["everything"]) == 2
    assert capsys.readouterr().err.startswith("usage: ")


def test_missing_packages_without_root_are_one_line_and_exit_code_2(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(venv, "is_current", lambda: True)
    programs.say("dpkg-query", "exit 1")
    assert main(["test-fresh"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "set-up: missing mmdebstrap; as root: apt-get install --no-install-recommends mmdebstrap\n"
    assert captured.out == ""
