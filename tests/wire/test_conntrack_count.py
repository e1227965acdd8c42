"""The fast count agrees with a reading that takes every attribute in turn, and refuses what that refuses."""

from __future__ import annotations

import errno
import struct
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctctl.model.ids import ZoneId
from ctctl.wire.conntrack_count import ZoneCounter
from ctctl.wire.conntrack_walk import DumpEnd, DumpWalk, zone_of
from ctctl.wire.netlink import MalformedMessageError
from tests import flows
from tests.backends.contract import ALL_KINDS
from tests.flows import Flow
from tests.kernel_table import _split, zone_in
from tests.wire.capture import RICH, TRANSLATED
from tests.wire.kernel_samples import Sample, each_kernel

SEQ, PORTID = 3, 4711
CLEAN = DumpEnd(error_number=0, is_interrupted=False, is_overrun=False)

v4 = st.sampled_from(["10.0.0.1", "255.255.255.255", "0.0.0.0"])  # noqa: S104 (an address in an entry)
v6 = st.sampled_from(["fd00::1", "ff02::fb", "::"])
zones = st.integers(0, 65535) | st.integers(0, 3)
any_flow = st.one_of(
    st.builds(
        Flow,
        zone=zones,
        proto=st.sampled_from(["tcp", "udp", "sctp", "gre", "ospf", "icmp" if family is v4 else "icmpv6"]),
        src=family,
        dst=family,
        sport=st.integers(0, 65535),
        direction=st.sampled_from(["both", "both", "original", "reply"]),
        timeout_s=st.none() | st.integers(0, 2**32 - 1),
        mark=st.integers(0, 2**32 - 1),
        labels=st.sampled_from([b"", bytes(16), b"\xff" * 16]),
        started_ns=st.none() | st.integers(0, 2**64 - 1),
        entry_id=st.integers(0, 2**32 - 1),
    )
    for family in (v4, v6)
)


def ignore(*_: object) -> None:
    """Nothing is wanted."""


def counter() -> ZoneCounter:
    return ZoneCounter(SEQ, PORTID, ignore)


def block_of(entries: Sequence[Flow]) -> bytes:
    return b"".join(flows.dumped(flow, SEQ, PORTID) for flow in entries)


def reference(block: bytes) -> Counter[int]:
    return Counter(zone_in(body) for kind, body in _split(block) if kind == 0x100)


@each_kernel
def test_what_real_kernels_send_is_counted_as_a_person_would(sample: Sample) -> None:
    counted = ZoneCounter(1, sample.portid(), ignore)
    ends = [counted.feed(block, len(block)) for block in sample.dump]
    assert ends == [None] * (len(ends) - 1) + [CLEAN]
    expected = Counter(flow.zone for flow in (*ALL_KINDS, RICH, TRANSLATED, Flow(zone=20)))
    assert counted.entries_by_zone() == expected == sum(map(reference, sample.dump), Counter())
    assert counted.entries() == expected.total()


