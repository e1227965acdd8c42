"""A real kernel's table behind the same few calls as the fake's: what a contract test needs of a world."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from tests import flows
from tests.fake_kernel import FakeKernel
from tests.flows import Flow

T = TypeVar("T")
NETLINK_NETFILTER = 12
CREATE = 0x1 | 0x400 | 0x200
BATCH = 100


class World(Protocol):
    """A table, and a place from which to reach it."""

    filters_by_zone: bool

    def insert(self, new: Iterable[Flow]) -> None:
        """Add entries."""

    def zones(self) -> Counter[int]:
        """Entries per zone, by another reader than the package's."""

    def call(self, function: Callable[[], T]) -> T:
        """Call it where the table is."""


class FakeWorld:
    """The fake kernel as a world."""

    def __init__(self, kernel: FakeKernel) -> None:
        self.kernel = kernel
        self.filters_by_zone = kernel.filters_by_zone

    def insert(self, new: Iterable[Flow]) -> None:
        self.kernel.insert(new)

    def zones(self) -> Counter[int]:
        return Counter(flow.zone for flow in self.kernel.table)

    def call(self, function: Callable[[], T]) -> T:
        return function()


class Caller(Protocol):
    """Something that calls a function in a network namespace."""

    def call(self, function: Callable[[], T]) -> T:
        """Call it there."""


class PrivateNetwork:
    """A thread with a network namespace of its own: less than the lab's namespace, and there at once.

    Raises:
        OSError: the kernel refused it.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1)
        try:
            self._executor.submit(_unshare_network).result()
        except OSError:
            self.close()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Call it in that thread."""
        return self._executor.submit(function).result()

    def close(self) -> None:
        """End the thread, and with it the namespace."""
        self._executor.shutdown()


def _unshare_network() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x40000000) != 0:  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNET)")


class RealWorld:
    """This machine's kernel, in a private network namespace."""

    def __init__(self, namespace: Caller) -> None:
        self.namespace = namespace
        self.filters_by_zone = namespace.call(_experiment)

    def insert(self, new: Iterable[Flow]) -> None:
        entries = list(new)
        self.namespace.call(lambda: create(entries))

    def zones(self) -> Counter[int]:
        return self.namespace.call(_zones)

    def call(self, function: Callable[[], T]) -> T:
        return self.namespace.call(function)

    def clear(self) -> None:
        """Empty the private table."""
        self.namespace.call(_clear)


def _open() -> socket.socket:
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    opened.bind((0, 0))
    opened.settimeout(60)
    opened.setsockopt(270, 10, 1)  # NETLINK_CAP_ACK
    return opened


def create(entries: Iterable[Flow]) -> None:
    """Create entries in the calling thread's network namespace.

    Raises:
        OSError: the kernel refused one.
    """
    messages = [flows.message(0x100, CREATE, seq, 0, flows.payload(flow)) for seq, flow in enumerate(entries, 1)]
    with contextlib.closing(_open()) as opened:
        for first in range(0, len(messages), BATCH):
            batch = messages[first : first + BATCH]
            last = bytearray(batch[-1])
            struct.pack_into("=H", last, 6, CREATE | 0x4)
            opened.send(b"".join([*batch[:-1], last]))
            for seq, status in _statuses(opened):
                if status:
                    raise OSError(-status, f"creating {messages[seq - 1].hex()}")
                if seq == first + len(batch):
                    break


def _statuses(opened: socket.socket) -> Iterable[tuple[int, int]]:
    while True:
        block = opened.recv(1 << 16)
        position = 0
        while position < len(block):
            length, _, _, seq, _ = struct.unpack_from("=IHHII", block, position)
            yield seq, struct.unpack_from("=i", block, position + 16)[0]
            position += (length + 3) & ~3


def blocks() -> list[bytes]:
    """The raw blocks of one dump in the calling thread's network namespace; sequence number 1."""
    found = []
    with contextlib.closing(_open()) as opened:
        opened.send(flows.message(0x101, 0x301, 1, 0, bytes(4)))
        while True:
            found.append(opened.recv(1 << 16))
            for kind, _ in _split(found[-1]):
                if kind in (2, 3):
                    return found


def _clear() -> None:
    ours, owners = Path("/proc/thread-self/ns/net"), Path("/proc/self/ns/net")
    assert ours.stat().st_ino != owners.stat().st_ino, "only in a private network namespace"
    with contextlib.closing(_open()) as opened:
        opened.send(flows.message(0x102, 0x5, 1, 0, bytes(4)))
        assert next(iter(_statuses(opened))) == (1, 0)


def _split(block: bytes) -> Iterable[tuple[int, bytes]]:
    position = 0
    while position < len(block):
        length, kind = struct.unpack_from("=IH", block, position)
        yield kind, block[position + 16 : position + length]
        position += (length + 3) & ~3


def _zones() -> Counter[int]:
    counts: Counter[int] = Counter()
    for block in blocks():
        for kind, body in _split(block):
            if kind == 0x100:
                counts[zone_in(body)] += 1
    return counts


def zone_in(body: bytes) -> int:
    """The zone of an entry as a person with the kernel's source would find it."""
    top = dict(_attributes(body[4:]))
    if 18 in top:
        return int.from_bytes(top[18], "big")
    for kind in (1, 2):
        inner = dict(_attributes(top[kind]))
        if 3 in inner:
            return int.from_bytes(inner[3], "big")
    return 0


def _attributes(data: bytes) -> Iterable[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        length, kind = struct.unpack_from("=HH", data, position)
        yield kind & 0x3FFF, data[position + 4 : position + length]
        position += (length + 3) & ~3


def _experiment() -> bool:
    """Whether this kernel limits a flush by CTA_ZONE, found out the hard way: in an empty table of our own."""
    assert not _zones(), "only in an empty private table"
    create([Flow(zone=3, sport=1), Flow(zone=4, sport=1)])
    with contextlib.closing(_open()) as opened:
        opened.send(flows.message(0x102, 0x5, 9, 0, bytes(4) + flows.attr(18, flows.u16(3))))
        assert next(iter(_statuses(opened))) == (9, 0)
        left = _zones()
        assert left in (Counter({4: 1}), Counter()), left
        if left:
            opened.send(flows.message(0x102, 0x5, 10, 0, bytes(4) + flows.attr(18, flows.u16(4))))
            assert next(iter(_statuses(opened))) == (10, 0)
    return bool(left)


def guarded_flush_status(zone: int) -> int:
    """The error number with which this kernel answers CTA_ZONE with an empty CTA_FILTER."""
    body = bytes(4) + flows.attr(18, flows.u16(zone)) + flows.nest(25)
    with contextlib.closing(_open()) as opened:
        opened.send(flows.message(0x102, 0x5, 9, 0, body))
        status = next(iter(_statuses(opened)))[1]
    assert status in (0, -errno.EOPNOTSUPP)
    return -status
