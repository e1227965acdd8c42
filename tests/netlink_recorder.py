"""Watches every netlink message the package sends, in any test, and stops a conntrack delete that is not limited.

A delete must name a zone other than 0 (CTA_ZONE, a big-endian u16), and either one entry (original tuple and id) or
carry CTA_FILTER. A flush by CTA_ZONE alone may follow only a refused guarded flush of the same zone on the socket
before. It reads bytes with its own few lines; what it judges must not judge itself.

In a conftest.py: `from tests.netlink_recorder import every_delete_is_limited, recorder` (both are used by name).
For a subprocess: `python -m tests.netlink_recorder ARGUMENTS` runs `ctctl ARGUMENTS` under the same eyes and ends it
with status 70 at the first violation.
"""

from __future__ import annotations

import os
import runpy
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ctctl.clients.netlink import NetlinkSocket

CT_DELETE = 0x102
TUPLE_ORIG, TUPLE_REPLY, ID, ZONE, FILTER = 1, 2, 12, 18, 25
EX_SOFTWARE = 70


class UnlimitedDeleteError(AssertionError):
    """A delete that could reach more than it names was about to leave."""


@dataclass(slots=True)
class Recorder:
    """Everything sent, and what is wrong with it. A message that is wrong is not sent."""

    messages: list[tuple[int, bytes]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    _guarded_zone: bytes | None = None

    def watch(self, data: bytes) -> None:
        """Look at what one send carries.

        Raises:
            UnlimitedDeleteError: a delete in it is not limited.
        """
        position = 0
        while position < len(data):
            length, kind = struct.unpack_from("=IH", data, position)
            if length < 16:
                self._refuse(f"a message that claims {length} bytes")
            body = data[position + 16 : position + length]
            self.messages.append((kind, body))
            if kind == CT_DELETE:
                self._judge(body)
            position += (length + 3) & ~3

    def deletes(self) -> list[bytes]:
        """Bodies of the conntrack deletes sent."""
        return [body for kind, body in self.messages if kind == CT_DELETE]

    def _judge(self, body: bytes) -> None:
        attributes: dict[int, bytes] = {}
        position = 4
        while position + 4 <= len(body):
            length, kind = struct.unpack_from("=HH", body, position)
            if kind & 0x3FFF in attributes or length < 4:
                self._refuse(f"attribute {kind} twice, or of {length} bytes")
            attributes[kind & 0x3FFF] = body[position + 4 : position + length]
            position += (length + 3) & ~3
        zone = attributes.get(ZONE, b"")
        if len(zone) != 2 or zone == b"\0\0":
            self._refuse(f"CTA_ZONE is {zone!r}")
        guarded, self._guarded_zone = self._guarded_zone, None
        if TUPLE_ORIG in attributes or TUPLE_REPLY in attributes:
            if len(attributes.get(ID, b"")) != 4:
                self._refuse("a tuple without the entry's id")
        elif FILTER in attributes:
            self._guarded_zone = zone
        elif guarded != zone:
            self._refuse(f"zone {zone!r} without CTA_FILTER, and not after a guarded flush of it")

    def _refuse(self, why: str) -> None:
        self.violations.append(why)
        raise UnlimitedDeleteError(f"a conntrack delete that is not limited: {why}")


def _install(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    transmit = NetlinkSocket._transmit

    def watched(self: NetlinkSocket, data: bytes) -> int:
        recorder.watch(data)
        return transmit(self, data)

    patch.setattr(NetlinkSocket, "_transmit", watched)


@pytest.fixture
def recorder() -> Recorder:
    """What this test's part of the package has sent."""
    return Recorder()


@pytest.fixture(autouse=True)
def every_delete_is_limited(recorder: Recorder) -> Iterator[None]:
    """Fails the test that sent, or tried to send, a delete without zone and id or filter; in any thread."""
    with pytest.MonkeyPatch.context() as patch:
        _install(patch, recorder)
        yield
    assert not recorder.violations


def main() -> None:
    """Run `ctctl` with the recorder in place."""

    class Strict(Recorder):
        def _refuse(self, why: str) -> None:
            sys.stderr.write(f"a conntrack delete that is not limited: {why}\n")
            sys.stderr.flush()
            os._exit(EX_SOFTWARE)

    _install(pytest.MonkeyPatch(), Strict())
    sys.argv[0] = "ctctl"
    runpy.run_module("ctctl", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
