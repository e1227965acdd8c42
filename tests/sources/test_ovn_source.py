"""The OVN sources' choice of address. What they read: tests/ovn/test_sources_ovn.py."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ctctl.clients.clock import now
from ctctl.clients.ovsdb_follower import Remotes
from ctctl.clients.ovsdb_remote import Remote, TlsFiles
from ctctl.model.ovn import OvnDatabase
from ctctl.sources.ovn import DatabaseChoice, OvnSettings, OvnSource, TlsSettings

SB, NB = OvnDatabase.SOUTHBOUND, OvnDatabase.NORTHBOUND


def remotes(database: OvnDatabase, settings: OvnSettings, found: str | None = None) -> Remotes:
    source = OvnSource(database, settings, lambda event: None, now)
    source.set_remote(found)
    return source._find_remotes()


def listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    return listener


@pytest.mark.parametrize(
    ("choice", "southbound", "northbound"),
    [
        (DatabaseChoice.AUTO, True, True),
        (DatabaseChoice.SOUTHBOUND, True, False),
        (DatabaseChoice.NORTHBOUND, False, True),
        (DatabaseChoice.NONE, False, False),
    ],
)
def test_only_the_databases_asked_for_are_read(choice: DatabaseChoice, southbound: bool, northbound: bool) -> None:
    settings = OvnSettings(database=choice, remote="unix:/s", northbound="unix:/n")
    assert bool(remotes(SB, settings).remotes) is remotes(SB, settings).is_configured is southbound
    assert bool(remotes(NB, settings).remotes) is remotes(NB, settings).is_configured is northbound


def test_the_southbound_address_is_configured_else_found_else_local(tmp_path: Path) -> None:
    settings = OvnSettings(rundir=str(tmp_path))
    assert remotes(SB, settings) == Remotes((), "no ovn-remote in the local database; set it, or ovn.remote")
    with listen(tmp_path / "ovnsb_db.sock"):
        assert remotes(SB, settings).remotes == (Remote("unix", path=str(tmp_path / "ovnsb_db.sock")),)
        found = remotes(SB, settings, "tcp:10.0.0.1:6642,tcp:10.0.0.2:6642").remotes
        assert [remote.host for remote in found] == ["10.0.0.1", "10.0.0.2"]
        own = OvnSettings(rundir=str(tmp_path), remote="unix:/own")
        assert remotes(SB, own, "tcp:10.0.0.1:6642").remotes == (Remote("unix", path="/own"),)


def test_the_northbound_database_is_read_where_it_is_configured_or_has_a_local_socket(tmp_path: Path) -> None:
    settings = OvnSettings(rundir=str(tmp_path))
    absent = remotes(NB, settings)
    assert not absent.remotes
    assert not absent.is_configured
    with listen(tmp_path / "ovnnb_db.sock"):
        assert remotes(NB, settings).remotes == (Remote("unix", path=str(tmp_path / "ovnnb_db.sock")),)
    configured = OvnSettings(rundir=str(tmp_path / "none"), northbound="ssl:10.0.0.9:6641")
    assert remotes(NB, configured).remotes == (Remote("ssl", host="10.0.0.9", port=6641),)


def test_a_northbound_database_that_was_asked_for_by_name_is_missed(tmp_path: Path) -> None:
    missed = remotes(NB, OvnSettings(rundir=str(tmp_path), database=DatabaseChoice.NORTHBOUND))
    assert missed.is_configured
    assert "set ovn.northbound" in missed.why


def test_a_socket_that_was_there_once_stays_expected(tmp_path: Path) -> None:
    source = OvnSource(NB, OvnSettings(rundir=str(tmp_path)), lambda event: None, now)
    assert not source._find_remotes().remotes
    with listen(tmp_path / "ovnnb_db.sock"):
        assert source._find_remotes().remotes
    (tmp_path / "ovnnb_db.sock").unlink()
    assert source._find_remotes().remotes


def test_an_address_of_the_local_database_that_is_none_is_told(tmp_path: Path) -> None:
    found = remotes(SB, OvnSettings(rundir=str(tmp_path)), "ovn-sb.example")
    assert not found.remotes
    assert found.is_configured
    assert found.why.startswith("OVN_Southbound: 'ovn-sb.example' is no OVSDB address")


def test_the_local_database_is_another_sources() -> None:
    with pytest.raises(ValueError, match="only"):
        OvnSource(OvnDatabase.LOCAL, OvnSettings(), lambda event: None, now)


def test_tls_files_are_used_when_any_is_configured() -> None:
    settings = OvnSettings(tls=TlsSettings(key="/k", certificate="/c", ca="/a"))
    assert OvnSource(SB, settings, lambda event: None, now)._follower._tls == TlsFiles("/k", "/c", "/a")
    assert OvnSource(SB, OvnSettings(), lambda event: None, now)._follower._tls is None


def test_the_probe_interval_is_bounded_below() -> None:
    with pytest.raises(ValueError, match="1s or more"):
        OvnSettings(probe_interval_s=0.5)
