"""What the kernel backend promises on any kernel. Run against the fake, this machine's kernel, and others in QEMU."""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from ctctl.backends.kernel import KernelBackend, KernelDeleter, KernelReader
from ctctl.clients.clock import now
from ctctl.errors import InvalidZoneError
from ctctl.model.capability import Capability
from ctctl.model.conntrack import EntryKey
from ctctl.model.counts import CountMethod, CountPass, Keep
from ctctl.model.flush import FlushFailure, FlushResult, Strategy
from ctctl.model.ids import FlushableZoneId, ZoneId
from tests.flows import Flow
from tests.kernel_table import World

ALL_KINDS = (
    Flow(zone=0, proto="tcp", sport=1),
    Flow(zone=0, proto="icmp", sport=2),
    Flow(zone=0, proto="udp", src="fd00::1", dst="fd00::2", sport=3),
    Flow(zone=12, proto="tcp", sport=4, tcp_state=7),
    Flow(zone=12, proto="udp", sport=5, mark=7),
    Flow(zone=12, proto="icmp", sport=6),
    Flow(zone=12, proto="sctp", sport=7),
    Flow(zone=12, proto="gre", sport=8),
    Flow(zone=12, proto="ospf"),
    Flow(zone=12, proto="tcp", src="fd00::1", dst="fd00::2", sport=9),
    Flow(zone=12, proto="icmpv6", src="fd00::1", dst="fd00::2", sport=10),
    Flow(zone=12, proto="ospf", src="fd00::1", dst="fd00::2"),
    Flow(zone=13, proto="tcp", sport=11, direction="original"),
    Flow(zone=14, proto="tcp", sport=12, direction="reply"),
    Flow(zone=15, proto="tcp", src="fd00::1", dst="fd00::2", sport=13, direction="original"),
    Flow(zone=65535, proto="udp", sport=14),
)


def zones(*numbers: int) -> tuple[FlushableZoneId, ...]:
    """Numbers as the backend takes them."""
    return tuple(FlushableZoneId(ZoneId(number)) for number in numbers)


def count(world: World, keep: Keep = Keep(), **options: object) -> CountPass:  # noqa: B008 (frozen)
    """One pass."""
    return world.call(lambda: KernelReader(now, **options).count(lambda: False, keep))  # type: ignore[arg-type]


def many(zone: int, number: int, **fields: object) -> list[Flow]:
    """Entries that differ by port."""
    return [replace(Flow(zone=zone, sport=1024 + n), **fields) for n in range(number)]  # type: ignore[arg-type]


