"""One conversation with the kernel: what comes back is whole and meant for us, or it is an error of its own kind."""

from __future__ import annotations

import errno
import socket
import struct
from collections import deque
from pathlib import Path

import pytest

from ctctl.clients import netlink as client
from ctctl.clients.netlink import (
    NETLINK_NETFILTER,
    RECEIVE_BYTES,
    InterruptedDumpError,
    KernelRefusedError,
    NetlinkSocket,
    OverrunError,
    TruncatedError,
)
from ctctl.errors import CtctlError, PermissionDeniedError, ProtocolError, TimedOutError, UnavailableError
from ctctl.wire.netlink import MalformedMessageError, Message
from tests import flows

PORTID = 4000


class Wire:
    """A socket whose other end is a list of blocks."""

    def __init__(self, *blocks: bytes | OSError | tuple[bytes, int], sends: int | OSError | None = None) -> None:
        self.blocks = deque(blocks)
        self.sends = sends
        self.is_closed = False
        self.options: dict[tuple[int, int], object] = {}

    def setsockopt(self, level: int, option: int, value: object) -> None:
        self.options[level, option] = value

    def bind(self, address: tuple[int, int]) -> None:
        assert address == (0, 0)

    def getsockname(self) -> tuple[int, int]:
        return PORTID, 0

    def close(self) -> None:
        self.is_closed = True

    def send(self, data: bytes) -> int:
        if isinstance(self.sends, OSError):
            raise self.sends
        return len(data) if self.sends is None else self.sends

    def recvfrom_into(self, buffer: bytearray, size: int, flags: int) -> tuple[int, tuple[int, int]]:
        assert flags == socket.MSG_TRUNC
        block = self.blocks.popleft() if self.blocks else BlockingIOError(errno.EAGAIN, "again")
        if isinstance(block, OSError):
            raise block
        data, sender = block if isinstance(block, tuple) else (block, 0)
        buffer[: min(len(data), len(buffer))] = data[: len(buffer)]
        return len(data), (sender, 0)


def talk(monkeypatch: pytest.MonkeyPatch, wire: Wire) -> NetlinkSocket:
    monkeypatch.setattr(client, "_open", lambda _: wire)
    return NetlinkSocket(NETLINK_NETFILTER, timeout_s=1.5)


def status(seq: int, number: int, portid: int = PORTID) -> bytes:
    return flows.message(2, 0, seq, portid, struct.pack("=i", -number) + bytes(16))


def reply(seq: int, body: bytes, flags: int = 0, portid: int = PORTID) -> bytes:
    return flows.message(0x105, flags, seq, portid, body)


def test_answers_end_with_the_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = talk(monkeypatch, Wire(reply(7, b"body"), status(7, 0), reply(7, b"late")))
    assert list(kernel.answers(7, "asking")) == [Message(0x105, 0, 7, PORTID, b"body")]


def test_answers_end_with_the_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = talk(monkeypatch, Wire(reply(7, b"1___") + reply(7, b"2___"), flows.done(7, PORTID)))
    assert [answer.payload for answer in kernel.answers(7, "asking")] == [b"1___", b"2___"]


def test_other_peoples_messages_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = talk(
        monkeypatch,
        Wire(
            (status(7, errno.EPERM) + reply(7, b"fake"), 99),  # from another process
            status(6, errno.EPERM) + status(7, errno.EPERM, PORTID + 1) + reply(0, b"news"),
            reply(7, b"mine") + status(7, 0),
        ),
    )
    assert [answer.payload for answer in kernel.answers(7, "asking")] == [b"mine"]


def test_noise_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = talk(monkeypatch, Wire(flows.message(1, 0, 7, PORTID, b"") + status(7, 0)))
    assert list(kernel.answers(7, "asking")) == []


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EPERM, PermissionDeniedError),
        (errno.EACCES, PermissionDeniedError),
        (errno.EINTR, InterruptedDumpError),
        (errno.ENOBUFS, OverrunError),
        (errno.ENOENT, KernelRefusedError),
        (errno.EINVAL, KernelRefusedError),
        (errno.EOPNOTSUPP, KernelRefusedError),
        (999, KernelRefusedError),
    ],
)
@pytest.mark.parametrize("by_done", [True, False])
def test_each_error_the_kernel_answers_with_is_its_own_kind(
    monkeypatch: pytest.MonkeyPatch, number: int, kind: type[CtctlError], by_done: bool
) -> None:
    block = flows.done(7, PORTID, -number) if by_done else status(7, number)
    kernel = talk(monkeypatch, Wire(block))
    with pytest.raises(CtctlError, match="asking the kernel") as raised:
        list(kernel.answers(7, "asking the kernel"))
    assert type(raised.value) is kind
    if isinstance(raised.value, KernelRefusedError):
        assert raised.value.number == number


def test_a_refusal_for_lack_of_permission_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = talk(monkeypatch, Wire(status(7, errno.EPERM)))
    with pytest.raises(PermissionDeniedError, match=r"EPERM.*CAP_NET_ADMIN"):
        list(kernel.answers(7, "asking"))


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        (reply(7, b"body", flags=0x12), InterruptedDumpError),
        (flows.message(4, 0, 7, PORTID, b""), OverrunError),
        (OSError(errno.ENOBUFS, "No buffer space available"), OverrunError),
        (OSError(errno.EINTR, "Interrupted"), InterruptedDumpError),
        (OSError(errno.EAGAIN, "again"), TimedOutError),
        (OSError(errno.ENOMEM, "no memory"), UnavailableError),
        (bytes(RECEIVE_BYTES + 4), TruncatedError),
        (b"\0" * 20, MalformedMessageError),
        (status(7, 0)[:-1], MalformedMessageError),
    ],
)
def test_an_answer_that_is_not_whole_is_an_error_of_its_own_kind(
    monkeypatch: pytest.MonkeyPatch, block: bytes | OSError, kind: type[CtctlError]
) -> None:
    kernel = talk(monkeypatch, Wire(block))
    with pytest.raises(kind) as raised:
        list(kernel.answers(7, "asking"))
    assert type(raised.value) is kind


