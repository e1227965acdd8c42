"""The backend on this machine's kernel: the same promises as on the fake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from ctctl.backends.kernel import KernelDeleter
from ctctl.clients.clock import now
from ctctl.model.flush import FlushResult
from tests.backends.contract import KernelContract, many, zones
from tests.kernel_table import PrivateNetwork, RealWorld

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def private(_namespaces_work: None) -> Iterator[RealWorld]:
    """One network for all; in a slow virtual machine making it takes longer than most of these tests."""
    with closing(PrivateNetwork()) as network:
        yield RealWorld(network)


class TestOnThisKernel(KernelContract):
    @pytest.fixture
    def world(self, private: RealWorld) -> RealWorld:
        private.clear()
        return private

    def test_of_20_000_entries_in_100_zones_exactly_the_200_of_one_go(self, world: RealWorld) -> None:
        world.insert(flow for zone in range(1, 101) for flow in many(zone, 200))
        result = world.call(lambda: KernelDeleter(now).flush_zone(*zones(5)))
        assert isinstance(result, FlushResult)
        assert world.zones() == {zone: 200 for zone in range(1, 101) if zone != 5}
        assert result.deleted == (None if world.filters_by_zone else 200)
