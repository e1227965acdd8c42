"""A fake at the far end of the netlink socket: a conntrack table that answers messages as Linux does.

It speaks bytes, so the whole package above the socket is the real one. `tests/backends/contract.py` holds it to the
same promises as the real kernel. `tamper` scripts what a real kernel does only rarely.
"""

from __future__ import annotations

import errno
import itertools
import struct
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests import flows
from tests.flows import Flow

NEW, GET, DELETE, STATS_CPU, STATS = 0x100, 0x101, 0x102, 0x104, 0x105
DUMP = 0x300
ACK = 0x4
TUPLE_ORIG, TUPLE_REPLY, STATUS, ID, ZONE, FILTER, STATUS_MASK = 1, 2, 3, 12, 18, 25, 26

Block = bytes | OSError
Tamper = Callable[["Request", list[Block]], list[Block]]


@dataclass(frozen=True, slots=True)
class Request:
    """One message as sent."""

    kind: int
    flags: int
    seq: int
    portid: int
    body: bytes

    @property
    def is_dump(self) -> bool:
        """Claims that the request asks for a list."""
        return self.flags & DUMP == DUMP

    def attributes(self) -> dict[int, bytes]:
        """Top-level attributes behind nfgenmsg."""
        return dict(_attributes(self.body[4:]))


def _attributes(data: bytes) -> Iterable[tuple[int, bytes]]:
    position = 0
    while position + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, position)
        yield kind & 0x3FFF, data[position + 4 : position + length]
        position += (length + 3) & ~3


def _as_it_is(_: Request, blocks: list[Block]) -> list[Block]:
    return blocks


