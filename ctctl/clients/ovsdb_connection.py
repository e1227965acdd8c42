"""One connection to an OVSDB server for single questions: JSON-RPC over `ovsdb_remote`, bounded in time.

Keeps no replica and monitors nothing. What it asks only reads.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from select import POLLIN, POLLOUT
from typing import Self

from ctctl.clients.deadline import Deadline
from ctctl.clients.ovsdb_remote import Remote, TlsFiles, connect, tls_refusal
from ctctl.errors import ProtocolError, UnavailableError
from ctctl.wire.jsonrpc import JsonStream, JsonValue, Reply, encode_reply, encode_request

_CHUNK_BYTES = 256 * 1024


class ConnectionLostError(UnavailableError):
    """The server closed the connection, or the network lost it."""


class RefusedError(ProtocolError):
    """The server understood the request and answered with an error; the connection goes on."""


class OvsdbConnection:
    """An open connection. For one thread and one question at a time.

    After any error but `RefusedError` it is in an unknown state and must be closed.
    """

    def __init__(self, remote: Remote, tls: TlsFiles | None, deadline: Deadline) -> None:
        """Connect.

        Raises:
            PermissionDeniedError, TimedOutError, UnavailableError: as `ovsdb_remote.connect` says.
        """
        self._remote = remote
        self._tls = tls
        self._messages = JsonStream()
        self._request_id = 0
        self._socket = connect(remote, tls, deadline)

    def call(self, method: str, params: Sequence[JsonValue], deadline: Deadline) -> JsonValue:
        """Send one request and wait for its result.

        Raises:
            TimedOutError: no answer before the deadline.
            ConnectionLostError: the connection ended first.
            RefusedError: the server answered with an error.
            ProtocolError: the server answered with something that is no JSON-RPC.
        """
        self._request_id += 1
        what = f"waiting for {self._remote} to answer {method!r}"
        self._send(encode_request(method, params, self._request_id), deadline, what)
        while True:
            for message in self._messages.feed(self._receive(deadline, what)):
                if isinstance(message, Reply):
                    if message.request_id != self._request_id:
                        raise ProtocolError(
                            f"{self._remote} answered request {message.request_id!r}, which is not open"
                        )
                    if message.error is not None:
                        raise RefusedError(f"{self._remote} refused {method!r}: {message.error}")
                    return message.result
                if message.method == "echo":
                    self._send(encode_reply(message.params, message.request_id), deadline, what)

    def peer_address(self) -> str:
        """The numeric address this connection goes to, as an OVSDB address."""
        if self._remote.method == "unix":
            return str(self._remote)
        host, port = self._socket.getpeername()[:2]
        return str(Remote(self._remote.method, host=host, port=port))

    def _send(self, data: bytes, deadline: Deadline, what: str) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                deadline.wait_for(self._socket, POLLOUT, what)
            except ssl.SSLWantReadError:
                deadline.wait_for(self._socket, POLLIN, what)
            except OSError as e:
                raise self._lost(e) from e

    def _receive(self, deadline: Deadline, what: str) -> bytes:
        while True:
            try:
                data = self._socket.recv(_CHUNK_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError):
                deadline.wait_for(self._socket, POLLIN, what)
            except ssl.SSLWantWriteError:
                deadline.wait_for(self._socket, POLLOUT, what)
            except OSError as e:
                raise self._lost(e) from e
            else:
                if not data:
                    raise ConnectionLostError(f"{self._remote} closed the connection")
                deadline.check(what)
                return data

    def _lost(self, cause: OSError) -> UnavailableError:
        for error in (cause, self._last_words()):
            if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
                return tls_refusal(self._remote, self._tls, error)
        return ConnectionLostError(f"connection to {self._remote} lost: {cause.strerror or cause}")

    def _last_words(self) -> OSError | None:
        """Under TLS 1.3 a peer refuses our certificate after the handshake, and hangs up: sending fails first."""
        try:
            self._socket.recv(1)
        except OSError as e:
            return e
        return None

    def close(self) -> None:
        """Close the connection; harmless when repeated."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def fetch_schema(connection: OvsdbConnection, database: str, deadline: Deadline) -> dict[str, JsonValue]:
    """The schema of `database` as the server has it now.

    Raises:
        UnavailableError: the server has no such database (yet).
        ProtocolError and the others: as `OvsdbConnection.call` says.
    """
    try:
        schema = connection.call("get_schema", [database], deadline)
    except RefusedError as e:
        raise UnavailableError(f"no database {database} there: {e}", remedy="check the address") from e
    if not isinstance(schema, dict) or not isinstance(schema.get("tables"), dict):
        raise ProtocolError(f"the schema of {database} was answered with no schema")
    return schema
