"""The margin of a sampled pass is honest: the truth lies within it as often as it says."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ctctl.model.counts import CountMethod, CountPass
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant

NOW = Instant(1.0, 1.0)
SIZES = {1: 1, 2: 5, 3: 20, 4: 60, 5: 200, 6: 714, 7: 2000, 8: 5000}
POPULATION = [zone for zone, size in SIZES.items() for _ in range(size)]


def sampled(seen: Counter[int], read: int, total: int) -> CountPass:
    ratio = read / total
    zones = {ZoneId(zone): round(count / ratio) for zone, count in seen.items()}
    return CountPass(NOW, NOW, CountMethod.SAMPLED_DUMP, zones, total, sampling_ratio=ratio)


@pytest.mark.parametrize("read", [200, 1000, 4000])
def test_the_truth_is_within_the_margin_in_95_of_100_samples(read: int) -> None:
    dice = random.Random(read)
    inside: Counter[int] = Counter()
    trials = 300
    for _ in range(trials):
        passed = sampled(Counter(dice.sample(POPULATION, read)), read, len(POPULATION))
        for zone, size in SIZES.items():
            inside[zone] += abs(passed.entries_in(ZoneId(zone)) - size) <= passed.margin_of(ZoneId(zone))
    assert sum(inside.values()) >= 0.95 * trials * len(SIZES)
    assert min(inside.values()) >= 0.90 * trials


def test_the_margin_is_of_use() -> None:
    dice = random.Random(1)
    passed = sampled(Counter(dice.sample(POPULATION, 4000)), 4000, len(POPULATION))
    assert passed.margin_of(ZoneId(8)) < 5000 * 0.05
    assert passed.margin_of(ZoneId(5)) < 200 * 0.3


def test_a_zone_of_which_nothing_was_seen_may_still_have_entries() -> None:
    passed = sampled(Counter({8: 200}), 200, len(POPULATION))
    assert passed.margin_of(ZoneId(1)) > 50


def test_a_complete_pass_has_no_margin() -> None:
    whole = CountPass(NOW, NOW, CountMethod.FULL_DUMP, {ZoneId(5): 7}, 7)
    assert whole.margin_of(ZoneId(5)) == 0
    assert sampled(Counter({5: 7}), 7, 7).margin_of(ZoneId(5)) == 0
    assert CountPass(NOW, NOW, CountMethod.SAMPLED_DUMP, {}, 0).margin_of(ZoneId(5)) == 0
