"""Receiving for the `ovs` library's connections, with our own JSON-RPC stream in place of the library's parser.

The library (4.0) decodes text per call of its receive function, and so loses the rest of a character that arrives in
two pieces; and without its C extension, which PyPI's build lacks, it parses JSON character by character in Python, the
larger part of the cost of a replica. Part of the door `ovsdb_idl`; nothing else uses it.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import Final

import ovs.jsonrpc
import ovs.poller

from ctctl.wire.jsonrpc import JsonStream, Message, Request

_CHUNK_BYTES: Final = 64 * 1024


class Reception:
    """Takes over receiving on one `ovs.jsonrpc.Connection`, from its first byte on."""

    def __init__(self, connection: ovs.jsonrpc.Connection) -> None:
        self._connection = connection
        self._stream = JsonStream()
        self._complete: deque[Message] = deque()
        connection.recv = self.recv
        connection.recv_wait = self.recv_wait

    @property
    def has_messages(self) -> bool:
        """Claims that messages are here that the library has not taken yet."""
        return bool(self._complete)

    @property
    def received_bytes(self) -> int:
        """Bytes received in all."""
        return int(self._connection.received_bytes)

    def recv(self) -> tuple[int, ovs.jsonrpc.Message | None]:
        """The library's `Connection.recv`: (0, message), or (errno, None), EAGAIN when there is none yet.

        Raises:
            ProtocolError: the server sent something that is no JSON-RPC.
        """
        connection = self._connection
        while not self._complete:
            if connection.status:
                return connection.status, None
            error, data = connection.stream.recv(_CHUNK_BYTES)
            if error == errno.EAGAIN:
                return error, None
            if error or not data:
                connection.error(error or ovs.jsonrpc.EOF)
                return connection.status, None
            connection.received_bytes += len(data)
            self._complete.extend(self._stream.feed(data))
        return 0, _as_the_library_has_it(self._complete.popleft())

    def recv_wait(self, poller: ovs.poller.Poller) -> None:
        """The library's `Connection.recv_wait`."""
        if self._complete or self._connection.status:
            poller.immediate_wake()
        else:
            self._connection.stream.recv_wait(poller)


def _as_the_library_has_it(message: Message) -> ovs.jsonrpc.Message:
    kind = ovs.jsonrpc.Message
    if isinstance(message, Request):
        type_ = kind.T_NOTIFY if message.request_id is None else kind.T_REQUEST
        return kind(type_, message.method, message.params, None, None, message.request_id)
    type_ = kind.T_REPLY if message.error is None else kind.T_ERROR
    return kind(type_, None, None, message.result, message.error, message.request_id)
