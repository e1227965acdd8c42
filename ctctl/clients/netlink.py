"""The one door to raw netlink sockets: sends requests that `wire` built, receives answers, never waits for ever.

A socket belongs to the network namespace its thread was in when it was opened, and serves one conversation: an
abandoned dump or a lost acknowledgement would leave answers behind that the next request must not see. Opening
one costs microseconds, so callers use `with NetlinkSocket(...)` per conversation and keep none.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Final, Self

from ctctl.errors import CtctlError, PermissionDeniedError, ProtocolError, TimedOutError, UnavailableError
from ctctl.wire import netlink
from ctctl.wire.netlink import MalformedMessageError, Message

NETLINK_SOCK_DIAG: Final = 4
NETLINK_NETFILTER: Final = 12
_PROTOCOL_NAMES: Final = {NETLINK_SOCK_DIAG: "sock_diag", NETLINK_NETFILTER: "netfilter"}

RECEIVE_BYTES: Final = 65536
"""The kernel fills at most 32 KiB per dump message block; a smaller buffer than that would be cut silently."""

_SOL_NETLINK: Final = 270
_NETLINK_CAP_ACK: Final = 10  # since Linux 4.3: errors do not repeat the request
_KERNEL: Final = 0
"""Port id of everything the kernel sends."""


class KernelRefusedError(CtctlError):
    """The kernel answered a request with an error number other than EPERM or EACCES."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(f"{what}: {os.strerror(number)} ({errno.errorcode.get(number, str(number))})")
        self.number = number


class OverrunError(CtctlError):
    """Answers were lost because the receive buffer was full (ENOBUFS, or NLMSG_OVERRUN)."""


class InterruptedDumpError(CtctlError):
    """The kernel said that a list changed while it was read (NLM_F_DUMP_INTR), or stopped by a signal (EINTR)."""


class TruncatedError(ProtocolError):
    """A block of messages was larger than the receive buffer."""


