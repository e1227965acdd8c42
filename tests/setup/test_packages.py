from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.setup import packages
from tests.setup.conftest import Programs
from tests.setup.errors import SetupError


def test_a_list_holds_a_name_a_line_with_comments(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("# what for\nnftables # zones in the raw table\n\niproute2\n")
    second.write_text("iproute2\nconntrack\n")
    assert packages.names_in([first, second]) == ["conntrack", "iproute2", "nftables"]


def test_only_installed_counts_as_present(programs: Programs) -> None:
    programs.say("dpkg-query", "printf 'installed iproute2\\nconfig-files nftables\\n'; exit 1")
    assert packages.missing(["conntrack", "iproute2", "nftables"]) == ["conntrack", "nftables"]


def test_a_machine_without_dpkg_is_named_as_such(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs.directory))
    with pytest.raises(SetupError, match=r"needs Debian 12 or 13 .*conntrack"):
        packages.missing(["conntrack"])


def test_without_root_the_error_names_the_packages_and_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SetupError) as caught:
        packages.install(["conntrack", "nftables"])
    assert str(caught.value) == (
        "missing conntrack nftables; as root: apt-get install --no-install-recommends conntrack nftables"
    )


def test_installing_forbids_services_removals_and_questions(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    policy = tmp_path / "policy-rc.d"
    programs.say(
        "apt-get",
        f'{policy} x start; echo "$? $DEBIAN_FRONTEND $*" >> {tmp_path}/calls\n'
        f"read answer && echo asked >> {tmp_path}/calls\ntouch {tmp_path}/done",
    )
    programs.say("dpkg-query", f"[ -e {tmp_path}/done ] && echo installed conntrack")
    packages.install(["conntrack"], policy)
    update, install = (tmp_path / "calls").read_text().splitlines()
    assert update.startswith("101 noninteractive") and update.endswith(" update")
    assert install.startswith("101 noninteractive")
    assert install.endswith(" install --yes --no-install-recommends --no-remove conntrack")
    assert not policy.exists()


def test_an_update_that_fails_is_no_failure_when_the_package_arrives(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    programs.say("apt-get", f'case "$*" in *update) exit 100;; esac; touch {tmp_path}/done')
    programs.say("dpkg-query", f"[ -e {tmp_path}/done ] && echo installed conntrack")
    packages.install(["conntrack"], tmp_path / "policy-rc.d")


def test_a_package_that_does_not_arrive_is_named_with_apts_own_error(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    programs.say("apt-get", "echo 'E: Unable to locate package conntrack' >&2; exit 100")
    programs.say("dpkg-query", "exit 1")
    with pytest.raises(SetupError, match=r"did not install conntrack: E: Unable to locate .*set-up\.log"):
        packages.install(["conntrack"], tmp_path / "policy-rc.d")
    assert not (tmp_path / "policy-rc.d").exists()
