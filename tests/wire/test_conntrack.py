"""Requests that only read, byte for byte, and what real kernels answered."""

from __future__ import annotations

import struct

import pytest

from ctctl.model.conntrack import EntryKey
from ctctl.wire import conntrack, netlink
from ctctl.wire.netlink import MalformedMessageError, Message
from tests import flows
from tests.flows import Flow
from tests.wire.kernel_samples import Sample, each_kernel


def request(kind: int, flags: int, body: bytes) -> bytes:
    return flows.message(kind, flags, 7, 0, body)


def test_requests_are_exactly_these() -> None:
    mask = flows.attr(26, b"\0\0\0\4")
    assert conntrack.dump_request(7) == request(0x101, 0x301, bytes(4))
    assert conntrack.stats_request(7) == request(0x105, 0x5, bytes(4))
    assert conntrack.cpu_stats_request(7) == request(0x104, 0x301, bytes(4))
    assert conntrack.filter_probe_request(7, with_zone=True) == request(
        0x101, 0x301, bytes(4) + flows.attr(18, b"\xff\xff") + mask
    )
    assert conntrack.filter_probe_request(7, with_zone=False) == request(0x101, 0x301, bytes(4) + mask)


def test_a_look_up_names_family_tuple_and_zone() -> None:
    tuple_orig = flows.original_tuple(Flow())
    key = EntryKey(0x0102, 2, tuple_orig, 5)  # type: ignore[arg-type]
    body = b"\x02\0\0\0" + flows.nest(1, tuple_orig) + flows.attr(18, b"\1\2")
    assert conntrack.lookup_request(7, key) == request(0x101, 0x5, body)


def test_the_messages_of_ctnetlink_have_the_kernels_numbers() -> None:
    assert (conntrack.CT_NEW, conntrack.CT_GET, conntrack.CT_DELETE) == (0x100, 0x101, 0x102)
    assert (conntrack.CT_GET_STATS_CPU, conntrack.CT_GET_STATS) == (0x104, 0x105)


@each_kernel
def test_statistics_of_real_kernels_are_read(sample: Sample) -> None:
    reply, acknowledgement = netlink.messages(b"".join(sample.answers["stats"]))
    stats = conntrack.table_stats(reply)
    assert stats.entries == 19
    assert stats.limit is not None
    assert stats.limit >= 65536
    assert acknowledgement.type == netlink.NLMSG_ERROR
    assert netlink.error_number(acknowledgement.payload) == 0


@each_kernel
def test_per_cpu_statistics_of_real_kernels_are_read(sample: Sample) -> None:
    *replies, end = netlink.messages(b"".join(sample.answers["cpu_stats"]))
    by_cpu = dict(conntrack.cpu_stats(reply) for reply in replies)
    assert set(by_cpu) == {0, 1}
    for counters in by_cpu.values():
        assert list(counters) == list(conntrack.CPU_COUNTERS.values())
    assert sum(counters["insert"] for counters in by_cpu.values()) >= 19
    assert end.type == netlink.NLMSG_DONE


@each_kernel
def test_a_kernel_that_filters_by_zone_refuses_the_probe_and_one_that_does_not_begins_a_dump(sample: Sample) -> None:
    first = next(netlink.messages(sample.answers["probe"][0]))
    if sample.release.startswith("6.1."):
        assert first.type == conntrack.CT_NEW
    else:
        assert (first.type, netlink.error_number(first.payload)) == (netlink.NLMSG_ERROR, 22)


@each_kernel
def test_an_absent_entry_is_answered_with_enoent(sample: Sample) -> None:
    (reply,) = netlink.messages(b"".join(sample.answers["lookup_absent"]))
    assert netlink.error_number(reply.payload) == 2


@pytest.mark.parametrize(
    "reply",
    [
        Message(0x104, 0, 7, 1, bytes(4) + flows.attr(1, bytes(4))),
        Message(0x105, 0, 7, 1, bytes(3)),
        Message(0x105, 0, 7, 1, bytes(4)),
        Message(0x105, 0, 7, 1, bytes(4) + flows.attr(1, bytes(2))),
        Message(0x105, 0, 7, 1, bytes(4) + flows.attr(1, bytes(4)) + flows.attr(2, b"")),
    ],
)
def test_what_is_no_answer_about_the_table_is_refused(reply: Message) -> None:
    with pytest.raises(MalformedMessageError):
        conntrack.table_stats(reply)


@pytest.mark.parametrize(
    "reply",
    [
        Message(0x105, 0, 7, 1, bytes(4)),
        Message(0x104, 0, 7, 1, bytes(2)),
        Message(0x104, 0, 7, 1, bytes(4) + flows.attr(2, bytes(8))),
    ],
)
def test_what_is_no_answer_about_a_cpu_is_refused(reply: Message) -> None:
    with pytest.raises(MalformedMessageError):
        conntrack.cpu_stats(reply)


def test_a_kernel_without_a_limit_has_none() -> None:
    stats = conntrack.table_stats(Message(0x105, 0, 7, 1, bytes(4) + flows.attr(1, flows.u32(5))))
    assert (stats.entries, stats.limit, stats.buckets) == (5, None, None)


def test_counters_are_told_by_cpu_and_unknown_ones_are_left_out() -> None:
    body = struct.pack("!BBH", 0, 0, 300) + flows.attr(10, flows.u32(2**32 - 1)) + flows.attr(3, flows.u32(9))
    assert conntrack.cpu_stats(Message(0x104, 2, 7, 1, body)) == (300, {"drop": 2**32 - 1})