class NetlinkSocket:
    """One conversation with the kernel over one netlink protocol, in the calling thread's network namespace.

    `timeout_s` bounds each wait for an answer, not the whole conversation. Not for use by several threads.

    Raises:
        UnavailableError: this kernel has no such protocol, or no socket is to be had.
    """

    def __init__(self, protocol: int, *, timeout_s: float) -> None:
        self._name = _PROTOCOL_NAMES.get(protocol, str(protocol))
        self._timeout_s = timeout_s
        self._seq = 0
        self._buffer = bytearray(RECEIVE_BYTES)
        try:
            self._socket = _open(protocol)
        except OSError as error:
            raise _from_os(error, f"opening a netlink {self._name} socket") from error
        try:
            seconds = int(timeout_s)
            limit = struct.pack("ll", seconds, int((timeout_s - seconds) * 1_000_000) or (not seconds))
            # Kernel-side timeouts instead of settimeout(), which would add a poll() to every receive.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            self._socket.setsockopt(_SOL_NETLINK, _NETLINK_CAP_ACK, 1)
            self._socket.bind((0, 0))
            self._portid = int(self._socket.getsockname()[0])
        except OSError as error:
            self._socket.close()
            raise _from_os(error, f"setting up a netlink {self._name} socket") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the conversation; an unfinished dump ends with it."""
        self._socket.close()

    @property
    def portid(self) -> int:
        """The port id that answers to this socket carry."""
        return self._portid

    def next_seq(self) -> int:
        """A sequence number not used before on this socket; never 0, which the kernel uses for events."""
        self._seq += 1
        return self._seq

    def send(self, data: bytes) -> None:
        """Hand one or more whole messages to the kernel, which works on them before this returns.

        Raises:
            PermissionDeniedError, UnavailableError, TimedOutError, OverrunError: the kernel did not take them.
        """
        try:
            sent = self._transmit(data)
        except OSError as error:
            raise _from_os(error, f"sending to netlink {self._name}") from error
        if sent != len(data):
            raise ProtocolError(f"netlink {self._name} took {sent} of {len(data)} bytes")

    def receive_into(self, buffer: bytearray) -> int:
        """Receive one block of whole messages from the kernel; returns how many bytes of `buffer` it fills.

        Blocks from other senders are dropped.

        Raises:
            TimedOutError: nothing came within the timeout.
            OverrunError: answers were lost.
            TruncatedError: the block was larger than `buffer`.
        """
        while True:
            try:
                length, address = self._socket.recvfrom_into(buffer, 0, socket.MSG_TRUNC)
            except OSError as error:
                raise _from_os(error, f"waiting {self._timeout_s:g} s for netlink {self._name}") from error
            if address[0] != _KERNEL:
                continue
            if length > len(buffer):
                raise TruncatedError(
                    f"netlink {self._name} sent {length} bytes where the receive buffer has {len(buffer)}"
                )
            return length

    def answers(self, seq: int, what: str) -> Iterator[Message]:
        """The answers to request `seq` until its acknowledgement, or the end of its dump.

        Messages of other requests or sockets are skipped. `what` names the request in errors.

        Raises:
            KernelRefusedError, PermissionDeniedError: the kernel answered with an error.
            InterruptedDumpError, OverrunError, TimedOutError, MalformedMessageError: the answer is not whole.
        """
        while True:
            length = self.receive_into(self._buffer)
            for message in netlink.messages(memoryview(self._buffer)[:length]):
                if message.seq != seq or message.portid != self._portid:
                    continue
                if message.flags & netlink.NLM_F_DUMP_INTR:
                    raise InterruptedDumpError(f"{what}: the kernel's list changed while it was read")
                if message.type in (netlink.NLMSG_ERROR, netlink.NLMSG_DONE):
                    number = netlink.error_number(message.payload)
                    if number:
                        raise from_kernel(number, what)
                    return
                if message.type == netlink.NLMSG_OVERRUN:
                    raise OverrunError(f"{what}: the kernel reports lost answers")
                if message.type != netlink.NLMSG_NOOP:
                    yield message

    def failures(self, seqs: Collection[int], last: int, what: str) -> Iterator[tuple[int, CtctlError]]:
        """Which of the pipelined requests `seqs` failed, until `last`, the only one to be acknowledged, is answered.

        Raises:
            OverrunError, TimedOutError, MalformedMessageError: not known any more which failed.
        """
        while True:
            length = self.receive_into(self._buffer)
            for message in netlink.messages(memoryview(self._buffer)[:length]):
                if message.seq not in seqs or message.portid != self._portid:
                    continue
                if message.type != netlink.NLMSG_ERROR:
                    raise MalformedMessageError(f"{what}: answer of type {message.type:#x} instead of a status")
                number = netlink.error_number(message.payload)
                if number:
                    yield message.seq, from_kernel(number, what)
                if message.seq == last:
                    return

    def _transmit(self, data: bytes) -> int:
        """The only call that leaves this process; the test-suite listens here."""
        return self._socket.send(data)


def _open(protocol: int) -> socket.socket:
    """The only place that opens a socket; the far end of the test-suite's fake kernel."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)


def from_kernel(number: int, what: str) -> CtctlError:
    """The error for a positive errno with which the kernel answered `what`."""
    if number in (errno.EPERM, errno.EACCES):
        return PermissionDeniedError(
            f"{what}: not permitted ({errno.errorcode[number]})",
            remedy="run with CAP_NET_ADMIN in the host's network namespace",
        )
    if number == errno.EINTR:
        return InterruptedDumpError(f"{what}: interrupted (EINTR)")
    if number == errno.ENOBUFS:
        return OverrunError(f"{what}: no buffer space (ENOBUFS)")
    return KernelRefusedError(what, number)


def _from_os(error: OSError, what: str) -> CtctlError:
    number = error.errno or 0
    if number in (errno.EAGAIN, errno.ETIMEDOUT):
        return TimedOutError(f"{what}: no answer", remedy="see whether the kernel is under heavy load")
    if number in (errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.ECONNREFUSED):
        return UnavailableError(f"{what}: this kernel does not offer it ({errno.errorcode[number]})")
    if number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EBADF):
        return UnavailableError(f"{what}: {os.strerror(number)}")
    return from_kernel(number, what)
