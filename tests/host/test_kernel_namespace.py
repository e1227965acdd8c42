"""Namespaces for real: a path seen from both sides belongs to the side that listens."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ctctl.clients.namespace import listens_here
from tests.kernel_table import PrivateNetwork

pytestmark = pytest.mark.host


def test_a_daemon_is_where_it_listens_not_where_its_path_is_seen(_namespaces_work: None, tmp_path: Path) -> None:
    path = str(tmp_path / "d.ctl")

    def listen() -> socket.socket:
        opened = socket.socket(socket.AF_UNIX)
        opened.bind(path)
        opened.listen()
        return opened

    namespace = PrivateNetwork()
    inside = namespace.call(listen)
    try:
        assert namespace.call(lambda: listens_here(path)) is True
        assert listens_here(path) is False
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            assert listens_here(path) is False, "one's own connection to it is no proof"
    finally:
        inside.close()
    assert namespace.call(lambda: listens_here(path)) is False, "the daemon is gone, its socket file is not"
    namespace.close()
