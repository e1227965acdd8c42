"""Promises of the control socket's language: what can be asked, and what the answers mean."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctctl.errors import ProtocolError
from ctctl.wire.jsonrpc import JsonStream, Reply, Request
from ctctl.wire.unixctl import (
    CommandFailedError,
    CommandRefusedError,
    encode_command,
    parse_counter,
    parse_ct_zone_list,
    parse_version,
    reply_text,
)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("version", []),
        ("coverage/read-counter", ["long_poll_interval"]),
        ("ct-zone-list", []),
        ("dpctl/ct-get-nconns", ["netdev@ovs-netdev"]),
        ("dpctl/ct-get-limits", ["zone=5,6"]),
        ("dpctl/ct-get-limits", ["netdev@ovs-netdev", "zone=5"]),
        ("dpctl/flush-conntrack", ["zone=65535"]),
        ("dpctl/flush-conntrack", ["netdev@ovs-netdev", "zone=1"]),
    ],
)
def test_an_allowed_command_is_encoded_as_the_daemons_expect_it(method: str, params: list[str]) -> None:
    assert JsonStream().feed(encode_command(method, params, 7)) == [Request(method, [*params], 7)]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("dpctl/dump-conntrack", []),
        ("dpctl/ct-stats-show", []),
        ("dpctl/ct-bkts", []),
        ("exit", []),
        ("debug/pause", []),
        ("vlog/set", ["ANY:file:off"]),
        ("", []),
        ("version", ["x"]),
        ("coverage/read-counter", []),
        ("coverage/read-counter", ["a", "b"]),
        ("dpctl/ct-get-limits", []),
        ("dpctl/ct-get-limits", ["netdev@ovs-netdev"]),
        ("dpctl/flush-conntrack", []),
        ("dpctl/flush-conntrack", ["netdev@ovs-netdev"]),
        ("dpctl/flush-conntrack", ["system@ovs-system", "zone=5"]),
        ("dpctl/flush-conntrack", ["zone=0"]),
        ("dpctl/flush-conntrack", ["zone=00"]),
        ("dpctl/flush-conntrack", ["zone=65536"]),
        ("dpctl/flush-conntrack", ["zone="]),
        ("dpctl/flush-conntrack", ["zone=5\n"]),
        ("dpctl/flush-conntrack", ["zone=٥"]),
        ("dpctl/flush-conntrack", ["zone=5", "zone=6"]),
        ("dpctl/flush-conntrack", ["netdev@x", "zone=5", ""]),
    ],
)
def test_no_other_command_can_be_encoded(method: str, params: list[str]) -> None:
    with pytest.raises(CommandRefusedError):
        encode_command(method, params, 1)


@given(st.lists(st.one_of(st.text(max_size=12), st.from_regex(r"(zone=)?[0-9]{0,6}", fullmatch=True)), max_size=3))
def test_a_flush_command_always_names_one_zone_other_than_zero(params: list[str]) -> None:
    try:
        data = encode_command("dpctl/flush-conntrack", params, 1)
    except CommandRefusedError:
        return
    [request] = JsonStream().feed(data)
    assert isinstance(request, Request)
    named = [p for p in request.params if isinstance(p, str) and p.startswith("zone=")]
    assert len(named) == 1
    assert 1 <= int(named[0].removeprefix("zone=")) <= 65535


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("ovs-vswitchd (Open vSwitch) 3.1.0\n", "3.1.0"),
        ("ovs-vswitchd (Open vSwitch) 4.0.90\nDPDK 24.11.1\n", "4.0.90"),
        ("ovs-vswitchd (Open vSwitch) 3.5.0-1~deb13\n", "3.5.0-1~deb13"),
        ("ovn-controller 23.03.1\nOpen vSwitch Library 3.1.0\nOpenFlow versions 0x6:0x6\n", "23.03.1"),
        ("ovn-controller 26.03.0\n", "26.03.0"),
        ("", None),
        ("\n", None),
        ('"version" is not a valid command', None),
    ],
)
def test_the_version_is_the_daemons_own_not_that_of_its_library(text: str, version: str | None) -> None:
    assert parse_version(text) == version


def test_the_zone_list_keeps_names_with_spaces_and_the_hosts_zone() -> None:
    text = "lr1_dnat 3\nport with spaces 12\n 7 8\np 0\n"
    assert parse_ct_zone_list(text) == {"lr1_dnat": 3, "port with spaces": 12, " 7": 8, "p": 0}


def test_an_empty_zone_list_is_no_zones() -> None:
    assert parse_ct_zone_list("") == {}


@pytest.mark.parametrize(
    "line", ["lr1_dnat", "lr1_dnat ", "lr1_dnat x", " 5", "p -1", "p 65536", "p 1.5", "p ٥", "p +5"]
)
def test_a_zone_list_line_without_owner_and_number_is_refused(line: str) -> None:
    with pytest.raises(ProtocolError):
        parse_ct_zone_list(f"lr0_dnat 1\n{line}\n")


@given(
    st.dictionaries(
        st.text(st.characters(blacklist_characters="\n", codec="utf-8"), min_size=1, max_size=20),
        st.integers(0, 65535),
        max_size=8,
    )
)
def test_any_zone_list_ovn_can_print_is_read_back(zones: dict[str, int]) -> None:
    text = "".join(f"{owner} {zone}\n" for owner, zone in zones.items())
    assert parse_ct_zone_list(text) == zones


@given(st.text())
def test_garbage_is_read_or_refused_never_anything_else(text: str) -> None:
    for parse in (parse_ct_zone_list, parse_counter, parse_version):
        with contextlib.suppress(ProtocolError):
            parse(text)


def test_a_counter_is_a_number_and_nothing_else() -> None:
    assert parse_counter("42\n") == 42
    for text in ("", "\n", "-1\n", "4 2", "No such counter\n"):
        with pytest.raises(ProtocolError):
            parse_counter(text)


def test_a_reply_is_its_text_and_an_error_is_raised_with_the_daemons_words() -> None:
    assert reply_text(Reply(1, "17\n", None)) == "17\n"
    with pytest.raises(CommandFailedError, match="No such counter") as caught:
        reply_text(Reply(1, None, "No such counter\n"))
    assert caught.value.answer == "No such counter"


@pytest.mark.parametrize("reply", [Reply(1, None, None), Reply(1, 5, None), Reply(1, None, {"a": 1})])
def test_a_reply_that_is_no_text_is_refused(reply: Reply) -> None:
    with pytest.raises(ProtocolError):
        reply_text(reply)
