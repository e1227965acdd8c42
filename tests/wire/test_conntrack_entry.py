"""One entry decoded: what is in it, and that what is cut short is refused."""

from __future__ import annotations

import ipaddress
import struct
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctctl.errors import InvalidZoneError
from ctctl.model.conntrack import EntryKey, Sighting
from ctctl.model.instant import Instant
from ctctl.wire.conntrack_detail import DetailCounter
from ctctl.wire.conntrack_entry import Entry, entry
from ctctl.wire.conntrack_quick import key, sighting, traits
from ctctl.wire.netlink import MalformedMessageError
from tests import flows
from tests.backends.contract import ALL_KINDS
from tests.flows import Flow
from tests.kernel_table import _split
from tests.wire.capture import RICH, TRANSLATED
from tests.wire.kernel_samples import Sample, each_kernel
from tests.wire.test_conntrack_count import any_flow

SEEN = Instant(boot_s=1000.0, wall_s=2000.0)


def decoded(sample: Sample) -> list[Entry]:
    return [entry(body) for block in sample.dump for kind, body in _split(block) if kind == 0x100]


def message_of(flow: Flow) -> bytes:
    return flows.dumped(flow, 1, 2)


@each_kernel
def test_every_entry_of_a_real_kernel_is_what_was_created(sample: Sample) -> None:
    found = Counter((e.zone, e.family, e.protocol, e.tuple_orig, e.is_zoned_by_reply) for e in decoded(sample))
    assert found == Counter(
        (
            flow.zone,
            flow.family,
            flows.NUMBERS[flow.proto],
            flows.original_tuple(replace(flow, direction="both")),
            flow.direction == "reply",
        )
        for flow in (*ALL_KINDS, RICH, TRANSLATED, Flow(zone=20, sport=99))
    )


@each_kernel
def test_a_rich_entry_carries_timeout_start_state_and_an_id_of_its_own(sample: Sample) -> None:
    everything = decoded(sample)
    (rich,) = [e for e in everything if e.zone == RICH.zone]
    assert rich.timeout_s is not None
    assert 86390 <= rich.timeout_s <= 86400
    assert rich.started_wall_s is not None
    assert rich.started_wall_s > 1.7e9
    assert (rich.tcp_state, rich.is_assured, rich.is_offloaded) == (3, True, False)
    assert len({e.entry_id for e in everything}) == len(everything)
    (early,) = [e for e in everything if e.zone == 20]
    assert early.started_wall_s is None


@each_kernel
def test_a_translated_entry_knows_the_addresses_of_both_sides(sample: Sample) -> None:
    (translated,) = [e for e in decoded(sample) if e.zone == TRANSLATED.zone]
    expected = {ipaddress.ip_address(a).packed for a in ("10.0.0.1", "172.16.0.9", "10.0.0.7")}
    assert translated.addresses == expected


@given(any_flow)
def test_whatever_the_kernel_writes_is_read_back(flow: Flow) -> None:
    found = entry(flows.payload(flow))
    assert found.zone == flow.zone
    assert found.is_zoned_by_reply == (flow.direction == "reply")
    assert found.tuple_orig == flows.original_tuple(replace(flow, direction="both"))
    assert found.entry_id == flow.entry_id
    assert found.timeout_s == flow.timeout_s
    assert found.status == flow.status
    assert found.started_wall_s == (None if flow.started_ns is None else flow.started_ns / 1e9)
    assert found.tcp_state == (3 if flow.proto == "tcp" and flow.timeout_s is not None else None)


@given(any_flow)
def test_a_sighting_is_the_same_by_the_short_way_and_by_the_long(flow: Flow) -> None:
    message = message_of(flow)
    short = sighting(message, 0, len(message), SEEN)
    assert short == entry(flows.payload(flow)).sighting(SEEN)
    expires = None if flow.timeout_s is None else 1000.0 + flow.timeout_s
    tuple_orig = flows.original_tuple(replace(flow, direction="both"))
    started = None if flow.started_ns is None else flow.started_ns / 1e9
    assert short == Sighting(flow.zone, flow.family, tuple_orig, flow.entry_id, expires, started)  # type: ignore[arg-type]


