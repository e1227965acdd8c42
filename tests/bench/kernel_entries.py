"""The table that is measured: 500 zones as a busy gateway has them, made in the calling thread's network namespace."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Container, Iterable, Iterator
from itertools import islice
from typing import Final

from tests import flows
from tests.flows import Flow
from tests.kernel_table import _open, _statuses

ZONES: Final = 500
FIRST_ZONE: Final = 1
BATCH: Final = 200
CREATE: Final = 0x1 | 0x400 | 0x200
MIX: Final = (
    *[Flow(proto="tcp", timeout_s=432_000)] * 10,
    *[Flow(proto="tcp", timeout_s=3600, tcp_state=7)] * 2,
    *[Flow(proto="udp", timeout_s=600)] * 4,
    *[Flow(proto="tcp", src="fd00::1", dst="fd00::2", timeout_s=432_000)] * 2,
    *[Flow(proto="icmp", timeout_s=600)] * 1,
    *[Flow(proto="sctp", timeout_s=3600)] * 1,
)
"""60 % TCP over IPv4 (one in six closing), 20 % UDP, 10 % IPv6, 5 % ICMP, 5 % SCTP."""


class _Template:
    """A creation message of which only zone, addresses' last bytes and ports change."""

    def __init__(self, flow: Flow) -> None:
        self._message = bytearray(flows.message(0x100, CREATE, 1, 0, flows.payload(_zoned(flow))))
        size = 4 if flow.family == 2 else 16
        tuple_bytes = len(flows.nest(1, flows.original_tuple(flow)))
        self._src = 20 + 4 + 4 + 4 + size - 4
        self._port = 20 + 4 + 4 + 2 * (4 + size) + 4 + 8 + 4
        self._reply_dst = self._src + tuple_bytes + size + 4
        self._reply_port = self._port + tuple_bytes + (0 if flow.proto == "icmp" else 8)
        self._zone = 20 + 2 * tuple_bytes + 4

    def numbered(self, zone: int, number: int, *, wants_ack: bool) -> bytes:
        """The message for the `number`-th entry of its kind in `zone`."""
        message = self._message
        struct.pack_into("=H", message, 6, CREATE | (4 if wants_ack else 0))
        struct.pack_into("!H", message, self._zone, zone)
        high, port = divmod(number, 50_000)
        for at in (self._src, self._reply_dst):
            struct.pack_into("!I", message, at, 0x0A000001 + high)
        for at in (self._port, self._reply_port):
            struct.pack_into("!H", message, at, 1024 + port)
        return bytes(message)


def _zoned(flow: Flow) -> Flow:
    return Flow(
        zone=1, proto=flow.proto, src=flow.src, dst=flow.dst, timeout_s=flow.timeout_s, tcp_state=flow.tcp_state
    )


def creations(entries: int, zones: Container[int] = range(FIRST_ZONE, FIRST_ZONE + ZONES)) -> Iterator[tuple[int, int]]:
    """Zone and running number, within the zone, of each entry of a table of `entries`; those in `zones` only."""
    for index in range(entries):
        row, offset = divmod(index, ZONES)
        if FIRST_ZONE + offset in zones:
            yield FIRST_ZONE + offset, row


def send_all(opened: socket.socket, wanted: Iterable[tuple[int, int]]) -> None:
    """Create entries, in batches of which the last message is acknowledged.

    Raises:
        OSError: the kernel refused one (ENOMEM: nf_conntrack_max is too low).
    """
    templates: dict[Flow, _Template] = {flow: _Template(flow) for flow in dict.fromkeys(MIX)}
    kinds = [templates[flow] for flow in MIX]
    remaining = iter(wanted)
    while numbers := list(islice(remaining, BATCH)):
        *others, (zone, row) = numbers
        batch = [kinds[r % len(MIX)].numbered(z, r, wants_ack=False) for z, r in others]
        batch.append(kinds[row % len(MIX)].numbered(zone, row, wants_ack=True))
        opened.send(b"".join(batch))
        number = next(iter(_statuses(opened)))[1]
        if number:
            raise OSError(-number, f"creating entries such as {batch[-1].hex()}")


def fill(entries: int) -> None:
    """Create a whole table in the calling thread's network namespace.

    Raises:
        OSError: see `send_all`.
    """
    with contextlib.closing(_open()) as opened:
        send_all(opened, creations(entries))
