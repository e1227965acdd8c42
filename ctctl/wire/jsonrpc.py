"""JSON-RPC 1.0 as ovsdb-server and the unixctl sockets of the daemons speak it: bytes ⇄ messages.

A stream is a sequence of JSON objects with nothing, or white space, between them (RFC 7047 section 4), so the end of
a message has to be found by its braces. This module does that incrementally and in linear time, whatever the size of
the pieces. It opens no socket and answers nothing: a peer's "echo" is the client's to answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias, cast

from ctctl.errors import ProtocolError

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
"""Whatever JSON can say, as the standard library gives it."""

DEFAULT_MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""Far above the largest honest message: a bridge with all 65,535 zones assigned is about 5 MB."""


@dataclass(frozen=True, slots=True)
class Request:
    """The peer asks for something; `request_id` None means that it expects no answer (a notification)."""

    method: str
    params: list[JsonValue]
    request_id: JsonValue


@dataclass(frozen=True, slots=True)
class Reply:
    """The peer's answer to the request with the same id. Exactly one of `result` and `error` is meant, by `error`."""

    request_id: JsonValue
    result: JsonValue
    error: JsonValue


Message = Request | Reply


def encode_request(method: str, params: Sequence[JsonValue], request_id: int | None) -> bytes:
    """One request, ready to send; with `request_id` None a notification, which is never answered."""
    return _encode({"method": method, "params": list(params), "id": request_id})


def encode_reply(result: JsonValue, request_id: JsonValue) -> bytes:
    """The successful answer to a peer's request, such as "echo" (whose result is its own params)."""
    return _encode({"result": result, "error": None, "id": request_id})


def _encode(message: dict[str, JsonValue]) -> bytes:
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()


# Text up to the next brace or unfinished string. Repetition is bounded: the regex engine keeps a frame per turn.
_UP_TO_BRACE: Final = re.compile(rb'[^{}"]*(?:"[^"\\]*(?:\\.[^"\\]*){0,16}"[^{}"]*){0,64}', re.DOTALL)
_WITHIN_STRING: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*){0,64}', re.DOTALL)
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_OPEN, _CLOSE, _QUOTE = b'{}"'


class JsonStream:
    """The receiving half of one connection.

    A stream that raised is at an unknown place in the peer's bytes and must not be fed again; use a new one with a
    new connection.
    """

    def __init__(self, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> None:
        self._max_message_bytes = max_message_bytes
        self._buffer = bytearray()
        self._position = 0  # all before it has been scanned
        self._depth = 0
        self._is_in_string = False

    def feed(self, data: bytes) -> list[Message]:
        """Take the next bytes of the stream; return the messages they complete, oldest first.

        Raises:
            ProtocolError: not JSON, not an object, neither request nor reply, or an unfinished message larger than
                the limit.
        """
        self._buffer += data
        messages: list[Message] = []
        while (end := self._scan()) is not None:
            messages.append(_parse(bytes(self._buffer[:end])))
            del self._buffer[:end]
            self._position = 0
        if len(self._buffer) > self._max_message_bytes:
            raise ProtocolError(
                f"a JSON-RPC message is larger than {self._max_message_bytes} bytes and still unfinished"
            )
        return messages

    @property
    def is_between_messages(self) -> bool:
        """Claims that the stream may end here without cutting a message."""
        return self._depth == 0 and not self._buffer.strip()

    def _scan(self) -> int | None:
        """The end of the first message in the buffer, None while it is unfinished; resumes where it stopped."""
        buffer = self._buffer
        size = len(buffer)
        while True:
            self._skip()
            if self._position == size:
                return None
            byte = buffer[self._position]
            if self._is_in_string:
                if byte != _QUOTE:
                    if self._position + 1 == size:
                        return None  # the second half of an escape is still to come
                    continue
                self._is_in_string = False
            elif byte == _QUOTE:
                self._is_in_string = True
            elif byte == _OPEN:
                self._depth += 1
            else:
                self._depth -= 1
            self._position += 1
            if self._depth == 0:
                return self._position

    def _skip(self) -> None:
        """Move on to the next byte that matters: a brace, a quote that is not closed yet, or the end."""
        if self._is_in_string:
            pattern = _WITHIN_STRING
        elif self._depth > 0:
            pattern = _UP_TO_BRACE
        else:
            pattern = _SPACE
        match = pattern.match(self._buffer, self._position)
        self._position = self._position if match is None else match.end()
        if self._depth == 0 and self._position < len(self._buffer) and self._buffer[self._position] != _OPEN:
            start = bytes(self._buffer[self._position : self._position + 40])
            raise ProtocolError(f"expected a JSON-RPC message, received {start!r}")


def _parse(text: bytes) -> Message:
    try:
        # The recursive alias describes exactly what json.loads can return.
        message = cast("dict[str, JsonValue]", json.loads(text.decode(), parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as e:
        raise ProtocolError(f"received {text[:40]!r}…, which is not JSON: {e}") from e
    method = message.get("method")
    if isinstance(method, str):
        params = message.get("params")
        if not isinstance(params, list):
            raise ProtocolError(f"received request {method!r} without a list of parameters")
        return Request(method=method, params=params, request_id=message.get("id"))
    if "result" in message or "error" in message:
        return Reply(request_id=message.get("id"), result=message.get("result"), error=message.get("error"))
    raise ProtocolError(f"received {text[:40]!r}…, which is neither a request nor a reply")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
