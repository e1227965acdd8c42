from __future__ import annotations

import pytest

from ctctl.cli.measuring import free_zone
from ctctl.model.counts import CountMethod, CountPass
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant
from ctctl.model.ovs import BridgeView, DatapathType, LocalView

NOW = Instant(1.0, 1.0)


def view(keys: dict[str, str], ranges: tuple[tuple[int, int], ...] = ()) -> LocalView:
    return LocalView(NOW, 1, (BridgeView("br-int", DatapathType.KERNEL, keys),), zone_ranges=ranges)


def count(*zones: int) -> CountPass:
    by_zone = {ZoneId(zone): 1 for zone in zones}
    return CountPass(NOW, NOW, CountMethod.FULL_DUMP, by_zone, len(by_zone))


@pytest.mark.parametrize(
    ("keys", "ranges", "entries", "zone"),
    [
        ({}, (), (), 65535),
        ({"a": "65535"}, (), (65534,), 65533),
        ({"a": "20"}, ((10, 20),), (19,), 18),
        ({}, ((10, 20), (100, 110)), (110,), 109),
        ({"a": "10", "b": "11"}, ((10, 11),), (), None),
        ({}, ((0, 1),), (1,), None),
    ],
)
def test_the_zone_that_is_flushed_to_measure_is_free_and_empty_and_within_ovns_range(
    keys: dict[str, str], ranges: tuple[tuple[int, int], ...], entries: tuple[int, ...], zone: int | None
) -> None:
    assert free_zone(view(keys, ranges), count(*entries)) == zone
