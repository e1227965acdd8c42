"""Promises of the JSON-RPC stream: whole, byte by byte, with trailing data, truncated, garbage."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctctl.errors import ProtocolError
from ctctl.wire.jsonrpc import JsonStream, JsonValue, Message, Reply, Request, encode_reply, encode_request

# As ovsdb-server 3.1 and ovs-vswitchd 3.1 sent them.
GET_SCHEMA_ERROR = b'{"error":{"details":"get_schema request specifies unknown database x","error":"unknown database",\
"syntax":"[\\"x\\"]"},"id":1,"result":null}'
ECHO = b'{"id":"echo","method":"echo","params":[]}'
VERSION = b'{"error":null,"id":0,"result":"ovs-vswitchd (Open vSwitch) 3.1.0\\n"}'
TRICKY = b'{"id":7,"error":null,"result":{"a{b":"}\\"{\\\\","c":[{},{"d":"\\\\\\""}],"\\u007d":"\xc3\xa9"}}'

SAMPLES: list[tuple[bytes, Message]] = [
    (ECHO, Request(method="echo", params=[], request_id="echo")),
    (VERSION, Reply(request_id=0, result="ovs-vswitchd (Open vSwitch) 3.1.0\n", error=None)),
    (TRICKY, Reply(request_id=7, result={"a{b": '}"{\\', "c": [{}, {"d": '\\"'}], "}": "é"}, error=None)),
    (
        b'{"id":null,"method":"update3","params":[null]}',
        Request(method="update3", params=[None], request_id=None),
    ),
]


@pytest.mark.parametrize(("data", "message"), SAMPLES)
def test_a_message_arrives_whole(data: bytes, message: Message) -> None:
    assert JsonStream().feed(data) == [message]


@pytest.mark.parametrize(("data", "message"), SAMPLES)
def test_a_message_arrives_byte_by_byte_and_not_before_its_last(data: bytes, message: Message) -> None:
    stream = JsonStream()
    for i in range(len(data) - 1):
        assert stream.feed(data[i : i + 1]) == []
        assert not stream.is_between_messages
    assert stream.feed(data[-1:]) == [message]
    assert stream.is_between_messages


@given(cuts=st.lists(st.integers(0, 400)))
def test_cutting_the_stream_anywhere_changes_nothing(cuts: list[int]) -> None:
    data = b" \n".join(sample for sample, _ in SAMPLES) + b"".join(sample for sample, _ in SAMPLES) + b"\n"
    stream, received, start = JsonStream(), list[Message](), 0
    for cut in [*sorted(cuts), len(data)]:
        received += stream.feed(data[start:cut])
        start = max(start, min(cut, len(data)))
    assert received == [message for _, message in SAMPLES] * 2


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(value=json_values, request_id=st.integers(), cut=st.integers(0, 200), is_ascii=st.booleans())
def test_every_json_value_survives_the_wire(value: JsonValue, request_id: int, cut: int, is_ascii: bool) -> None:
    reply = {"id": request_id, "result": value, "error": None}
    try:
        data = json.dumps(reply, ensure_ascii=is_ascii).encode()
    except UnicodeEncodeError:
        return  # lone surrogates have no UTF-8 form
    stream = JsonStream()
    assert stream.feed(data[:cut]) + stream.feed(data[cut:]) == [Reply(request_id, value, None)]


def test_a_request_decodes_to_itself() -> None:
    data = encode_request("transact", ["Open_vSwitch", {"op": "select", "é": "\n"}], 3)
    expected = Request("transact", ["Open_vSwitch", {"op": "select", "é": "\n"}], 3)
    assert JsonStream().feed(data) == [expected]


def test_an_echo_is_answered_with_its_own_parameters() -> None:
    assert JsonStream().feed(encode_reply(["x"], "echo")) == [Reply("echo", ["x"], None)]


def test_an_error_reply_keeps_the_servers_words() -> None:
    (reply,) = JsonStream().feed(GET_SCHEMA_ERROR)
    assert isinstance(reply, Reply)
    assert isinstance(reply.error, dict)
    assert reply.error["error"] == "unknown database"


def test_a_message_followed_by_half_of_the_next_is_delivered_at_once() -> None:
    stream = JsonStream()
    assert stream.feed(ECHO + VERSION[:10]) == [SAMPLES[0][1]]
    assert not stream.is_between_messages
    assert stream.feed(VERSION[10:]) == [SAMPLES[1][1]]


@pytest.mark.parametrize(
    "garbage",
    [
        b"x",
        b"[]",
        b'"text"',
        b"}",
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\x16\x03\x01\x02\x00",
        b"{]}",
        b"{,}",
        b"{}",
        b'{"method":"m"}',
        b'{"method":"m","params":{}}',
        b'{"id":1,"result":NaN}',
        b'{"id":1,"result":"\xff"}',
        b'{"id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"id":1,"result":' + b"9" * 10_000 + b"}",
        b'{"id":1,"result":"a\nb"}',
    ],
)
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(ProtocolError):
        JsonStream().feed(garbage)


def test_garbage_after_a_message_is_refused() -> None:
    with pytest.raises(ProtocolError):
        JsonStream().feed(ECHO + b"x")


def test_an_endless_message_is_refused_at_the_limit() -> None:
    stream = JsonStream(max_message_bytes=1000)
    assert stream.feed(b'{"id":1,"result":"' + b"a" * 900) == []
    with pytest.raises(ProtocolError, match="larger than 1000 bytes"):
        stream.feed(b"a" * 100)


def test_many_messages_larger_in_sum_than_the_limit_are_accepted() -> None:
    assert len(JsonStream(max_message_bytes=100).feed(ECHO * 50)) == 50


@pytest.mark.parametrize(
    "filling",
    [
        b'["set",[' + b",".join(b'["k%d","%d"]' % (i, i) for i in range(40_000)) + b"]]",
        b'"' + b"line\\n" * 200_000 + b'"',
        b"[" + b",".join(b'{"a":{}}' for _ in range(20_000)) + b"]",
    ],
)
def test_time_grows_linearly_with_the_message(filling: bytes) -> None:
    def seconds(data: bytes, piece: int) -> float:
        stream, started = JsonStream(), time.process_time()
        for i in range(0, len(data), piece):
            stream.feed(data[i : i + piece])
        assert stream.is_between_messages
        return time.process_time() - started

    data = b'{"id":1,"error":null,"result":' + filling + b"}"
    # A scanner that starts anew with each piece would be hundreds of times slower in small pieces than in one.
    assert seconds(data, 1024) < 20 * seconds(data, len(data)) + 0.05