class KernelContract:
    """Inherit, and give a `world` fixture with an empty table."""

    def test_an_empty_table_has_no_entries_in_any_zone(self, world: World) -> None:
        passed = count(world)
        assert (passed.entries, passed.entries_by_zone, passed.is_complete) == (0, {}, True)

    def test_every_kind_of_entry_is_counted_in_its_zone(self, world: World) -> None:
        world.insert(ALL_KINDS)
        passed = count(world)
        assert passed.entries_by_zone == world.zones() == Counter(flow.zone for flow in ALL_KINDS)
        assert passed.entries == len(ALL_KINDS)
        assert passed.method is CountMethod.FULL_DUMP

    def test_a_pass_over_many_blocks_counts_each_entry_once(self, world: World) -> None:
        world.insert(flow for zone in range(1, 41) for flow in many(zone, 50))
        assert count(world).entries_by_zone == dict.fromkeys(range(1, 41), 50)

    def test_flushing_a_zone_deletes_it_whole_and_nothing_else(self, world: World) -> None:
        world.insert(replace(flow, zone=zone) for zone in (0, 12, 13) for flow in many(0, 3))
        world.insert(
            replace(flow, zone=zone) for zone in (0, 12, 13) for flow in many(0, 2, src="fd00::1", dst="fd00::2")
        )
        result = world.call(lambda: KernelDeleter(now).flush_zone(zones(12)[0], timeout_s=10))
        assert isinstance(result, FlushResult)
        assert world.zones() == {0: 5, 13: 5}
        expected = Strategy.KERNEL_FILTER if world.filters_by_zone else Strategy.ENTRY_DELETE
        assert (result.zone, result.strategy) == (12, expected)
        assert result.deleted == (None if world.filters_by_zone else 5)

    def test_flushing_takes_every_kind_of_entry(self, world: World) -> None:
        world.insert(ALL_KINDS)
        world.call(lambda: KernelDeleter(now).flush_zone(zones(12)[0], timeout_s=10))
        assert world.zones() == Counter(flow.zone for flow in ALL_KINDS if flow.zone != 12)

    def test_flushing_a_zone_of_the_original_direction_takes_its_entries(self, world: World) -> None:
        world.insert(ALL_KINDS)
        for zone in zones(13, 15):
            assert isinstance(world.call(partial(KernelDeleter(now).flush_zone, zone)), FlushResult)
        assert world.zones() == Counter(flow.zone for flow in ALL_KINDS if flow.zone not in (13, 15))

    def test_a_zone_of_the_reply_direction_is_flushed_or_its_entries_are_owned_up_to(self, world: World) -> None:
        world.insert(ALL_KINDS)
        outcome = world.call(lambda: KernelDeleter(now).flush_zone(zones(14)[0]))
        if world.filters_by_zone:
            assert isinstance(outcome, FlushResult)
            assert world.zones()[14] == 0
        else:
            assert isinstance(outcome, FlushFailure)
            assert "1 entries" in outcome.why
            assert world.zones()[14] == 1

    def test_flushing_an_empty_zone_is_success(self, world: World) -> None:
        world.insert(many(9, 3))
        result = world.call(lambda: KernelDeleter(now).flush_zone(zones(8)[0]))
        assert isinstance(result, FlushResult)
        assert world.zones() == {9: 3}

    def test_many_zones_are_flushed_and_the_others_stay(self, world: World) -> None:
        world.insert(flow for zone in range(40) for flow in many(zone, 5))
        outcomes = world.call(lambda: KernelDeleter(now).flush_zones(zones(*range(1, 31))))
        assert [outcome.zone for outcome in outcomes] == list(range(1, 31))
        assert all(isinstance(outcome, FlushResult) for outcome in outcomes)
        assert world.zones() == dict.fromkeys([0, *range(31, 40)], 5)

    def test_one_dump_deletes_from_the_zones_named_only(self, world: World) -> None:
        world.insert(flow for zone in range(12) for flow in many(zone, 200))
        outcomes = world.call(lambda: KernelDeleter(now)._flush_by_dump(zones(3, 5), timeout_s=10, address=None))
        assert [(o.zone, o.deleted, o.already_gone) for o in outcomes] == [(3, 200, 0), (5, 200, 0)]
        assert world.zones() == {zone: 200 for zone in range(12) if zone not in (3, 5)}

    def test_entries_are_deleted_exactly_as_named(self, world: World) -> None:
        world.insert(many(7, 10))
        world.insert(many(8, 10))
        seen = count(world, Keep(zones=frozenset({ZoneId(7)}))).sightings
        assert len(seen) == 10
        chosen = [EntryKey(zones(7)[0], s.family, s.tuple_orig, s.entry_id) for s in seen[:4]]
        (result,) = world.call(lambda: KernelDeleter(now).delete_entries(chosen))
        assert isinstance(result, FlushResult)
        assert (result.deleted, result.already_gone, result.strategy) == (4, 0, Strategy.ENTRY_DELETE)
        assert world.zones() == {7: 6, 8: 10}
        (again,) = world.call(lambda: KernelDeleter(now).delete_entries(chosen))
        assert isinstance(again, FlushResult)
        assert (again.deleted, again.already_gone) == (0, 4)

    def test_more_entries_than_fit_one_send_are_deleted(self, world: World) -> None:
        world.insert(many(7, 700))
        seen = count(world, Keep(zones=frozenset({ZoneId(7)}))).sightings
        keys = [EntryKey(zones(7)[0], s.family, s.tuple_orig, s.entry_id) for s in seen]
        (result,) = world.call(lambda: KernelDeleter(now).delete_entries(keys + keys[:300]))
        assert isinstance(result, FlushResult)
        assert (result.deleted, result.already_gone) == (700, 300)
        assert world.zones() == {}

    @pytest.mark.parametrize("wrong", ["id", "zone", "tuple"])
    def test_an_entry_that_differs_from_what_is_named_is_left(self, world: World, wrong: str) -> None:
        world.insert([Flow(zone=7)])
        (seen,) = count(world, Keep(zones=frozenset({ZoneId(7)}))).sightings
        key = EntryKey(zones(7)[0], seen.family, seen.tuple_orig, seen.entry_id)
        other = {
            "id": replace(key, entry_id=key.entry_id ^ 1),
            "zone": replace(key, zone=zones(8)[0]),
            "tuple": replace(key, tuple_orig=key.tuple_orig.replace(b"\x0a\0\0\1", b"\x0a\0\0\3")),
        }[wrong]
        (result,) = world.call(lambda: KernelDeleter(now).delete_entries([other]))
        assert isinstance(result, FlushResult)
        assert (result.deleted, result.already_gone) == (0, 1)
        assert world.zones() == {7: 1}

    def test_an_address_is_deleted_in_the_zones_named_only(self, world: World) -> None:
        floating, other = "172.16.0.9", "172.16.0.8"
        for zone in (0, 5, 6, 7):
            world.insert(
                [
                    Flow(zone=zone, dst=floating, sport=1),
                    Flow(zone=zone, src=floating, sport=2),
                    Flow(zone=zone, dst=other, sport=3),
                    Flow(zone=zone, dst=other, reply_src=floating, sport=4),
                    Flow(zone=zone, proto="udp", src="fd00::9", dst="fd00::2", sport=5),
                ]
            )
        address = ipaddress.ip_address(floating)
        outcomes = world.call(lambda: KernelDeleter(now).delete_address(zones(5, 6), address))
        assert [(o.zone, o.deleted) for o in outcomes] == [(5, 3), (6, 3)]
        assert world.zones() == {0: 5, 5: 2, 6: 2, 7: 5}
        outcomes = world.call(lambda: KernelDeleter(now).delete_address(zones(5), ipaddress.ip_address("fd00::9")))
        assert [(o.zone, o.deleted) for o in outcomes] == [(5, 1)]
        assert world.zones() == {0: 5, 5: 1, 6: 2, 7: 5}

    @pytest.mark.parametrize("wrong", [0, -1, 65536, True, None, "12", 12.0])
    def test_what_is_no_zone_to_flush_deletes_nothing(self, world: World, wrong: object) -> None:
        world.insert(many(0, 2) + many(12, 2) + many(1, 2))
        deleter = KernelDeleter(now)
        for attempt in (
            lambda: deleter.flush_zone(wrong),  # type: ignore[arg-type]
            lambda: deleter.flush_zones([*zones(12), wrong]),  # type: ignore[list-item]
            lambda: deleter.delete_address([*zones(12), wrong], ipaddress.ip_address("10.0.0.1")),  # type: ignore[list-item]
        ):
            with pytest.raises(InvalidZoneError):
                world.call(attempt)
        assert world.zones() == {0: 2, 1: 2, 12: 2}

    def test_no_zones_means_none(self, world: World) -> None:
        world.insert(many(12, 2))
        deleter = KernelDeleter(now)
        assert world.call(lambda: deleter.flush_zones([])) == ()
        assert world.call(lambda: deleter.delete_entries([])) == ()
        assert world.call(lambda: deleter.delete_address([], ipaddress.ip_address("10.0.0.1"))) == ()
        assert world.zones() == {12: 2}

    def test_the_probe_tells_what_the_kernel_does_and_changes_nothing(self, world: World) -> None:
        world.insert(many(12, 300))
        probes = {p.capability: p for p in world.call(lambda: KernelReader(now).probe())}
        assert probes[Capability.CONNTRACK].is_supported is True
        assert probes[Capability.KERNEL_ZONE_FLUSH].is_supported is world.filters_by_zone
        assert all(probe.why for probe in probes.values())
        assert world.zones() == {12: 300}

    def test_statistics_give_the_exact_size_and_every_cpu(self, world: World) -> None:
        world.insert(many(12, 123))
        stats = world.call(lambda: KernelReader(now).table_stats())
        assert stats.entries == 123
        assert stats.limit is not None
        assert stats.limit >= 123
        assert 0 in stats.counters_by_cpu
        assert {"found", "drop", "insert_failed", "search_restart"} <= stats.counters_by_cpu[0].keys()

    def test_a_recorded_entry_is_found_again_until_it_is_gone(self, world: World) -> None:
        world.insert([Flow(zone=7, timeout_s=500), Flow(zone=7, proto="tcp", src="fd00::1", dst="fd00::2")])
        seen = count(world, Keep(zones=frozenset({ZoneId(7)}))).sightings
        keys = [EntryKey(zones(7)[0], s.family, s.tuple_orig, s.entry_id) for s in seen]
        found = world.call(lambda: KernelReader(now).look_up(keys))
        for before, after in zip(seen, found, strict=True):
            assert after is not None
            assert before.expires_boot_s is not None
            assert after.expires_boot_s == pytest.approx(before.expires_boot_s, abs=1.5)
            assert replace(after, expires_boot_s=None) == replace(before, expires_boot_s=None)
        world.call(lambda: KernelDeleter(now).delete_entries(keys[:1]))
        gone, there, other = world.call(lambda: KernelReader(now).look_up([*keys, replace(keys[1], entry_id=3)]))
        assert (gone, other) == (None, None)
        assert there is not None

    def test_whole_zones_are_kept_and_long_lived_samples_of_the_others(self, world: World) -> None:
        world.insert(many(5, 40, timeout_s=30))
        world.insert(many(6, 40, timeout_s=900))
        world.insert(many(7, 40, timeout_s=30))
        keep = Keep(zones=frozenset({ZoneId(5)}), samples_per_zone=4)
        kept = Counter(seen.zone for seen in count(world, keep).sightings)
        assert kept == {5: 40, 6: 4}

    def test_the_detail_adds_up(self, world: World) -> None:
        world.insert(ALL_KINDS)
        detail = count(world, wants_detail=True).detail
        assert detail is not None
        assert detail.by_protocol == {"tcp": 6, "udp": 3, "icmp": 2, "sctp": 1, "gre": 1, "89": 2, "icmpv6": 1}
        assert detail.by_tcp_state == {"established": 5, "time_wait": 1}
        assert detail.assured + detail.unassured == len(ALL_KINDS)
        assert detail.assured == len(ALL_KINDS)

    def test_a_sampled_pass_is_marked_and_keeps_nothing(self, world: World) -> None:
        world.insert(flow for zone in range(1, 101) for flow in many(zone, 100))
        passed = count(world, Keep(samples_per_zone=2), sample_above=5_000)
        assert passed.method is CountMethod.SAMPLED_DUMP
        assert not passed.is_complete
        assert 0 < passed.sampling_ratio < 1
        assert passed.entries == 10_000
        assert passed.sightings == ()
        assert sum(passed.entries_by_zone.values()) == pytest.approx(10_000, rel=0.02)

    def test_both_together_do_what_each_does(self, world: World) -> None:
        world.insert(many(5, 4) + many(6, 4))
        backend = KernelBackend(now)
        assert isinstance(world.call(lambda: backend.flush_zone(zones(5)[0])), FlushResult)
        assert world.call(lambda: backend.count(lambda: False)).entries_by_zone == {6: 4}