@given(any_flow)
def test_an_entry_cut_anywhere_is_refused_or_lacks_only_its_last_attributes(flow: Flow) -> None:
    payload = flows.payload(flow)
    boundaries, position = [], 4
    while position < len(payload):
        length, kind = struct.unpack_from("=HH", payload, position)
        position += (length + 3) & ~3
        boundaries += [position] if kind == 12 or boundaries else []  # its id is the last that it must have
    for length in set(range(len(payload))) - set(boundaries):
        if length % 4 == 0 or length + 4 - length % 4 not in boundaries:  # else only padding is missing
            with pytest.raises(MalformedMessageError):
                entry(payload[:length])


@given(any_flow)
def test_a_key_is_the_same_by_the_short_way_and_by_the_long(flow: Flow) -> None:
    message = message_of(flow)
    short = key(message, 0, len(message))
    is_usual = flow.zone and flow.direction == "both" and flow.timeout_s is not None and not flow.labels
    assert (short is not None) == bool(is_usual)
    assert short is None or short == entry(flows.payload(flow)).key()


@given(any_flow)
def test_the_traits_are_the_same_by_the_short_way_and_by_the_long(flow: Flow) -> None:
    message = message_of(flow)
    found = entry(flows.payload(flow))
    assert traits(message, 0, len(message)) == (found.protocol, found.tcp_state, found.is_assured)


@given(any_flow, st.integers(20, 400), st.integers(0, 255))
def test_with_a_wrong_byte_the_short_way_says_no_more_than_the_long(flow: Flow, at: int, value: int) -> None:
    message = bytearray(message_of(flow))
    message[20 + (at - 20) % (len(message) - 20)] = value
    try:
        whole = entry(message[16:])
    except MalformedMessageError:
        return
    if not whole.is_zoned_by_reply:
        assert sighting(message, 0, len(message), SEEN).tuple_orig == whole.tuple_orig
    assert traits(message, 0, len(message))[0] == whole.protocol


