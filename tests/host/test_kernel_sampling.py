"""A dump really comes in an order that makes its beginning a fair sample."""

from __future__ import annotations

import pytest

from ctctl.backends.kernel import KernelReader, tally
from ctctl.clients.clock import now
from ctctl.model.ids import ZoneId
from tests.backends.contract import many
from tests.kernel_table import RealWorld
from tests.lab.namespace import Namespace

pytestmark = pytest.mark.host


def test_samples_of_the_real_table_stay_within_their_margins(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "BLOCKS_PER_SIZE_CHECK", 4)
    world = RealWorld(namespace)
    sizes = {zone: 20 + 15 * zone for zone in range(1, 41)}
    world.insert(flow for zone, size in sizes.items() for flow in many(zone, size, proto="udp"))
    passed = world.call(lambda: KernelReader(now, sample_above=3000).count(lambda: False))
    assert 0.1 < passed.sampling_ratio < 0.6
    within = [
        abs(passed.entries_in(ZoneId(zone)) - size) <= passed.margin_of(ZoneId(zone)) for zone, size in sizes.items()
    ]
    assert within.count(True) >= 36
