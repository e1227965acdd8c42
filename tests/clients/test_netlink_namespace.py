"""Whether a daemon listens in our network namespace: told from the kernel's own list, or not at all."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

import pytest

from ctctl.clients import netlink as client
from ctctl.clients.namespace import listens_here, presence
from ctctl.wire import sock_diag
from ctctl.wire.netlink import MalformedMessageError, Message
from tests import flows
from tests.clients.test_netlink import PORTID, Wire


def listening(inode: int, device: int, *, seq: int = 1) -> bytes:
    head = struct.pack("=BBBBIII", 1, 1, 10, 0, 5, 6, 7)
    return flows.message(20, 2, seq, PORTID, head + flows.attr(1, struct.pack("=II", inode, device)))


@pytest.fixture
def bound(tmp_path: Path) -> Path:
    path = tmp_path / "daemon.ctl"
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))
    return path


def identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_ino & 0xFFFFFFFF, os.major(status.st_dev) << 20 | os.minor(status.st_dev)


def kernel_says(monkeypatch: pytest.MonkeyPatch, *blocks: bytes | OSError) -> None:
    monkeypatch.setattr(client, "_open", lambda _: Wire(*blocks))


def test_a_socket_in_the_kernels_list_is_here(monkeypatch: pytest.MonkeyPatch, bound: Path) -> None:
    inode, device = identity(bound)
    abstract = flows.message(20, 2, 1, PORTID, struct.pack("=BBBBIII", 1, 1, 10, 0, 5, 6, 7))
    kernel_says(monkeypatch, listening(1, 2) + abstract + listening(inode, device), flows.done(1, PORTID))
    assert listens_here(str(bound)) is True


def test_a_socket_that_is_not_in_the_list_is_elsewhere(monkeypatch: pytest.MonkeyPatch, bound: Path) -> None:
    _, device = identity(bound)
    kernel_says(monkeypatch, listening(1, device), flows.done(1, PORTID))
    found = presence(str(bound))
    assert found.is_here is False
    assert f"nothing in this network namespace listens on {bound}" in found.why


def test_equal_numbers_on_another_device_prove_nothing(monkeypatch: pytest.MonkeyPatch, bound: Path) -> None:
    inode, device = identity(bound)
    kernel_says(monkeypatch, listening(inode, device + 1), flows.done(1, PORTID))
    found = presence(str(bound))
    assert found.is_here is None
    assert "different devices" in found.why


@pytest.mark.parametrize("block", [flows.done(1, PORTID, -1), flows.done(1, PORTID, -22), b"\0"])
def test_when_the_kernel_does_not_answer_nothing_is_claimed(
    monkeypatch: pytest.MonkeyPatch, bound: Path, block: bytes
) -> None:
    kernel_says(monkeypatch, block)
    found = presence(str(bound))
    assert found.is_here is None
    assert "cannot list listening unix sockets" in found.why


def test_a_path_that_is_absent_or_no_socket_proves_nothing(tmp_path: Path) -> None:
    assert presence(str(tmp_path / "absent")).why.startswith("cannot look at")
    assert listens_here(str(tmp_path / "absent")) is None
    assert presence(str(tmp_path)).why == f"{tmp_path} is not a socket"
    assert listens_here(str(tmp_path)) is None


def test_the_request_asks_for_listeners_and_their_files() -> None:
    body = struct.pack("=BBHIIIII", 1, 0, 0, 1 << 10, 0, 2, 0, 0)
    assert sock_diag.listeners_request(9) == struct.pack("=IHHII", 16 + len(body), 20, 0x301, 9, 0) + body


@pytest.mark.parametrize(
    "reply",
    [
        Message(21, 2, 1, PORTID, bytes(16)),
        Message(20, 2, 1, PORTID, bytes(15)),
        Message(20, 2, 1, PORTID, bytes(16) + flows.attr(1, bytes(4))),
        Message(20, 2, 1, PORTID, bytes(16) + b"\x09\0\1\0"),
    ],
)
def test_what_is_no_answer_about_a_unix_socket_is_refused(reply: Message) -> None:
    with pytest.raises(MalformedMessageError):
        sock_diag.listener(reply)