@each_kernel
def test_usual_entries_of_real_kernels_need_no_whole_decoding(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: list[int] = []
    monkeypatch.setattr("ctctl.wire.conntrack_quick.entry", lambda payload: whole.append(1) or entry(payload))
    usual = 0
    for block in sample.dump:
        position = 0
        while position < len(block):
            length, kind = struct.unpack_from("=IH", block, position)
            if kind == 0x100:
                traits(block, position, position + length)
                sighting(block, position, position + length, SEEN)
                usual += b"\x06\0\x12\0" in block[position : position + length]
            position += length
    assert usual >= 10
    assert len(whole) == 2 * (sum(1 for _ in decoded(sample)) - usual)


@pytest.mark.parametrize("proto", ["tcp", "udp", "sctp", "icmp"])
def test_an_offloaded_entry_has_neither_timeout_nor_state(proto: str) -> None:
    found = entry(flows.payload(replace(Flow(zone=5, proto=proto), direction="both").offloaded()))  # type: ignore[arg-type]
    assert (found.is_offloaded, found.timeout_s, found.tcp_state) == (True, None, None)
    assert found.sighting(SEEN).expires_boot_s is None


def test_hardware_offload_is_offload_too() -> None:
    assert entry(flows.payload(Flow(zone=5, status=0x8000))).is_offloaded
    assert not entry(flows.payload(Flow(zone=5, status=0x3FFF))).is_offloaded


def test_assured_is_one_bit_of_the_status() -> None:
    assert entry(flows.payload(Flow(status=0x4))).is_assured
    assert not entry(flows.payload(Flow(status=0xFFFB))).is_assured


def test_a_key_is_what_the_kernel_sent() -> None:
    flow = Flow(zone=5, entry_id=77)
    assert entry(flows.payload(flow)).key() == EntryKey(5, 2, flows.original_tuple(flow), 77)  # type: ignore[arg-type]


def test_an_entry_of_zone_0_has_no_key() -> None:
    with pytest.raises(InvalidZoneError):
        entry(flows.payload(Flow(zone=0))).key()


IP4 = flows.nest(1, flows.attr(1, b"\x0a\0\0\1"), flows.attr(2, b"\x0a\0\0\2"))
TCP = flows.nest(2, flows.attr(1, b"\6"), flows.attr(2, b"\0\1"), flows.attr(3, b"\0\2"))
GOOD = {
    1: flows.nest(1, IP4, TCP),
    2: flows.nest(2, IP4, TCP),
    12: flows.attr(12, bytes(4)),
}


@pytest.mark.parametrize(
    ("family", "attributes", "message"),
    [
        (2, {12: b""}, "lacks a tuple or its id"),
        (2, {1: b""}, "lacks a tuple or its id"),
        (2, {2: b""}, "lacks a tuple or its id"),
        (7, {}, "address family 7"),
        (10, {}, "without two addresses of family 10"),
        (2, {1: flows.nest(1, TCP)}, "without addresses"),
        (2, {2: flows.nest(2, TCP)}, "without addresses"),
        (2, {1: flows.nest(1, flows.nest(1, flows.attr(1, b"\x0a\0\0\1")), TCP)}, "without two addresses"),
        (2, {1: flows.nest(1, flows.nest(1, flows.attr(1, b"\x0a"), flows.attr(2, bytes(4))), TCP)}, "two addresses"),
        (2, {1: flows.nest(1, IP4)}, "without layer-4 protocol"),
        (2, {1: flows.nest(1, IP4, flows.nest(2, flows.attr(1, b"\0\6")))}, "without layer-4 protocol"),
        (2, {12: flows.attr(12, b"\1")}, "u32 attribute of 1 bytes"),
        (2, {18: flows.attr(18, b"\1")}, "u16 attribute of 1 bytes"),
        (2, {7: flows.attr(7, bytes(8))}, "u32 attribute of 8 bytes"),
        (2, {3: flows.attr(3, bytes(2))}, "u32 attribute of 2 bytes"),
        (2, {20: flows.nest(20, flows.attr(1, bytes(4)))}, "start timestamp of 4 bytes"),
        (2, {4: flows.nest(4, flows.nest(1, flows.attr(1, b"")))}, "TCP state of 0 bytes"),
    ],
)
def test_what_no_kernel_sends_is_refused_by_name(family: int, attributes: dict[int, bytes], message: str) -> None:
    body = struct.pack("!BBH", family, 0, 0) + b"".join({**GOOD, **attributes}.values())
    with pytest.raises(MalformedMessageError, match=message):
        entry(body)


def test_the_least_an_entry_can_be() -> None:
    found = entry(struct.pack("!BBH", 2, 0, 0) + b"".join(GOOD.values()))
    assert (found.zone, found.status, found.timeout_s, found.started_wall_s, found.tcp_state) == (
        0,
        0,
        None,
        None,
        None,
    )


def test_the_detail_names_what_it_can_and_numbers_the_rest() -> None:
    detail = DetailCounter()
    for flow in (
        Flow(tcp_state=0),
        Flow(tcp_state=9),
        Flow(tcp_state=200, status=0),
        Flow(proto="ospf"),
        Flow(proto="udp"),
        Flow(proto="tcp").offloaded(),
    ):
        message = message_of(flow)
        detail.add(message, 0, len(message))
    result = detail.result()
    assert result.by_protocol == {"tcp": 4, "89": 1, "udp": 1}
    assert result.by_tcp_state == {"none": 1, "syn_sent2": 1, "200": 1}
    assert (result.assured, result.unassured) == (5, 1)