def test_a_lost_acknowledgement_is_noticed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = talk(monkeypatch, Wire(reply(7, b"body")))
    with pytest.raises(TimedOutError, match=r"waiting 1\.5 s for netlink netfilter: no answer"):
        list(kernel.answers(7, "asking"))


def test_a_block_as_large_as_the_buffer_is_not_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    block = reply(7, bytes(RECEIVE_BYTES - 16))
    kernel = talk(monkeypatch, Wire(block))
    buffer = bytearray(RECEIVE_BYTES)
    assert kernel.receive_into(buffer) == RECEIVE_BYTES
    assert buffer == block


def test_failures_among_pipelined_requests_are_told_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = talk(
        monkeypatch,
        Wire(status(2, errno.ENOENT) + status(9, errno.EPERM), status(3, errno.EPERM, PORTID + 1), status(4, 0)),
    )
    failures = list(kernel.failures({1, 2, 3, 4}, 4, "deleting"))
    assert [(seq, type(error)) for seq, error in failures] == [(2, KernelRefusedError)]


def test_the_last_pipelined_request_may_fail_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = talk(monkeypatch, Wire(status(1, errno.ENOENT), status(2, errno.EPERM)))
    failures = list(kernel.failures({1, 2}, 2, "deleting"))
    assert [(seq, type(error)) for seq, error in failures] == [(1, KernelRefusedError), (2, PermissionDeniedError)]


@pytest.mark.parametrize(
    ("block", "kind"),
    [(reply(1, b""), MalformedMessageError), (OSError(errno.ENOBUFS, ""), OverrunError), (status(1, 5), TimedOutError)],
)
def test_it_is_an_error_not_to_know_which_failed(
    monkeypatch: pytest.MonkeyPatch, block: bytes | OSError, kind: type[CtctlError]
) -> None:
    kernel = talk(monkeypatch, Wire(block))
    with pytest.raises(kind):
        list(kernel.failures({1, 2}, 2, "deleting"))


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EPROTONOSUPPORT, UnavailableError),
        (errno.EAFNOSUPPORT, UnavailableError),
        (errno.EMFILE, UnavailableError),
        (errno.EPERM, PermissionDeniedError),
    ],
)
def test_a_socket_that_cannot_be_opened_says_why(
    monkeypatch: pytest.MonkeyPatch, number: int, kind: type[CtctlError]
) -> None:
    def refuse(_: int) -> socket.socket:
        raise OSError(number, "no")

    monkeypatch.setattr(client, "_open", refuse)
    with pytest.raises(kind, match="opening a netlink sock_diag socket") as raised:
        NetlinkSocket(client.NETLINK_SOCK_DIAG, timeout_s=1)
    assert type(raised.value) is kind
    assert isinstance(raised.value.__cause__, OSError)


def test_a_socket_that_cannot_be_set_up_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire()

    def refuse(_: object) -> None:
        raise OSError(errno.ENOMEM, "no")

    monkeypatch.setattr(wire, "bind", refuse)
    with pytest.raises(UnavailableError, match="setting up a netlink netfilter socket"):
        talk(monkeypatch, wire)
    assert wire.is_closed


def test_a_conversation_ends_with_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire()
    with talk(monkeypatch, wire):
        assert not wire.is_closed
    assert wire.is_closed


@pytest.mark.parametrize(
    ("timeout_s", "expected"), [(1.5, (1, 500_000)), (2, (2, 0)), (0.25, (0, 250_000)), (1e-9, (0, 1))]
)
def test_every_wait_is_bounded(monkeypatch: pytest.MonkeyPatch, timeout_s: float, expected: tuple[int, int]) -> None:
    wire = Wire()
    monkeypatch.setattr(client, "_open", lambda _: wire)
    NetlinkSocket(NETLINK_NETFILTER, timeout_s=timeout_s)
    limit = struct.pack("ll", *expected)
    assert wire.options[socket.SOL_SOCKET, socket.SO_RCVTIMEO] == limit
    assert wire.options[socket.SOL_SOCKET, socket.SO_SNDTIMEO] == limit
    assert wire.options[270, 10] == 1


def test_a_request_that_is_taken_in_part_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProtocolError, match="took 3 of 16 bytes"):
        talk(monkeypatch, Wire(sends=3)).send(flows.message(0x105, 1, 1, 0, b""))


def test_a_request_that_is_not_taken_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match="sending to netlink netfilter"):
        talk(monkeypatch, Wire(sends=ConnectionRefusedError(errno.ECONNREFUSED, "no"))).send(
            flows.message(0x105, 1, 1, 0, b"")
        )


def test_sequence_numbers_are_never_0_and_never_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = talk(monkeypatch, Wire())
    assert [kernel.next_seq() for _ in range(4)] == [1, 2, 3, 4]
    assert kernel.portid == PORTID


def test_raw_netlink_sockets_have_one_door() -> None:
    package = Path(client.__file__).parents[1]
    users = {str(path.relative_to(package)) for path in package.rglob("*.py") if "AF_NETLINK" in path.read_text()}
    assert users == {"clients/netlink.py"}
