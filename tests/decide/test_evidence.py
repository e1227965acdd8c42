from __future__ import annotations

from dataclasses import replace

import pytest

from ctctl.decide.evidence import BASELINE_MARGIN_S, Memory, examine, is_still, keep_for, key_of
from ctctl.errors import InvalidZoneError
from ctctl.model.conntrack import Sighting
from ctctl.model.counts import CountMethod, CountPass
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant
from ctctl.model.verdict import Verdict
from ctctl.model.zone import Zone, ZoneKind, ZoneMap

ZONE = ZoneId(12)
STEP_S = 1_700_000_000.0
BEFORE = 1000.0
CUTOFF = Instant(1010.0, STEP_S + 1010.0)
AFTER = 1020.0


def entry(number: int = 1, expires: float | None = 5000.0, started: float | None = None, zone: int = 12) -> Sighting:
    return Sighting(ZoneId(zone), 2, b"tuple%d" % number, number, expires, started and STEP_S + started)


def count(at: float, *found: Sighting, entries: int | None = None, wall_step: float = 0.0) -> CountPass:
    instant = Instant(at, STEP_S + at + wall_step)
    number = len(found) if entries is None else entries
    by_zone = {ZONE: number} if number else {}
    return CountPass(instant, instant, CountMethod.FULL_DUMP, by_zone, number, sightings=found, kept=frozenset({ZONE}))


def remembered(*passes: CountPass) -> Memory:
    memory = Memory()
    for one in passes:
        memory.note(one)
    return memory


def judged(before: CountPass | None, after: CountPass, cutoff: Instant | None = CUTOFF) -> tuple[str, list[int]]:
    baseline = remembered(before).before(ZONE, cutoff) if before is not None else None
    finding = examine(ZONE, after, baseline, cutoff)
    return finding.verdict.value, [s.entry_id for s in finding.stale]


def test_an_empty_zone_is_empty_whatever_was_there_before() -> None:
    assert judged(count(BEFORE, entry()), count(AFTER)) == ("empty", [])


def test_an_entry_that_nothing_refreshed_since_before_the_cutoff_is_old() -> None:
    assert judged(count(BEFORE, entry()), count(AFTER, entry(expires=5000.9))) == ("stale", [1])


@pytest.mark.parametrize("moved", [-1.3, 1.3, 20.0])
def test_an_entry_with_the_same_tuple_and_id_whose_expiry_moved_is_not_provably_old(moved: float) -> None:
    assert judged(count(BEFORE, entry()), count(AFTER, entry(expires=5000 + moved))) == ("unverified", [])


def test_old_entries_are_told_from_a_reborn_one_among_them() -> None:
    before = count(BEFORE, *(entry(n) for n in range(1, 5)))
    after = count(AFTER, entry(1), entry(2, expires=5020.0), entry(3), entry(4))
    assert judged(before, after) == ("stale", [1, 3, 4])


def test_an_entry_that_started_two_seconds_before_the_cutoff_is_old() -> None:
    after = count(AFTER, entry(1, started=1008.0), entry(2, started=1008.1), entry(3, started=1015.0))
    assert judged(None, after) == ("stale", [1])


def test_a_clock_that_was_set_in_between_makes_start_timestamps_worthless() -> None:
    assert judged(None, count(AFTER, entry(started=900.0), wall_step=30.0)) == ("unverified", [])


def test_dated_entries_all_younger_are_clean() -> None:
    assert judged(None, count(AFTER, entry(1, started=1011.0), entry(2, started=1012.0))) == ("clean", [])


def test_entries_that_a_whole_baseline_does_not_have_are_clean() -> None:
    assert judged(count(BEFORE), count(AFTER, entry(1), entry(2))) == ("clean", [])
    assert judged(count(BEFORE, entry(7)), count(AFTER, entry(1))) == ("clean", [])


def test_a_sample_of_the_zone_cannot_prove_it_clean_but_can_prove_entries_old() -> None:
    sample = count(BEFORE, entry(7), entries=100)
    assert judged(sample, count(AFTER, entry(1))) == ("unverified", [])
    assert judged(sample, count(AFTER, entry(1), entry(7))) == ("stale", [7])


def test_a_zone_that_was_not_wholly_kept_is_unverified() -> None:
    assert judged(count(BEFORE), count(AFTER, entry(1), entries=5)) == ("unverified", [])


def test_without_a_cutoff_nothing_is_proved() -> None:
    assert judged(count(BEFORE, entry()), count(AFTER, entry(started=10.0)), None) == ("unverified", [])


