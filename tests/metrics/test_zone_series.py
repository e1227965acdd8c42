"""Zones get series up to a limit; sums stay right, and what matters most is never what is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ctctl.metrics.collect_zones import ZoneCollector
from ctctl.metrics.families import Families
from ctctl.model.counts import CountMethod
from ctctl.model.ids import ZoneId
from ctctl.model.snapshot import Snapshot
from ctctl.model.zone import Zone, ZoneKind
from tests.metrics.snapshots import NOW, busy_snapshot, count_of, empty_snapshot, router_zones


def port(number: int) -> Zone:
    return Zone(ZoneId(number), ZoneKind.PORT, f"p{number}", f"p{number}")


def node(zones: tuple[Zone, ...], entries: Mapping[int, int], stale: Mapping[int, int] | None = None) -> Snapshot:
    return replace(
        empty_snapshot(),
        zones=zones,
        count=count_of(entries),
        stale_entries={ZoneId(zone): number for zone, number in (stale or {}).items()},
    )


def figures(snapshot: Snapshot, limit: int) -> dict[str, dict[str, float]]:
    families = Families()
    ZoneCollector(limit)(snapshot, NOW, families)
    return {
        sample.name: {
            s.labels.get("ct_zone", s.labels.get("state", "")): s.value
            for s in family.samples
            if "le" not in s.labels and s.name == sample.name
        }
        for family in families.in_order()
        for sample in family.samples
    }


def test_router_zones_come_before_larger_zones_of_others() -> None:
    many_ports = tuple(port(number) for number in range(1000, 1100))
    snapshot = node((*router_zones(12, "r1"), *many_ports), {12: 1, **{n: 50 + n for n in range(1000, 1100)}})
    listed = figures(snapshot, limit=20)["ctctl_ct_zone_info"]
    assert {"12", "13"} <= set(listed)
    assert len(listed) == 20


def test_the_largest_zone_is_listed_even_where_routers_would_take_every_place() -> None:
    routers = tuple(zone for n in range(100, 200, 2) for zone in router_zones(n, f"r{n}"))
    snapshot = node((*routers, port(9)), {9: 1_000_000, **dict.fromkeys(range(100, 200), 5)})
    assert figures(snapshot, limit=30)["ctctl_ct_zone_entries"]["9"] == 1_000_000


def test_the_hosts_zone_and_zones_with_stale_entries_are_always_listed() -> None:
    routers = tuple(zone for n in range(100, 200, 2) for zone in router_zones(n, f"r{n}"))
    host = Zone(ZoneId(0), ZoneKind.HOST)
    snapshot = node((host, *routers, port(9)), {0: 1, 9: 1, **dict.fromkeys(range(100, 200), 5)}, stale={9: 1})
    found = figures(snapshot, limit=30)
    assert found["ctctl_ct_zone_entries"]["0"] == 1
    assert found["ctctl_ct_zone_stale_entries"] == {"9": 1}


def test_the_limit_and_what_it_dropped_are_visible() -> None:
    snapshot = node(tuple(port(n) for n in range(1, 51)), dict.fromkeys(range(1, 41), 10))
    found = figures(snapshot, limit=30)
    assert found["ctctl_ct_zone_series_limit"][""] == 30
    assert found["ctctl_ct_zone_series_dropped"][""] == 20
    assert found["ctctl_ct_zone_entries_unlisted"][""] == 100


def test_zones_that_left_leave_no_series_behind() -> None:
    collector = ZoneCollector(512)
    first, second = Families(), Families()
    collector(node(router_zones(12, "r1"), {12: 5}), NOW, first)
    collector(node(router_zones(40, "r2"), {40: 6}), NOW, second)
    zones = {s.labels["ct_zone"] for family in second.in_order() for s in family.samples if "ct_zone" in s.labels}
    assert zones == {"40", "41"}


def test_a_shared_zone_names_no_owner() -> None:
    shared = Zone(ZoneId(20), ZoneKind.CONFLICT, owner="whoever came first", key="twins_dnat")
    families = Families()
    ZoneCollector(512)(node((shared,), {20: 8}), NOW, families)
    (info,) = (s for family in families.in_order() for s in family.samples if s.name == "ctctl_ct_zone_info")
    assert (info.labels["kind"], info.labels["owner"]) == ("conflict", "")


def test_states_of_zones_are_counted_over_all_zones() -> None:
    found = figures(busy_snapshot(), limit=1)
    assert found["ctctl_ct_zones"] == {"assigned": 7, "nonempty": 7, "ownerless": 1, "conflicting": 1}
    assert found["ctctl_ct_ownerless_entries"][""] == 440


def test_a_sampled_pass_says_so() -> None:
    sampled = count_of({12: 5_000}, method=CountMethod.SAMPLED_DUMP, sampling_ratio=0.05)
    found = figures(replace(empty_snapshot(), zones=router_zones(12, "r"), count=sampled), limit=512)
    assert found["ctctl_count_sampling_ratio"][""] == 0.05


zones_with_entries = st.dictionaries(st.integers(0, 300), st.integers(1, 10**6), max_size=200)


@given(zones_with_entries, st.sets(st.integers(0, 300)), st.integers(1, 100))
def test_listed_and_unlisted_entries_always_sum_up_to_the_count(
    entries: dict[int, int], empty: set[int], limit: int
) -> None:
    zones = tuple(
        port(number) if number % 3 else router_zones(number, f"r{number}")[0]
        for number in sorted(entries | dict.fromkeys(empty))
    )
    found = figures(node(zones, entries), limit)
    listed = found.get("ctctl_ct_zone_entries", {})
    assert sum(listed.values()) + found["ctctl_ct_zone_entries_unlisted"][""] == sum(entries.values())
    infos = found.get("ctctl_ct_zone_info", {})
    assert len(infos) == min(limit, len(zones))
    assert set(listed) <= set(infos)
    assert len(infos) + found["ctctl_ct_zone_series_dropped"][""] == len(zones)
