"""Counting while the table changes under it: whatever lived throughout is counted, and nothing is left open."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from ctctl.backends.kernel import KernelDeleter, KernelReader
from ctctl.clients.clock import now
from ctctl.decide.evidence import EXPIRY_TOLERANCE_S
from ctctl.model.counts import CountPass, Keep
from ctctl.model.flush import FlushResult
from ctctl.model.ids import ZoneId
from tests.backends.contract import many, zones
from tests.kernel_table import RealWorld
from tests.lab.namespace import Namespace

pytestmark = pytest.mark.host

CHURN = """
import contextlib, sys, time
from tests import flows
from tests.flows import Flow
from tests.kernel_table import CREATE, _open, _statuses

entries = [Flow(zone=900 + n % 50, sport=n, timeout_s=60) for n in range(5000)]
new = [flows.message(0x100, CREATE, 1, 0, flows.payload(flow)) for flow in entries]
gone = [
    flows.message(0x102, 1, 1, 0, bytes([2, 0, 0, 0]) + flows.nest(1, flows.original_tuple(flow))
                  + flows.attr(18, flows.u16(flow.zone)))
    for flow in entries
]
blocks = [b"".join(batch[n : n + 100]) for n in range(0, 5000, 100) for batch in (new, gone)]
print("ready", flush=True)
done = 0
begun = time.monotonic()
with contextlib.closing(_open()) as opened:
    while time.monotonic() - begun < float(sys.argv[1]):
        for block in blocks:
            opened.send(block)
            done += 100
        opened.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                opened.recv(65536)
        opened.setblocking(True)
print(int(done / (time.monotonic() - begun)), flush=True)
"""


def test_entries_that_live_throughout_are_all_counted_under_churn(namespace: Namespace) -> None:
    world = RealWorld(namespace)
    world.insert(flow for zone in range(1, 101) for flow in many(zone, 200))
    with namespace.popen([sys.executable, "-c", CHURN, "4"], stdout=-1) as churn:
        assert churn.stdout is not None
        assert churn.stdout.readline() == b"ready\n"
        passes: list[CountPass] = []
        while churn.poll() is None:
            passes.append(world.call(lambda: KernelReader(now).count(lambda: False)))
        rate = int(churn.stdout.readline())
    print(f"{len(passes)} passes under {rate:,} changes/s")
    assert rate > 10_000, "the churn was none"
    assert len(passes) >= 5
    for passed in passes:
        counted = [passed.entries_in(ZoneId(zone)) for zone in range(1, 101)]
        assert min(counted) >= 200, "an entry that lived throughout was missed"
        assert sum(counted) <= 20_000 * 1.01, "more than a few were seen twice"


def test_a_flush_under_churn_takes_its_zone_and_leaves_the_others(namespace: Namespace) -> None:
    world = RealWorld(namespace)
    world.insert(flow for zone in range(1, 41) for flow in many(zone, 50))
    with namespace.popen([sys.executable, "-c", CHURN, "2"], stdout=-1) as churn:
        assert churn.stdout is not None
        churn.stdout.readline()
        for zone in zones(*range(1, 11)):
            assert isinstance(world.call(lambda zone=zone: KernelDeleter(now).flush_zone(zone)), FlushResult)  # type: ignore[misc]
        outcomes = world.call(
            lambda: KernelDeleter(now)._flush_by_dump(zones(*range(11, 21)), timeout_s=10, address=None)
        )
        assert [outcome.deleted for outcome in outcomes] == [50] * 10
        churn.wait()
    left = world.zones()
    assert {zone: count for zone, count in left.items() if zone < 900} == dict.fromkeys(range(21, 41), 50)


def test_sightings_tell_an_idle_entry_from_one_that_was_refreshed_or_reborn(namespace: Namespace) -> None:
    world = RealWorld(namespace)
    keep = Keep(zones=frozenset({ZoneId(5)}))
    world.insert(many(5, 20, timeout_s=500))
    before = world.call(lambda: KernelReader(now).count(lambda: False, keep)).sightings
    time.sleep(3)  # the kernel tells whole seconds: what moved by three is off by two at least
    world.call(lambda: KernelDeleter(now).flush_zone(*zones(5)))
    world.insert(many(5, 1, timeout_s=500))
    world.insert(many(5, 20, timeout_s=497)[1:])
    after = {s.tuple_orig: s for s in world.call(lambda: KernelReader(now).count(lambda: False, keep)).sightings}
    moved = [
        abs((after[s.tuple_orig].expires_boot_s or 0) - (s.expires_boot_s or 0)) > EXPIRY_TOLERANCE_S for s in before
    ]
    assert moved.count(True) == 1


def test_many_conversations_leave_no_descriptor_open(namespace: Namespace) -> None:
    world = RealWorld(namespace)
    world.insert(many(5, 50))

    def cycles() -> set[int]:
        counts = set()
        for _ in range(60):
            KernelReader(now).table_stats()
            KernelReader(now).probe()
            KernelReader(now).count(lambda: False)
            KernelDeleter(now).flush_zones(zones(7, 8))
            counts.add(sum(1 for _ in Path("/proc/self/fd").iterdir()))
        return counts

    assert len(world.call(cycles)) == 1