@dataclass(slots=True)
class FakeKernel:
    """`filters_by_zone`: Linux ≥ 6.8. `knows_filter`: takes CTA_FILTER in a flush, Linux ≥ 6.12. `has_ctnetlink`: the
    module is there. `permits`: the caller has CAP_NET_ADMIN. `block_bytes`: how much of a dump comes per receive.
    """

    filters_by_zone: bool = True
    knows_filter: bool = True
    has_ctnetlink: bool = True
    permits: bool = True
    block_bytes: int = 4096
    by_key: dict[tuple[int, int, bytes], Flow] = field(default_factory=dict)
    sent: list[Request] = field(default_factory=list)
    tamper: Tamper = field(default=_as_it_is)
    open_sockets: int = 0
    _portids: Any = field(default_factory=lambda: itertools.count(4000))
    _ids: Any = field(default_factory=lambda: itertools.count(0x10000001, 0x100))

    def insert(self, new: Iterable[Flow]) -> None:
        """Add entries, each with an id of its own."""
        for flow in new:
            self.by_key[_key(flow)] = replace(flow, entry_id=next(self._ids) & 0xFFFFFFFF)

    @property
    def table(self) -> list[Flow]:
        """Entries in the order of a dump."""
        return list(self.by_key.values())

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Answer every netlink socket that the package opens."""
        monkeypatch.setattr("ctctl.clients.netlink._open", lambda _: FakeSocket(self))

    def deletes(self) -> list[Request]:
        """Every delete sent so far."""
        return [request for request in self.sent if request.kind == DELETE]

    def handle(self, request: Request) -> list[Block]:
        """What the kernel would send back, block by block."""
        self.sent.append(request)
        return self.tamper(request, self._answer(request))

    def _answer(self, request: Request) -> list[Block]:
        if not self.has_ctnetlink:
            return [_status(request, errno.EINVAL)]
        if not self.permits:
            return [_status(request, errno.EPERM)]
        if request.kind == GET and request.is_dump:
            return self._dump(request)
        if request.kind == GET:
            return self._look_up(request)
        if request.kind == STATS:
            body = bytes(4) + flows.attr(1, flows.u32(len(self.by_key))) + flows.attr(2, flows.u32(262144))
            return [flows.message(STATS, 0, request.seq, request.portid, body), _status(request, 0)]
        if request.kind == STATS_CPU:
            return self._cpu_stats(request)
        if request.kind == DELETE:
            return self._delete(request)
        return [_status(request, errno.EINVAL)]

    def _dump(self, request: Request) -> list[Block]:
        attributes = request.attributes()
        wanted = self.table
        if self.filters_by_zone and ZONE in attributes:
            if STATUS_MASK in attributes and STATUS not in attributes:
                return [_status(request, errno.EINVAL)]
            zone = int.from_bytes(attributes[ZONE], "big")
            wanted = [flow for flow in wanted if flow.zone == zone]
        blocks: list[Block] = []
        block = b""
        for flow in wanted:
            entry = flows.dumped(flow, request.seq, request.portid)
            if len(block) + len(entry) > self.block_bytes:
                blocks.append(block)
                block = b""
            block += entry
        return (
            [*blocks, block, flows.done(request.seq, request.portid)]
            if block
            else [*blocks, flows.done(request.seq, request.portid)]
        )

    def _find(self, request: Request) -> Flow | None:
        attributes = request.attributes()
        zone = int.from_bytes(attributes.get(ZONE, b"\0\0"), "big")
        return self.by_key.get((request.body[0], zone, attributes[TUPLE_ORIG]))

    def _look_up(self, request: Request) -> list[Block]:
        flow = self._find(request)
        if flow is None:
            return [_status(request, errno.ENOENT)]
        return [flows.message(NEW, 0, request.seq, request.portid, flows.payload(flow)), _status(request, 0)]

    def _cpu_stats(self, request: Request) -> list[Block]:
        counters = b"".join(flows.attr(kind, flows.u32(kind * 10)) for kind in (2, 4, 8, 9, 10, 11, 12, 13, 14, 15))
        cpus = [
            flows.message(STATS_CPU, 2, request.seq, request.portid, struct.pack("!BBH", 0, 0, cpu) + counters)
            for cpu in range(2)
        ]
        return [b"".join(cpus), flows.done(request.seq, request.portid)]

    def _delete(self, request: Request) -> list[Block]:
        attributes = request.attributes()
        if TUPLE_ORIG in attributes:
            flow = self._find(request)
            if flow is None or attributes.get(ID, flows.u32(flow.entry_id)) != flows.u32(flow.entry_id):
                return [_status(request, errno.ENOENT)]
            del self.by_key[_key(flow)]
        elif FILTER in attributes and not self.knows_filter:
            return [_status(request, errno.EOPNOTSUPP)]
        elif self.filters_by_zone and ZONE in attributes:
            zone = int.from_bytes(attributes[ZONE], "big")
            self.by_key = {key: flow for key, flow in self.by_key.items() if flow.zone != zone}
        else:
            self.by_key.clear()  # the trap: a zone that is not understood is no zone
        return [_status(request, 0)] if request.flags & ACK else []


def _key(flow: Flow) -> tuple[int, int, bytes]:
    """Family, zone and tuple by which an entry is found from its original side."""
    zone = flow.zone if flow.direction in ("both", "original") else 0
    return flow.family, zone, flows.original_tuple(replace(flow, direction="both"))


def _status(request: Request, number: int) -> bytes:
    """An acknowledgement or error as with NETLINK_CAP_ACK: the request's header, not its body."""
    header = struct.pack("=IHHII", 16 + len(request.body), request.kind, request.flags, request.seq, request.portid)
    return flows.message(2, 0x100, request.seq, request.portid, struct.pack("=i", -number) + header)


class FakeSocket:
    """What `ctctl.clients.netlink` uses of a socket."""

    def __init__(self, kernel: FakeKernel) -> None:
        self._kernel = kernel
        self._portid = next(kernel._portids)
        self._queue: deque[Block] = deque()
        kernel.open_sockets += 1

    def setsockopt(self, *_: object) -> None:
        pass

    def bind(self, _: tuple[int, int]) -> None:
        pass

    def getsockname(self) -> tuple[int, int]:
        return self._portid, 0

    def close(self) -> None:
        self._kernel.open_sockets -= 1

    def send(self, data: bytes) -> int:
        position = 0
        while position < len(data):
            length, kind, flags, seq, _ = struct.unpack_from("=IHHII", data, position)
            body = data[position + 16 : position + length]
            self._queue.extend(self._kernel.handle(Request(kind, flags, seq, self._portid, body)))
            position += (length + 3) & ~3
        return len(data)

    def recvfrom_into(self, buffer: bytearray, _: int, __: int) -> tuple[int, tuple[int, int]]:
        if not self._queue:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        block = self._queue.popleft()
        if isinstance(block, OSError):
            raise block
        sender = 0
        if isinstance(block, FromProcess):
            sender = block.portid
        buffer[: min(len(block), len(buffer))] = block[: len(buffer)]
        return len(block), (sender, 0)


class FromProcess(bytes):
    """A block that another process sent, not the kernel."""

    portid = 77
