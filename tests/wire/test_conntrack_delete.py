"""No delete can be built that is not limited to one zone other than 0, whatever is asked for."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctctl.errors import InvalidZoneError
from ctctl.model.conntrack import EntryKey
from ctctl.model.ids import FlushableZoneId, ZoneId
from ctctl.wire import conntrack_delete
from ctctl.wire.conntrack_delete import PlainFormEvidence, entry_delete, guarded_zone_flush, plain_zone_flush
from ctctl.wire.netlink import MalformedMessageError
from tests import flows
from tests.flows import Flow
from tests.netlink_recorder import Recorder, UnlimitedDeleteError

EVIDENCE = PlainFormEvidence(kernel_filters_by_zone=True, guarded_form_refused=True)
ZONE = FlushableZoneId(ZoneId(0x0C0D))
KEY = EntryKey(ZONE, 2, flows.original_tuple(Flow(zone=12)), 0xDEADBEEF)
BUILDERS: dict[str, Callable[[Any], bytes]] = {
    "guarded_zone_flush": lambda zone: guarded_zone_flush(1, zone),
    "plain_zone_flush": lambda zone: plain_zone_flush(1, zone, EVIDENCE),
    "entry_delete": lambda zone: entry_delete(1, replace(KEY, zone=zone), wants_ack=True),
}
each_builder = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)


def test_these_are_all_public_functions_of_the_module() -> None:
    public = {
        name
        for name, function in inspect.getmembers(conntrack_delete, inspect.isfunction)
        if function.__module__ == conntrack_delete.__name__ and not name.startswith("_")
    }
    assert public == set(BUILDERS)


@each_builder
@pytest.mark.parametrize("zone", [0, -1, 65536, 2**32 + 5, True, False, None, "5", 5.0, b"\0\5", [5]])
def test_what_is_no_zone_to_delete_from_is_refused(build: Callable[[Any], bytes], zone: object) -> None:
    with pytest.raises(InvalidZoneError):
        build(zone)


@each_builder
@given(zone=st.integers(1, 65535))
def test_the_zone_stands_in_the_message_as_the_kernel_reads_it(build: Callable[[Any], bytes], zone: int) -> None:
    assert struct.pack("=HH", 6, 18) + struct.pack("!H", zone) + b"\0\0" in build(zone)


@each_builder
@given(
    zone=st.one_of(st.integers(), st.none(), st.booleans(), st.text(), st.floats(), st.binary()),
)
def test_whatever_is_given_for_a_zone_the_result_is_limited_or_there_is_none(
    build: Callable[[Any], bytes], zone: object
) -> None:
    try:
        message = build(zone)
    except InvalidZoneError:
        return
    watcher = Recorder()
    try:
        watcher.watch(message)
    except UnlimitedDeleteError:
        # Alone, the plain form is what the recorder refuses: it may only follow a guarded one.
        watcher = Recorder()
        watcher.watch(guarded_zone_flush(1, zone) + message)  # type: ignore[arg-type]


def test_no_more_deletes_leave_at_once_than_a_default_receive_buffer_bears_answers() -> None:
    assert conntrack_delete.MAX_DELETES_PER_SEND == 128


def test_a_guarded_flush_is_exactly_this() -> None:
    body = bytes(4) + b"\x06\0\x12\0\x0c\x0d\0\0" + b"\x04\0\x19\x80"
    assert guarded_zone_flush(7, ZONE) == struct.pack("=IHHII", 16 + len(body), 0x102, 0x5, 7, 0) + body


def test_a_plain_flush_is_exactly_this() -> None:
    body = bytes(4) + b"\x06\0\x12\0\x0c\x0d\0\0"
    assert plain_zone_flush(7, ZONE, EVIDENCE) == struct.pack("=IHHII", 16 + len(body), 0x102, 0x5, 7, 0) + body


@pytest.mark.parametrize(
    "evidence",
    [
        PlainFormEvidence(kernel_filters_by_zone=False, guarded_form_refused=True),
        PlainFormEvidence(kernel_filters_by_zone=True, guarded_form_refused=False),
        PlainFormEvidence(kernel_filters_by_zone=False, guarded_form_refused=False),
        PlainFormEvidence(kernel_filters_by_zone=1, guarded_form_refused=True),  # type: ignore[arg-type]
        PlainFormEvidence(kernel_filters_by_zone=True, guarded_form_refused="yes"),  # type: ignore[arg-type]
    ],
)
def test_a_plain_flush_needs_both_pieces_of_evidence(evidence: PlainFormEvidence) -> None:
    with pytest.raises(ValueError, match="zone 3085 without CTA_FILTER"):
        plain_zone_flush(1, ZONE, evidence)


@pytest.mark.parametrize(("wants_ack", "flags"), [(True, 0x5), (False, 0x1)])
def test_an_entry_delete_names_family_zone_tuple_and_id(wants_ack: bool, flags: int) -> None:
    body = (
        b"\x02\0\0\0"
        b"\x06\0\x12\0\x0c\x0d\0\0"
        + flows.nest(1, flows.original_tuple(Flow(zone=12)))
        + flows.attr(12, b"\xde\xad\xbe\xef")
    )
    expected = struct.pack("=IHHII", 16 + len(body), 0x102, flags, 9, 0) + body
    assert entry_delete(9, KEY, wants_ack=wants_ack) == expected


@pytest.mark.parametrize("family", [0, 1, 7, 3, 11, None, "2"])
def test_an_entry_of_no_address_family_is_refused(family: object) -> None:
    with pytest.raises(ValueError, match="neither IPv4 nor IPv6"):
        entry_delete(1, replace(KEY, family=family), wants_ack=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("entry_id", [-1, 2**32, None, True, 1.0])
def test_an_id_that_is_no_u32_is_refused(entry_id: object) -> None:
    with pytest.raises(ValueError, match="is no u32"):
        entry_delete(1, replace(KEY, entry_id=entry_id), wants_ack=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("entry_id", [0, 2**32 - 1])
def test_any_u32_is_an_id(entry_id: int) -> None:
    assert struct.pack("!I", entry_id) in entry_delete(1, replace(KEY, entry_id=entry_id), wants_ack=True)


@pytest.mark.parametrize(
    "tuple_orig",
    [
        b"",
        flows.nest(1),  # addresses only
        flows.nest(2),  # protocol only
        flows.nest(2) + flows.nest(1),  # not as the kernel writes it
        flows.nest(1) + flows.nest(2) + flows.attr(18, b"\0\0"),
        flows.original_tuple(Flow(zone=12, direction="original")),  # a zone of its own, which the kernel refuses here
    ],
)
def test_without_a_tuple_that_finds_one_entry_a_delete_is_refused(tuple_orig: bytes) -> None:
    with pytest.raises(ValueError, match="tuple of an entry in zone 3085"):
        entry_delete(1, replace(KEY, tuple_orig=tuple_orig), wants_ack=True)


@given(cut=st.integers(1, 47))
def test_a_tuple_cut_short_is_refused(cut: int) -> None:
    with pytest.raises((ValueError, MalformedMessageError)):
        entry_delete(1, replace(KEY, tuple_orig=KEY.tuple_orig[:-cut]), wants_ack=True)
