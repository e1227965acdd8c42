"""Framing: what is written can be read back, and nothing that is cut short or made up is."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctctl.wire import netlink
from ctctl.wire.netlink import Attribute, MalformedMessageError, Message

types = st.integers(0, netlink.NLA_TYPE_MASK)
values = st.binary(max_size=40)
attribute_lists = st.lists(st.tuples(types, values), max_size=6)
u32s = st.integers(0, 0xFFFFFFFF)
message_lists = st.lists(
    st.builds(Message, type=st.integers(0, 0xFFFF), flags=st.integers(0, 0xFFFF), seq=u32s, portid=st.just(0),
              payload=st.binary(max_size=40)),
    min_size=1, max_size=4,
)  # fmt: skip


def packed(messages: list[Message]) -> bytes:
    """As they would stand in one block: each padded, the last not."""
    parts = [netlink.message(m.type, m.flags, m.seq, m.payload) for m in messages]
    return b"".join(part + bytes(-len(part) % 4) for part in parts[:-1]) + parts[-1]


@given(message_lists)
def test_messages_come_back_as_they_were_written(messages: list[Message]) -> None:
    assert list(netlink.messages(packed(messages))) == messages


@given(message_lists, st.data())
def test_a_block_cut_inside_a_message_is_refused(messages: list[Message], data: st.DataObject) -> None:
    block = packed(messages)
    last = len(messages[-1].payload) + netlink.HEADER.size
    cut = data.draw(st.integers(1, last - 1))
    with pytest.raises(MalformedMessageError):
        list(netlink.messages(block[:-cut]))


@given(attribute_lists)
def test_attributes_come_back_as_they_were_written(attributes: list[tuple[int, bytes]]) -> None:
    block = b"".join(netlink.attribute(kind, value) for kind, value in attributes)
    assert list(netlink.attributes(block)) == [Attribute(kind, value) for kind, value in attributes]
    assert netlink.by_type(block) == dict(attributes)


@given(attribute_lists.filter(bool), st.data())
def test_attributes_cut_short_are_refused(attributes: list[tuple[int, bytes]], data: st.DataObject) -> None:
    block = b"".join(netlink.attribute(kind, value) for kind, value in attributes)
    padding = -len(attributes[-1][1]) % 4
    cut = data.draw(st.integers(padding + 1, padding + len(attributes[-1][1]) + 3))
    with pytest.raises(MalformedMessageError):
        list(netlink.attributes(block[:-cut]))


@given(st.binary(max_size=200))
def test_garbage_is_read_whole_or_refused_as_malformed(garbage: bytes) -> None:
    try:
        messages = list(netlink.messages(garbage))
    except MalformedMessageError:
        messages = []
    assert sum(netlink.HEADER.size + len(message.payload) for message in messages) <= len(garbage)
    try:
        attributes = list(netlink.attributes(garbage))
    except MalformedMessageError:
        attributes = []
    assert sum(netlink.ATTRIBUTE.size + len(attribute.value) for attribute in attributes) <= len(garbage)


@pytest.mark.parametrize("length", [0, 1, 15])
def test_a_message_shorter_than_its_own_header_is_refused(length: int) -> None:
    with pytest.raises(MalformedMessageError, match=f"claims {length} bytes"):
        list(netlink.messages(struct.pack("=IHHII", length, 3, 0, 0, 0)))


@pytest.mark.parametrize("length", [0, 3, 5])
def test_an_attribute_that_contradicts_its_length_is_refused(length: int) -> None:
    with pytest.raises(MalformedMessageError, match=f"attribute 9 claims {length} bytes where 4 are left"):
        list(netlink.attributes(struct.pack("=HH", length, 9)))


def test_the_smallest_message_and_attribute_are_whole() -> None:
    assert list(netlink.messages(netlink.message(3, 2, 1, b""))) == [Message(3, 2, 1, 0, b"")]
    assert list(netlink.attributes(netlink.nested(25))) == [Attribute(25, b"")]


def test_flag_bits_do_not_change_an_attributes_type() -> None:
    block = struct.pack("=HH", 4, 0x8000 | 0x4000 | 7)
    assert netlink.by_type(block) == {7: b""}


def test_of_equal_attributes_the_last_wins_as_in_the_kernel() -> None:
    assert netlink.by_type(netlink.attribute(1, b"a") + netlink.attribute(1, b"b")) == {1: b"b"}


def test_headers_are_in_host_order_and_flags_say_request() -> None:
    assert netlink.message(0x101, 0x301, 7, b"abcd") == struct.pack("=IHHII", 20, 0x101, 0x301, 7, 0) + b"abcd"
    assert (
        netlink.nested(2, netlink.attribute(1, b"x"))
        == struct.pack("=HH", 12, 0x8002) + struct.pack("=HH", 5, 1) + b"x\0\0\0"
    )


def test_a_value_too_long_for_its_length_field_is_refused() -> None:
    longest = bytes(0xFFFF - 4)
    assert len(netlink.attribute(1, longest)) == 0x10000
    with pytest.raises(ValueError, match="does not fit"):
        netlink.attribute(1, longest + b"\0")


@pytest.mark.parametrize(("length", "aligned"), [(0, 0), (1, 4), (3, 4), (4, 4), (5, 8)])
def test_lengths_are_rounded_up_to_four(length: int, aligned: int) -> None:
    assert netlink.align(length) == aligned


@given(st.integers(0, 4095))
def test_an_error_number_is_positive_for_an_error_and_0_for_an_acknowledgement(number: int) -> None:
    assert netlink.error_number(struct.pack("=i", -number) + b"rest") == number


@pytest.mark.parametrize("payload", [b"", b"\0\0\0", struct.pack("=i", 1), struct.pack("=i", 2**31 - 1)])
def test_a_status_that_no_kernel_sends_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        netlink.error_number(payload)