def test_without_a_baseline_and_without_dates_nothing_is_proved() -> None:
    assert judged(None, count(AFTER, entry())) == ("unverified", [])


def test_an_offloaded_entry_has_no_expiry_and_needs_a_date() -> None:
    before, after = count(BEFORE, entry(expires=None)), count(AFTER, entry(expires=None))
    assert judged(before, after) == ("unverified", [])
    assert judged(before, count(AFTER, entry(expires=None, started=900.0))) == ("stale", [1])


def test_a_pass_too_close_to_the_cutoff_is_no_baseline() -> None:
    close = CUTOFF.boot_s - BASELINE_MARGIN_S + 0.1
    assert remembered(count(close, entry())).before(ZONE, CUTOFF) is None


def test_an_entry_deleted_and_reborn_right_after_the_pass_is_not_taken_for_an_idle_one() -> None:
    # The old one was refreshed at the very end of the pass; the new one was born at the cutoff, with the same timeout.
    seen = CUTOFF.boot_s - BASELINE_MARGIN_S
    timeout_s = 30
    before = count(seen, entry(expires=seen + timeout_s))
    # Worst case of rounding: the former remaining time cut by nothing, the later one by almost a second.
    after = count(AFTER, entry(expires=CUTOFF.boot_s + timeout_s - 0.999))
    assert judged(before, after) == ("unverified", [])


def test_the_latest_pass_that_is_old_enough_is_the_baseline() -> None:
    passes = [count(990.0, entry(1)), *(count(1000.0 + n, entry(2)) for n in range(12))]
    baseline = remembered(*passes).before(ZONE, CUTOFF)
    assert baseline is not None
    assert baseline.ended.boot_s == 1007.0


def test_regular_passes_far_apart_leave_a_baseline() -> None:
    baseline = remembered(count(960.0, entry(1)), count(984.0, entry(1)), count(1009.0, entry(1))).before(ZONE, CUTOFF)
    assert baseline is not None
    assert baseline.ended.boot_s == 984.0


def test_a_sampled_pass_is_no_baseline() -> None:
    sampled = replace(count(BEFORE), method=CountMethod.SAMPLED_DUMP, sampling_ratio=0.5)
    assert remembered(sampled).before(ZONE, CUTOFF) is None


def test_right_before_its_delete_an_entry_must_still_be_the_one_that_was_judged() -> None:
    then = entry(1, expires=5000.0)
    assert is_still(then, entry(1, expires=5000.9))
    assert not is_still(then, None)
    assert not is_still(then, entry(2, expires=5000.0))
    assert not is_still(then, entry(1, expires=5030.0))
    assert not is_still(then, entry(1, expires=None))


def test_a_start_timestamp_settles_whether_it_is_still_the_same_entry() -> None:
    then = entry(1, expires=5000.0, started=900.0)
    assert is_still(then, entry(1, expires=9000.0, started=900.0))
    assert not is_still(then, entry(1, expires=5000.0, started=1015.0))


def test_an_entry_of_zone_zero_has_no_key_for_a_delete() -> None:
    with pytest.raises(InvalidZoneError):
        key_of(entry(zone=0))


def counted(**zones: int) -> CountPass:
    by_zone = {ZoneId(int(name[1:])): number for name, number in zones.items()}
    instant = Instant(BEFORE, STEP_S)
    return CountPass(instant, instant, CountMethod.FULL_DUMP, by_zone, sum(by_zone.values()))


def test_watched_zones_and_zones_without_owner_are_kept_whole_zone_zero_never() -> None:
    owned = ZoneMap({ZoneId(1): Zone(ZoneId(1), ZoneKind.PORT, "p", "p")})
    keep = keep_for(frozenset({ZoneId(9)}), owned, counted(z0=500, z1=10, z2=20, z3=30))
    assert keep.zones == {2, 3, 9}
    assert keep.samples_per_zone == 16


def test_zones_without_owner_are_kept_up_to_a_tenth_of_the_table_the_smallest_first() -> None:
    keep = keep_for(frozenset(), ZoneMap(), counted(z1=800_000, z2=60_000, z3=50_000, z4=20_000))
    assert keep.zones == {3, 4}


def test_before_the_first_pass_only_watched_zones_are_kept() -> None:
    assert keep_for(frozenset({ZONE}), ZoneMap(), None).zones == {ZONE}


def test_the_verdict_words_are_those_of_the_documentation() -> None:
    assert [v.value for v in Verdict] == ["empty", "clean", "stale", "unverified"]
