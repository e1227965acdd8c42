"""Ten thousand conversations and a thousand forced errors on the real kernel leave descriptors and memory alone."""

from __future__ import annotations

import ctypes
import errno
import gc
import random
import resource
import sys
from pathlib import Path

import pytest

from ctctl.backends.kernel import KernelDeleter, KernelReader
from ctctl.clients import netlink as client
from ctctl.clients.clock import now
from ctctl.clients.netlink import NetlinkSocket
from ctctl.errors import CtctlError
from ctctl.model.counts import Keep
from ctctl.model.flush import FlushFailure
from ctctl.model.ids import ZoneId
from tests.backends.contract import many, zones
from tests.kernel_table import RealWorld
from tests.lab.namespace import Namespace

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(600)]


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def one_cycle(number: int) -> None:
    reader, deleter = KernelReader(now), KernelDeleter(now)
    match number % 4:
        case 0:
            reader.table_stats()
        case 1:
            reader.count(lambda: False, Keep(zones=frozenset({ZoneId(5)})))
        case 2:
            deleter.flush_zone(*zones(7))
        case _:
            reader.probe()


def test_ten_thousand_conversations_leave_nothing_behind(namespace: Namespace) -> None:
    world = RealWorld(namespace)
    world.insert(many(5, 50))
    # In a process of its own: this one's memory also holds what the recorder keeps of every message.
    program = "from tests.slow.test_kernel_cycles import cycles; print(*cycles())"
    env = {"PYTHONPATH": str(Path(__file__).parents[2])}
    answer = namespace.run([sys.executable, "-c", program], env=env, timeout_s=550).stdout.split()
    descriptors_seen, grown_kib = int(answer[0]), int(answer[1])
    assert descriptors_seen == 1
    assert grown_kib < 8192


def cycles() -> tuple[int, int]:
    """Different numbers of open descriptors seen, and KiB by which the memory that is in use grew."""
    for number in range(100):
        one_cycle(number)
    before = memory_kib()
    seen = set()
    for number in range(10_000):
        one_cycle(number)
        if number % 100 == 0:
            seen.add(descriptors())
    return len(seen), memory_kib() - before


def memory_kib() -> int:
    """Resident memory without what the allocator only keeps for later: each count hands half a megabyte back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def test_a_thousand_forced_errors_leave_nothing_behind(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    world = RealWorld(namespace)
    world.insert(many(5, 50))
    dice = random.Random(15)
    transmit, open_ = NetlinkSocket._transmit, client._open
    forced = 0

    def failing_transmit(self: NetlinkSocket, data: bytes) -> int:
        nonlocal forced
        if dice.random() > 0.3:
            return transmit(self, data)
        forced += 1
        match dice.randrange(4):
            case 0:
                raise OSError(dice.choice([errno.ENOBUFS, errno.EPERM, errno.EINTR, errno.ENOMEM]), "forced")
            case 1:
                return len(data) - 1
            case 2:
                return transmit(self, data[:4] + b"\x7f\x01" + data[6:])  # a conntrack message no kernel knows
            case _:
                return len(data)  # lost on the way: no answer ever comes

    def failing_open(protocol: int) -> object:
        nonlocal forced
        if dice.random() > 0.05:
            return open_(protocol)
        forced += 1
        raise OSError(errno.EMFILE, "forced")

    monkeypatch.setattr(NetlinkSocket, "_transmit", failing_transmit)
    monkeypatch.setattr(client, "_open", failing_open)
    monkeypatch.setattr("ctctl.backends.kernel.table.TIMEOUT_S", 0.02)
    monkeypatch.setattr("ctctl.backends.kernel.reader.TIMEOUT_S", 0.02)
    monkeypatch.setattr("ctctl.backends.kernel.dump.TIMEOUT_S", 0.02)

    def cycles() -> tuple[int, int]:
        errors = 0
        before = descriptors()
        reader, deleter = KernelReader(now), KernelDeleter(now)
        while forced < 1000:
            for attempt in (reader.table_stats, reader.probe, lambda: reader.count(lambda: False)):
                try:
                    attempt()
                except CtctlError:
                    errors += 1
            errors += isinstance(deleter.flush_zone(*zones(7), timeout_s=0.02), FlushFailure)
        return errors, descriptors() - before

    errors, leaked = world.call(cycles)
    assert errors > 200
    assert leaked == 0
    monkeypatch.undo()
    assert world.zones() == {5: 50}