@each_kernel
def test_only_direction_zones_and_the_end_need_the_slow_walk(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    slow: list[int] = []
    step = DumpWalk.step

    def counted_step(self: DumpWalk, block: bytes, end: int, start: int) -> int:
        slow.append(struct.unpack_from("=H", block, start + 4)[0])
        return step(self, block, end, start)

    monkeypatch.setattr(DumpWalk, "step", counted_step)
    counted = ZoneCounter(1, sample.portid(), ignore)
    for block in sample.dump:
        counted.feed(block, len(block))
    # In zone 0, ICMP has the size of a TCP tuple with a zone of its own.
    hidden = [f for f in ALL_KINDS if f.direction != "both" or (f.zone, f.proto) == (0, "icmp")]
    last_of_blocks = len(sample.dump) - 1
    assert slow.count(3) == 1
    assert len(hidden) <= slow.count(0x100) <= len(hidden) + last_of_blocks


@given(st.lists(any_flow, max_size=30))
def test_counts_are_those_of_a_reference_walk(entries: list[Flow]) -> None:
    block = block_of(entries) + flows.done(SEQ, PORTID)
    counted = counter()
    assert counted.feed(block, len(block)) == CLEAN
    assert counted.entries_by_zone() == reference(block)
    assert counted.entries() == len(entries)


@given(st.lists(any_flow, max_size=12), st.lists(st.integers(0, 11), max_size=40), st.sets(zones, max_size=4))
def test_blocks_of_kinds_met_before_are_counted_alike_and_hand_over_alike(
    kinds: list[Flow], order: list[int], wanted: set[int]
) -> None:
    handed: list[bytes] = []
    counted = ZoneCounter(SEQ, PORTID, lambda block, start, end, _: handed.append(bytes(block[start:end])))
    for zone in wanted:
        counted.want(ZoneId(zone))
    again = [kinds[number] for number in order if number < len(kinds)]
    blocks = [block_of(kinds), block_of(again), block_of(again), block_of(kinds) + flows.done(SEQ, PORTID)]
    for block in blocks:
        counted.feed(bytearray(block) + b"\xff" * 300, len(block))
    everything = kinds + again + again + kinds
    assert counted.entries_by_zone() == Counter(flow.zone for flow in everything)
    assert counted.entries() == len(everything)
    assert handed == [flows.dumped(flow, SEQ, PORTID) for flow in everything if flow.zone in wanted]


@given(st.lists(any_flow, min_size=1, max_size=5), st.integers(0, 2000), st.integers(0, 255))
def test_in_a_block_of_known_kinds_a_wrong_byte_gives_what_the_walk_gives(
    entries: list[Flow], at: int, value: int
) -> None:
    good = block_of(entries)
    block = bytearray(good)
    block[at % len(block)] = value
    learned, fresh = counter(), counter()
    learned.feed(good, len(good))
    with suppress(MalformedMessageError):
        fresh.feed(block, len(block))
    try:
        learned.feed(block, len(block))
    except MalformedMessageError:
        return
    assert learned.entries_by_zone() == Counter(reference(good)) + Counter(fresh.entries_by_zone())


def test_a_kind_met_before_does_not_excuse_an_entry_that_ends_before_its_zone() -> None:
    met = Flow(zone=5, proto="ospf")
    ipv6 = Flow(zone=5, src="fd00::1", dst="fd00::2")
    # Where the cut entry's zone would stand, the next one has its source address, which reads as CTA_ZONE's header.
    following = Flow(zone=5, src="6.0.18.0", dst="7.7.7.7")
    length = len(flows.dumped(met, SEQ, PORTID))
    short = bytearray(flows.dumped(ipv6, SEQ, PORTID)[:length])
    struct.pack_into("=I", short, 0, length)
    counted = counter()
    usual = block_of([met, ipv6, following])
    counted.feed(usual, len(usual))
    block = bytes(short) + block_of([following] * 2)
    assert block[172:176] == b"\6\0\x12\0"
    with pytest.raises(MalformedMessageError):
        counted.feed(block, len(block))


@given(st.lists(any_flow, min_size=1, max_size=4), st.data())
def test_every_truncation_of_a_block_is_refused(entries: list[Flow], data: st.DataObject) -> None:
    block = block_of(entries)
    last = len(flows.dumped(entries[-1], SEQ, PORTID))
    cut = data.draw(st.integers(1, last - 1))
    stale = block + flows.dumped(Flow(zone=9), SEQ, PORTID)  # what an earlier, longer block left in the buffer
    for cut_block in (block[:-cut], stale):
        with pytest.raises(MalformedMessageError):
            counter().feed(cut_block, len(block) - cut)


@given(any_flow, st.data())
def test_every_truncation_inside_an_entry_is_refused_up_to_its_zone(flow: Flow, data: st.DataObject) -> None:
    whole = bytearray(flows.dumped(flow, SEQ, PORTID))
    tuples = len(flows.nest(1, flows.original_tuple(flow)) + flows.nest(2, flows.reply_tuple(flow)))
    length = data.draw(st.integers(4, (20 + tuples) // 4 - 1)) * 4
    struct.pack_into("=I", whole, 0, length)
    block = bytes(whole[:length]) + flows.dumped(Flow(zone=9), SEQ, PORTID) * 2
    with pytest.raises(MalformedMessageError):
        counter().feed(block, len(block))


@given(st.binary(max_size=400))
def test_garbage_counts_nothing_that_is_not_there(garbage: bytes) -> None:
    counted = counter()
    with suppress(MalformedMessageError):
        counted.feed(garbage, len(garbage))
    assert counted.entries() == 0 or struct.pack("=HHII", 0x100, 2, SEQ, PORTID) in garbage


@given(st.lists(any_flow, min_size=1, max_size=5), st.integers(0, 2000), st.integers(0, 255))
def test_one_wrong_byte_never_crashes_and_never_adds_an_entry(entries: list[Flow], at: int, value: int) -> None:
    block = bytearray(block_of(entries))
    block[at % len(block)] = value
    counted = counter()
    try:
        counted.feed(block, len(block))
    except MalformedMessageError:
        return
    assert counted.entries() <= len(entries)


@pytest.mark.parametrize(("seq", "portid"), [(SEQ + 1, PORTID), (SEQ, PORTID + 1), (0, 0)])
def test_messages_of_other_requests_and_sockets_are_skipped(seq: int, portid: int) -> None:
    entries = [flows.dumped(Flow(zone=5), *ids) for ids in ((seq, portid), (SEQ, PORTID), (seq, portid))]
    block = b"".join([*entries, flows.done(seq, portid), flows.done(SEQ, PORTID)])
    counted = counter()
    assert counted.feed(block, len(block)) == CLEAN
    assert counted.entries_by_zone() == {5: 1}


@pytest.mark.parametrize("number", [errno.EINTR, errno.ENOBUFS, errno.EPERM, errno.EBUSY])
@pytest.mark.parametrize("kind", [2, 3])
def test_a_dump_that_ends_with_an_error_says_so(kind: int, number: int) -> None:
    block = block_of([Flow(zone=5)] * 3) + flows.message(kind, 2, SEQ, PORTID, struct.pack("=i", -number))
    assert counter().feed(block, len(block)) == replace(CLEAN, error_number=number)


def test_an_interrupted_dump_says_so_whichever_message_carries_the_mark() -> None:
    marked = flows.message(0x100, 0x12, SEQ, PORTID, flows.payload(Flow(zone=5)))
    for blocks in (
        [marked, flows.done(SEQ, PORTID)],
        [block_of([Flow(zone=5)]), flows.message(3, 0x12, SEQ, PORTID, bytes(4))],
    ):
        counted = counter()
        ends = [counted.feed(block, len(block)) for block in blocks]
        assert ends == [None, replace(CLEAN, is_interrupted=True)]
        assert counted.entries_by_zone() == {5: 1}


def test_an_overrun_within_a_dump_is_remembered_to_its_end() -> None:
    block = flows.message(4, 0, SEQ, PORTID, b"") + flows.message(1, 0, SEQ, PORTID, b"") + flows.done(SEQ, PORTID)
    assert counter().feed(block, len(block)) == replace(CLEAN, is_overrun=True)


@pytest.mark.parametrize("more", [flows.dumped(Flow(zone=5), SEQ, PORTID), flows.done(SEQ, PORTID)])
def test_a_dump_that_goes_on_after_its_end_is_refused(more: bytes) -> None:
    counted = counter()
    assert counted.feed(flows.done(SEQ, PORTID), 20) == CLEAN
    with pytest.raises(MalformedMessageError, match="after its end"):
        counted.feed(more, len(more))
    with pytest.raises(MalformedMessageError, match="after its end"):
        counter().feed(flows.done(SEQ, PORTID) + more * 2, 20 + 2 * len(more))


def test_foreign_messages_after_the_end_are_nobodys_business() -> None:
    block = flows.done(SEQ, PORTID) + flows.dumped(Flow(zone=5), SEQ + 1, PORTID) * 2
    assert counter().feed(block, len(block)) == CLEAN


def test_a_message_that_belongs_to_no_dump_is_refused() -> None:
    block = flows.message(0x102, 2, SEQ, PORTID, flows.payload(Flow(zone=5)))
    with pytest.raises(MalformedMessageError, match="type 0x102"):
        counter().feed(block, len(block))


def test_only_entries_of_wanted_zones_are_handed_over_and_each_whole() -> None:
    handed: list[tuple[bytes, int]] = []

    def on_wanted(block: bytes, start: int, end: int, zone: ZoneId) -> None:
        handed.append((bytes(block[start:end]), zone))
        if len(handed) == 3:
            counted.forget(ZoneId(0x0102))

    counted = ZoneCounter(SEQ, PORTID, on_wanted)  # type: ignore[arg-type]
    counted.want(ZoneId(0x0102))
    counted.want(ZoneId(0x0201))
    wanted = Flow(zone=0x0102), Flow(zone=0x0201, direction="original"), Flow(zone=0x0102, proto="icmpv6", src="::1",
                                                                                dst="::2")  # fmt: skip
    block = block_of([Flow(zone=1), *wanted, Flow(zone=0x0102), Flow(zone=0)])
    counted.feed(block, len(block))
    assert handed == [(flows.dumped(flow, SEQ, PORTID), flow.zone) for flow in wanted]
    assert counted.entries_by_zone() == {0: 1, 1: 1, 0x0102: 3, 0x0201: 1}


def test_when_all_are_wanted_all_are_handed_over() -> None:
    handed: list[int] = []
    counted = ZoneCounter(SEQ, PORTID, lambda *got: handed.append(got[3]))
    counted.want_all()
    block = block_of(ALL_KINDS)
    counted.feed(block, len(block))
    assert handed == [flow.zone for flow in ALL_KINDS]


def test_a_wanted_entry_that_reaches_past_its_block_is_not_handed_over() -> None:
    block = bytearray(block_of([Flow(zone=5)]))
    struct.pack_into("=I", block, 0, len(block) + 4)
    counted = ZoneCounter(SEQ, PORTID, lambda *_: pytest.fail("handed over"))
    counted.want(ZoneId(5))
    with pytest.raises(MalformedMessageError, match="4 bytes past"):
        counted.feed(block, len(block))


@pytest.mark.parametrize("missing", [1, 2])
def test_an_entry_without_both_tuples_is_refused(missing: int) -> None:
    other = flows.nest(3 - missing, flows.original_tuple(Flow()))
    block = flows.message(0x100, 2, SEQ, PORTID, b"\x02\0\0\0" + other + flows.attr(18, b"\0\5"))
    with pytest.raises(MalformedMessageError, match="both tuples"):
        zone_of(block, 0, len(block))


@pytest.mark.parametrize("value", [b"", b"\5", b"\0\0\0\5"])
def test_a_zone_that_is_no_u16_is_refused(value: bytes) -> None:
    tuples = flows.nest(1, flows.original_tuple(Flow())) + flows.nest(2, flows.reply_tuple(Flow()))
    block = flows.message(0x100, 2, SEQ, PORTID, b"\x02\0\0\0" + tuples + flows.attr(18, value) + bytes(0))
    with pytest.raises(MalformedMessageError, match="u16 attribute"):
        counter().feed(block + flows.done(SEQ, PORTID), len(block) + 20)
