"""A pass is whole, or it is no pass: every way in which a dump can go wrong, and what is tried again."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from ctctl.backends.kernel import KernelReader, dump, tally
from ctctl.backends.kernel.table import BUCKETS_PATH
from ctctl.clients import netlink as client
from ctctl.errors import CtctlError, PermissionDeniedError, UnavailableError
from ctctl.model.capability import Capability
from ctctl.model.counts import CountIncompleteError, CountMethod, IncompleteReason, Keep
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant
from tests import flows
from tests.backends.contract import many
from tests.fake_kernel import GET, STATS, Block, FakeKernel, FromProcess, Request
from tests.flows import Flow


class Clock:
    """Time that passes only when it is asked."""

    def __init__(self) -> None:
        self.boot_s = 100.0

    def __call__(self) -> Instant:
        self.boot_s += 0.25
        return Instant(self.boot_s, self.boot_s + 1e9)


def never() -> bool:
    return False


def reader(**options: object) -> KernelReader:
    return KernelReader(Clock(), **options)  # type: ignore[arg-type]


def on_dumps(*tampers: Callable[[Request, list[Block]], list[Block]]) -> Callable[[Request, list[Block]], list[Block]]:
    """Tamper with the first dumps, one by one; leave later ones, and all else, alone."""
    remaining = list(tampers)

    def tamper(request: Request, blocks: list[Block]) -> list[Block]:
        if request.kind == GET and request.is_dump and remaining:
            return remaining.pop(0)(request, blocks)
        return blocks

    return tamper


def ends_with(number: int) -> Callable[[Request, list[Block]], list[Block]]:
    return lambda request, blocks: [*blocks[:-1], flows.done(request.seq, request.portid, -number)]


def breaks_off_with(error: Block) -> Callable[[Request, list[Block]], list[Block]]:
    return lambda _, blocks: [*blocks[:1], error]


def marked_interrupted(_: Request, blocks: list[Block]) -> list[Block]:
    first = bytearray(blocks[0])  # type: ignore[arg-type]
    first[6] |= 0x10
    return [bytes(first), *blocks[1:]]


FAILURES = {
    "interrupted by mark": (marked_interrupted, IncompleteReason.INTERRUPTED),
    "interrupted by signal": (ends_with(errno.EINTR), IncompleteReason.INTERRUPTED),
    "overrun at its end": (ends_with(errno.ENOBUFS), IncompleteReason.OVERRUN),
    "overrun on the way": (breaks_off_with(OSError(errno.ENOBUFS, "no")), IncompleteReason.OVERRUN),
    "permission": (ends_with(errno.EPERM), IncompleteReason.PERMISSION),
    "any other error": (ends_with(errno.ENOMEM), IncompleteReason.KERNEL_ERROR),
    "silence": (lambda _, blocks: blocks[:-1], IncompleteReason.TIMEOUT),
    "a cut block": (lambda _, blocks: [blocks[0][:-4], *blocks[1:]], IncompleteReason.MALFORMED),  # type: ignore[index]
    "garbage": (breaks_off_with(b"\xff" * 64), IncompleteReason.MALFORMED),
    "too large a block": (breaks_off_with(bytes(client.RECEIVE_BYTES + 4)), IncompleteReason.MALFORMED),
}
AGAIN = {IncompleteReason.INTERRUPTED, IncompleteReason.OVERRUN}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_dump_that_fails_for_good_is_never_a_count(kernel: FakeKernel, failure: str) -> None:
    kernel.insert(many(5, 60))
    tamper, reason = FAILURES[failure]
    kernel.tamper = on_dumps(*[tamper] * 9)
    with pytest.raises(CountIncompleteError) as raised:
        reader().count(never)
    assert raised.value.reason is reason
    assert isinstance(raised.value.__cause__, CtctlError)
    dumps = sum(request.kind == GET for request in kernel.sent)
    assert dumps == (dump.MAX_ATTEMPTS if reason in AGAIN else 1)
    assert kernel.open_sockets == 0


@pytest.mark.parametrize("failure", [name for name, (_, reason) in FAILURES.items() if reason in AGAIN])
def test_a_dump_that_was_disturbed_is_taken_again_from_the_start(kernel: FakeKernel, failure: str) -> None:
    kernel.insert(many(5, 60))
    kernel.tamper = on_dumps(FAILURES[failure][0])
    passed = reader().count(never, Keep(zones=frozenset({ZoneId(5)})))
    assert (passed.entries_by_zone, passed.attempts, len(passed.sightings)) == ({5: 60}, 2, 60)


def test_a_resize_during_a_dump_spoils_it(kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.insert(many(5, 60))
    sizes = [1024, 2048, 2048, 2048]
    monkeypatch.setattr(dump, "setting", lambda path: sizes.pop(0) if path == BUCKETS_PATH else None)
    passed = reader().count(never)
    assert (passed.entries_by_zone, passed.attempts, sizes) == ({5: 60}, 2, [])


def test_a_table_that_keeps_being_resized_is_not_counted(kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter(range(100))
    monkeypatch.setattr(dump, "setting", lambda _: next(sizes))
    with pytest.raises(CountIncompleteError, match="resized") as raised:
        reader().count(never)
    assert raised.value.reason is IncompleteReason.TABLE_RESIZED


def test_a_pass_can_be_stopped_and_is_not_tried_again(kernel: FakeKernel) -> None:
    kernel.insert(many(5, 60))
    with pytest.raises(CountIncompleteError) as raised:
        reader().count(lambda: True)
    assert raised.value.reason is IncompleteReason.STOPPED
    assert (len(kernel.sent), kernel.open_sockets) == (1, 0)


def test_messages_from_other_senders_are_not_counted(kernel: FakeKernel) -> None:
    kernel.insert(many(5, 20))

    def tamper(request: Request, blocks: list[Block]) -> list[Block]:
        forged = FromProcess(flows.dumped(Flow(zone=6), request.seq, request.portid))
        foreign = flows.dumped(Flow(zone=7), request.seq + 1, request.portid)
        return [forged, foreign, *blocks]

    kernel.tamper = tamper
    assert reader().count(never).entries_by_zone == {5: 20}


def test_a_dump_is_never_filtered(kernel: FakeKernel) -> None:
    reader().count(never, Keep(zones=frozenset({ZoneId(5)})))
    assert [(request.kind, request.body) for request in kernel.sent] == [(GET, bytes(4))]


def test_offloaded_entries_are_counted_and_kept_without_an_expiry(kernel: FakeKernel) -> None:
    kernel.insert([Flow(zone=5, sport=n).offloaded() for n in range(3)])
    passed = reader().count(never, Keep(zones=frozenset({ZoneId(5)})))
    assert passed.entries_by_zone == {5: 3}
    assert [seen.expires_boot_s for seen in passed.sightings] == [None] * 3


def test_a_pass_is_dated_from_before_its_request_to_after_its_end(kernel: FakeKernel) -> None:
    kernel.insert(many(5, 1, timeout_s=50))
    passed = reader().count(never, Keep(zones=frozenset({ZoneId(5)})))
    (seen,) = passed.sightings
    assert seen.expires_boot_s is not None
    assert passed.started.boot_s < seen.expires_boot_s - 50 < passed.ended.boot_s
    assert passed.duration_s == 0.5


def test_sightings_are_bounded(kernel: FakeKernel) -> None:
    kernel.insert(many(5, 60))
    passed = reader().count(never, Keep(zones=frozenset({ZoneId(5)}), max_sightings=7))
    assert (len(passed.sightings), passed.entries) == (7, 60)


def test_samples_are_sought_only_so_long_in_a_zone_without_long_lived_entries(kernel: FakeKernel) -> None:
    kernel.insert(many(5, 10, timeout_s=int(tally.LONG_LIVED_S) - 1))
    kernel.insert(replace_sport(many(5, 10, timeout_s=900), 5000))
    assert reader().count(never, Keep(samples_per_zone=2)).sightings == ()
    assert len(reader().count(never, Keep(samples_per_zone=3)).sightings) == 2


def replace_sport(entries: list[Flow], first: int) -> list[Flow]:
    return [Flow(zone=f.zone, sport=first + n, timeout_s=f.timeout_s) for n, f in enumerate(entries)]


def test_offloaded_entries_are_no_samples(kernel: FakeKernel) -> None:
    kernel.insert([Flow(zone=5).offloaded()])
    assert reader().count(never, Keep(samples_per_zone=2)).sightings == ()


def test_with_detail_samples_and_whole_zones_are_kept_all_the_same(kernel: FakeKernel) -> None:
    kernel.insert(many(5, 30) + many(6, 30))
    passed = reader(wants_detail=True).count(never, Keep(zones=frozenset({ZoneId(5)}), samples_per_zone=4))
    assert sorted(seen.zone for seen in passed.sightings) == [5] * 30 + [6] * 4
    assert passed.detail is not None
    assert passed.detail.by_protocol == {"tcp": 60}


def test_no_detail_unless_wanted(kernel: FakeKernel) -> None:
    assert reader().count(never).detail is None


class TestSampling:
    """Above a size, a pass reads a part and scales it."""

    @pytest.fixture
    def big(self, kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
        monkeypatch.setattr(tally, "BLOCKS_PER_SIZE_CHECK", 2)
        kernel.insert(flow for n in range(400) for flow in many(1 + n % 4, 1, dst=f"10.1.{n // 250}.{n % 250}"))
        return kernel

    def test_a_table_no_larger_than_the_bound_is_read_whole(self, big: FakeKernel) -> None:
        passed = reader(sample_above=400).count(never, Keep(samples_per_zone=1))
        assert (passed.method, passed.sampling_ratio, passed.entries) == (CountMethod.FULL_DUMP, 1.0, 400)
        assert len(passed.sightings) == 4

    def test_a_larger_one_is_left_early_and_scaled_to_the_exact_total(self, big: FakeKernel) -> None:
        passed = reader(sample_above=100, wants_detail=True).count(never, Keep(samples_per_zone=1))
        assert passed.method is CountMethod.SAMPLED_DUMP
        assert 100 <= passed.sampling_ratio * 400 < 200
        assert passed.entries == 400
        assert all(abs(count - 100) <= 4 for count in passed.entries_by_zone.values())
        assert passed.detail is not None
        assert passed.detail.by_protocol == {"tcp": 400}
        assert passed.detail.by_tcp_state == {"established": 400}
        assert (passed.detail.assured, passed.detail.unassured) == (400, 0)
        assert passed.sightings == ()
        assert big.open_sockets == 0

    def test_a_pass_that_is_to_keep_whole_zones_is_never_a_sample(self, big: FakeKernel) -> None:
        passed = reader(sample_above=100).count(never, Keep(zones=frozenset({ZoneId(1)})))
        assert (passed.is_complete, passed.entries, len(passed.sightings)) == (True, 400, 100)

    def test_a_total_below_what_was_read_does_not_scale_down(self, big: FakeKernel) -> None:
        sizes = [400, 10]

        def tamper(request: Request, blocks: list[Block]) -> list[Block]:
            if request.kind != STATS:
                return blocks
            body = bytes(4) + flows.attr(1, flows.u32(sizes.pop(0)))
            return [flows.message(STATS, 0, request.seq, request.portid, body), blocks[-1]]

        big.tamper = tamper
        passed = reader(sample_above=100).count(never)
        assert passed.sampling_ratio == 1.0
        assert passed.entries == sum(passed.entries_by_zone.values())

    def test_without_a_total_there_is_no_pass(self, big: FakeKernel) -> None:
        big.has_ctnetlink = False
        with pytest.raises(CountIncompleteError) as raised:
            reader(sample_above=100).count(never)
        assert raised.value.reason is IncompleteReason.UNAVAILABLE


def test_without_the_module_nothing_is_claimed_about_zones(kernel: FakeKernel) -> None:
    kernel.has_ctnetlink = False
    probes = {probe.capability: probe for probe in reader().probe()}
    assert probes[Capability.CONNTRACK].is_supported is False
    assert "nf_conntrack_netlink" in probes[Capability.CONNTRACK].why
    assert probes[Capability.KERNEL_ZONE_FLUSH].is_supported is None
    with pytest.raises(UnavailableError, match="nf_conntrack_netlink"):
        reader().table_stats()


def test_without_permission_nothing_is_claimed_about_zones(kernel: FakeKernel) -> None:
    kernel.permits = False
    probes = {probe.capability: probe for probe in reader().probe()}
    assert probes[Capability.CONNTRACK].is_supported is False
    assert "CAP_NET_ADMIN" in probes[Capability.CONNTRACK].why
    assert probes[Capability.KERNEL_ZONE_FLUSH].is_supported is None
    with pytest.raises(PermissionDeniedError):
        reader().table_stats()


def test_a_kernel_that_refuses_the_probe_with_and_without_a_zone_filters_nothing(kernel: FakeKernel) -> None:
    def tamper(request: Request, blocks: list[Block]) -> list[Block]:
        if request.kind == GET and request.is_dump:
            return [flows.message(2, 0, request.seq, request.portid, b"\xea\xff\xff\xff" + bytes(16))]
        return blocks

    kernel.tamper = tamper
    probes = {probe.capability: probe for probe in reader().probe()}
    assert probes[Capability.KERNEL_ZONE_FLUSH].is_supported is False


def test_a_probe_that_is_not_answered_leaves_it_unknown(kernel: FakeKernel) -> None:
    kernel.tamper = lambda request, blocks: [] if request.kind == GET else blocks
    probes = {probe.capability: probe for probe in reader().probe()}
    assert probes[Capability.CONNTRACK].is_supported is True
    assert probes[Capability.KERNEL_ZONE_FLUSH].is_supported is None
    assert kernel.open_sockets == 0


def test_an_unexpected_refusal_of_the_probe_leaves_it_unknown(kernel: FakeKernel) -> None:
    kernel.tamper = on_dumps(ends_with(errno.EBUSY))
    probes = {probe.capability: probe for probe in reader().probe()}
    assert probes[Capability.KERNEL_ZONE_FLUSH].is_supported is None


@pytest.mark.parametrize(("value", "expected"), [(1, True), (0, False), (None, None)])
def test_whether_entries_carry_their_start_is_a_setting(
    kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch, value: int | None, expected: bool | None
) -> None:
    monkeypatch.setattr("ctctl.backends.kernel.reader.setting", lambda _: value)
    probes = {probe.capability: probe for probe in reader().probe()}
    assert probes[Capability.TIMESTAMPS].is_supported is expected


def test_statistics_come_with_every_cpus_own_counters(kernel: FakeKernel) -> None:
    stats = reader().table_stats()
    assert stats.counters_by_cpu[1] == {
        "found": 20,
        "invalid": 40,
        "insert": 80,
        "insert_failed": 90,
        "drop": 100,
        "early_drop": 110,
        "error": 120,
        "search_restart": 130,
        "clash_resolve": 140,
        "chain_toolong": 150,
    }
    assert set(stats.counters_by_cpu) == {0, 1}
    assert stats.limit == 262144


def test_a_reader_holds_nothing_that_deletes() -> None:
    held = {name for name in dir(KernelReader) if not name.startswith("__")}
    assert not {name for name in held if "delete" in name or "flush" in name}


def test_a_look_up_checks_what_the_kernel_found(kernel: FakeKernel) -> None:
    kernel.insert([Flow(zone=5)])
    (seen,) = reader().count(never, Keep(zones=frozenset({ZoneId(5)}))).sightings
    from ctctl.model.conntrack import EntryKey

    key = EntryKey(5, seen.family, seen.tuple_orig, seen.entry_id)  # type: ignore[arg-type]
    other = flows.payload(Flow(zone=6, entry_id=seen.entry_id))
    kernel.tamper = lambda request, blocks: [
        flows.message(0x100, 0, request.seq, request.portid, other),
        *blocks[1:],
    ]
    assert reader().look_up([key]) == (None,)
    kernel.tamper = lambda request, blocks: [flows.done(request.seq, request.portid, -errno.EPERM)]
    with pytest.raises(PermissionDeniedError, match="zone 5"):
        reader().look_up([key])
