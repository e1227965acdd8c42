"""Runs are recognised: slowness would not be noticed elsewhere, since whatever is no run is counted another way."""

from __future__ import annotations

import struct

import pytest

from ctctl.wire import conntrack_runs
from ctctl.wire.conntrack_runs import MAX_LENGTHS, RunReader
from tests import flows
from tests.flows import Flow

SEQ, PORTID = 3, 4711
V6 = {"src": "fd00::1", "dst": "fd00::2"}
USUAL = {
    "tcp": Flow(zone=0x0102),
    "udp": Flow(zone=0x0102, proto="udp"),
    "sctp": Flow(zone=0x0102, proto="sctp"),
    "icmp": Flow(zone=0x0102, proto="icmp"),
    "tcp over ipv6": Flow(zone=0x0102, **V6),  # type: ignore[arg-type]
    "ospf": Flow(zone=0x0102, proto="ospf", started_ns=1),
    "ospf over ipv6": Flow(zone=0x0102, proto="ospf", **V6),  # type: ignore[arg-type]
    "icmp over ipv6": Flow(zone=0x0102, proto="icmpv6", **V6),  # type: ignore[arg-type]
    "labels": Flow(zone=0x0102, labels=bytes(16)),
    "offloaded": Flow(zone=0x0102, labels=bytes(16)).offloaded(),
    "host tcp": Flow(zone=0),
    "host udp": Flow(zone=0, proto="udp"),
    "host tcp over ipv6": Flow(zone=0, **V6),  # type: ignore[arg-type]
    "host ospf": Flow(zone=0, proto="ospf", started_ns=1),
}
UNUSUAL = {
    "host icmp": Flow(zone=0, proto="icmp"),
    "host icmp over ipv6": Flow(zone=0, proto="icmpv6", **V6),  # type: ignore[arg-type]
    "one direction": Flow(zone=5, direction="original"),
    "other direction": Flow(zone=5, direction="reply"),
    "host with a status of more than 16 bits": Flow(zone=0, status=0x10000),
}


def block_of(*entries: Flow) -> bytes:
    return b"".join(flows.dumped(flow, SEQ, PORTID) for flow in entries)


def reader(*met: Flow) -> RunReader:
    made = RunReader(struct.pack("=HHII", 0x100, 2, SEQ, PORTID))
    for flow in met:
        made.learn(len(flows.dumped(flow, SEQ, PORTID)))
    return made


@pytest.mark.parametrize("kind", USUAL)
def test_a_block_of_a_usual_kind_met_before_is_a_run(kind: str) -> None:
    flow = USUAL[kind]
    block = block_of(flow, flow, flow)
    assert reader(flow).zones(block, len(block)) == [flow.zone.to_bytes(2, "big")] * 3


def test_kinds_mix_in_a_run() -> None:
    mixed = [*USUAL.values(), *reversed(USUAL.values())]
    block = block_of(*mixed)
    assert reader(*mixed).zones(block, len(block)) == [flow.zone.to_bytes(2, "big") for flow in mixed]


@pytest.mark.parametrize("kind", UNUSUAL)
def test_an_unusual_entry_makes_a_block_no_run(kind: str) -> None:
    met = [UNUSUAL[kind], USUAL["tcp"], USUAL["udp"]]
    for block in (block_of(UNUSUAL[kind]), block_of(*met), block_of(*reversed(met))):
        assert reader(*met).zones(block, len(block)) is None


def test_a_length_that_was_not_met_makes_a_block_no_run() -> None:
    block = block_of(USUAL["tcp"], USUAL["udp"])
    assert reader().zones(block, len(block)) is None
    assert reader(USUAL["tcp"]).zones(block, len(block)) is None
    both = reader(USUAL["tcp"])
    both.zones(block, len(block))
    both.learn(len(flows.dumped(USUAL["udp"], SEQ, PORTID)))
    assert both.zones(block, len(block)) == [b"\1\2"] * 2


def test_only_what_was_received_is_looked_at() -> None:
    block = block_of(USUAL["tcp"], USUAL["tcp"])
    once = len(block) // 2
    assert reader(USUAL["tcp"]).zones(block, once) == [b"\1\2"]
    assert reader(USUAL["tcp"]).zones(block, once - 4) is None
    assert reader(USUAL["tcp"]).zones(block, once + 4) is None
    assert reader(USUAL["tcp"]).zones(b"", 0) is None


@pytest.mark.parametrize(("seq", "portid"), [(SEQ + 1, PORTID), (SEQ, PORTID + 1)])
def test_another_dumps_entries_are_no_run(seq: int, portid: int) -> None:
    block = block_of(USUAL["tcp"]) + flows.dumped(USUAL["tcp"], seq, portid)
    assert reader(USUAL["tcp"]).zones(block, len(block)) is None


@pytest.mark.parametrize("at", [0, 4, 6, 20, 22, 72, 74, 124, 126])
def test_each_header_on_the_way_to_the_zone_is_checked(at: int) -> None:
    block = bytearray(block_of(USUAL["tcp"], USUAL["tcp"]))
    block[at] ^= 0x40
    assert reader(USUAL["tcp"]).zones(block, len(block)) is None


def test_a_pattern_is_made_again_only_for_a_length_that_is_new() -> None:
    met = reader(USUAL["tcp"])
    block = block_of(USUAL["tcp"])
    met.zones(block, len(block))
    before = met._pattern
    met.learn(len(block))
    met.zones(block, len(block))
    assert met._pattern is before


def test_lengths_are_bounded_in_number() -> None:
    assert MAX_LENGTHS == 48
    met = reader()
    for length in range(100, 100 + 4 * (MAX_LENGTHS + 9), 4):
        met.learn(length)
    assert len(met._lengths) == MAX_LENGTHS


@pytest.mark.parametrize(("size", "kind"), [(84, "icmp over ipv6"), (76, "tcp over ipv6"), (52, "tcp"), (36, "ospf")])
def test_an_entry_must_hold_its_zone_whole(size: int, kind: str) -> None:
    whole = flows.dumped(USUAL[kind], SEQ, PORTID)
    for length in range(24, len(whole), 4):
        cut = bytearray(whole[:length])
        struct.pack_into("=I", cut, 0, length)
        met = reader()
        met.learn(length)
        block = bytes(cut) + whole[length:]  # what follows would complete it, were it part of it
        found = met.zones(block, length)
        assert (found is not None) == (length >= 20 + 2 * size + 8)


def test_the_sizes_of_tuples_are_the_kernels() -> None:
    sizes = {
        "IPV4_PORTS": USUAL["tcp"],
        "IPV6_PORTS": USUAL["tcp over ipv6"],
        "NUMBER_ONLY": USUAL["ospf"],
        "IPV4_ICMP": USUAL["icmp"],
        "IPV6_ICMP": USUAL["icmp over ipv6"],
    }
    for name, flow in sizes.items():
        assert getattr(conntrack_runs, name) == len(flows.nest(1, flows.original_tuple(flow)))
