"""The one door to `ovs` and `ovsdbapp` (with its two helpers): a read-only replica of chosen columns.

A `Replica` lives as long as its connection and is thrown away with it: nothing it holds outlives a reconnect, so no
row that vanished meanwhile can survive. It is driven from outside, step by step, so that every exception inside the
IDL is seen by its user; ovsdbapp's own thread logs them and carries on with a replica that may have missed updates.
It never opens a transaction.
"""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import ovs.db.error
import ovs.jsonrpc
import ovs.poller
import ovs.stream
from ovs.db.idl import Idl, SchemaHelper
from ovsdbapp.backend.ovs_idl.connection import OvsdbIdl

from ctctl.clients import ovsdb_library_log as library_log
from ctctl.clients.ovsdb_reception import Reception
from ctctl.clients.ovsdb_remote import TlsFiles
from ctctl.errors import CtctlError, UnavailableError
from ctctl.model.instant import Instant
from ctctl.wire.jsonrpc import JsonValue
from ctctl.wire.ovsdb import Atom, Row, Select, Value

_MAX_STEPS: Final = 64
"""Batches taken in one go; a server that never stops sending must not keep its user from looking at the clock."""


class ReplicaFaultError(CtctlError):
    """Something went wrong inside the IDL: the replica may have missed updates and must not be used any more."""


class ReplicaLostError(UnavailableError):
    """The connection ended, or the server stopped answering: the replica no longer follows the database."""


class _FollowingIdl(OvsdbIdl):  # type: ignore[misc]  # the library has no types
    """The IDL with three ears: for changed rows, for answers to our own questions, and for a cancelled monitor."""

    def __init__(self, remote: str, schema: SchemaHelper) -> None:
        self.changed_rows: dict[str, set[uuid.UUID]] = {}
        self.is_cancelled = False
        self.question: object = None  # the id of the echo request that is not answered yet
        self.reception: Reception | None = None
        super().__init__(remote, schema, probe_interval=0, leader_only=False)

    def run(self) -> bool:
        """As in the library, which receives nothing in the step in which it completes a connection."""
        changed = bool(super().run())
        if self.reception is None and self._session.rpc is not None:
            self.reception = Reception(self._session.rpc)
            _keep_alive(self._session.rpc.stream.socket)
        return changed

    def cooperative_yield(self) -> None:
        """Called per row for the sake of coroutines; threads take turns without."""

    def notify(self, event: str, row: object, updates: object = None) -> None:
        """Only marks the row: the state is taken from the rows, never from single events."""
        del event, updates
        table: str = row._table.name  # type: ignore[attr-defined]  # noqa: SLF001 - no public name
        self.changed_rows.setdefault(table, set()).add(row.uuid)  # type: ignore[attr-defined]

    def ask(self) -> None:
        """Send an echo request; `question` is None again once it is answered."""
        request = ovs.jsonrpc.Message.create_request("echo", [])
        self.question = request.id
        self._session.send(request)

    def handle_monitor_canceled(self, msg: ovs.jsonrpc.Message) -> bool:
        """The server ended the monitor, as it does before it converts a schema."""
        if msg.type == msg.T_NOTIFY and msg.method == "monitor_canceled":
            self.is_cancelled = True
            return True
        return False

    def handle_monitor_cancel_reply(self, msg: ovs.jsonrpc.Message) -> bool:
        """Called with every message that is no update: the place to see the answer to `ask`."""
        if msg.type == msg.T_REPLY and self.question is not None and msg.id == self.question:
            self.question = None
            return True
        return False


class Replica:
    """The rows of `selects`, as one server sends them over one connection. For one thread.

    `address`: one numeric OVSDB address. `schema`: as the server gave it, a moment ago. `optional`: table → columns
    that are replicated where the schema has them. `clock`: read at each step.
    """

    def __init__(
        self,
        address: str,
        schema: Mapping[str, JsonValue],
        selects: Sequence[Select],
        optional: Mapping[str, Sequence[str]],
        tls: TlsFiles | None,
        clock: Callable[[], Instant],
    ) -> None:
        """Start connecting.

        Raises:
            UnavailableError: the schema lacks a table or column that is needed.
        """
        library_log.open()
        if tls is not None:
            # Process-wide in the library; there is one set of OVN TLS files. Read anew for each connection.
            ovs.stream.Stream.ssl_set_private_key_file(tls.key)
            ovs.stream.Stream.ssl_set_certificate_file(tls.certificate)
            ovs.stream.Stream.ssl_set_ca_cert_file(tls.ca)
        self._address = address
        self._clock = clock
        self._idl = _open(address, _narrowed(schema, selects, optional))
        self._connection_seqno: int | None = None
        self._row_counts: dict[str, int] = {}
        self._plain_rows: dict[str, dict[uuid.UUID, Row]] = {table: {} for table in self._idl.tables}
        self._asked: Instant = clock()
        self._confirmed: Instant | None = None
        self._heard: Instant = self._asked
        self._received_bytes = 0
        self._verdict = ""  # the IDL's own words on a server it does not want
        self._last_words = ""

    @property
    def address(self) -> str:
        """Where the server is."""
        return self._address

    @property
    def is_synced(self) -> bool:
        """Claims that the whole initial content is here."""
        return bool(self._idl.state == Idl.IDL_S_MONITORING)

    @property
    def confirmed(self) -> Instant | None:
        """All that was committed before this instant is in the replica; None before it is synced.

        It is when the newest answered question was sent: the server sends pending updates before it answers.
        """
        return self._confirmed

    @property
    def asked(self) -> Instant:
        """When the server was last asked for something."""
        return self._asked

    @property
    def is_idle(self) -> bool:
        """Claims that the server owes no answer."""
        return self.is_synced and self._idl.question is None

    def silence_s(self, now: Instant) -> float:
        """Seconds for which the server has owed an answer and sent nothing at all; 0 when it owes none."""
        return 0.0 if self.is_idle else now.since(max(self._heard, self._asked))

    def ask(self) -> None:
        """Ask the server for a sign of life, unless it owes one already."""
        if self.is_idle:
            self._asked = self._clock()
            self._idl.ask()

    def step(self, wait_s: float, wake_fd: int) -> None:
        """Wait until the server sends something, `wake_fd` becomes readable or `wait_s` passes; take in what came.

        Raises:
            ReplicaLostError: the connection ended or the server cancelled the monitor.
            ReplicaFaultError: an exception inside the IDL, or an update that it could not apply.
        """
        try:
            poller = ovs.poller.Poller()
            self._idl.wait(poller)
            poller.fd_wait(wake_fd, ovs.poller.POLLIN)
            poller.timer_wait(round(wait_s * 1000))
            poller.block()
            for _ in range(_MAX_STEPS):
                if not self._advance():
                    break
        except CtctlError:
            raise
        # Whatever the library raises, the replica may have missed an update: there is no narrower class for that.
        except Exception as e:
            raise ReplicaFaultError(f"{self._address}: fault inside the IDL: {type(e).__name__}: {_text(e)}") from e
        self._listen()

    def _advance(self) -> bool:
        """One batch; returns whether there may be more to take in without waiting."""
        now = self._clock()
        was_synced = self.is_synced
        had_question = self._idl.question is not None
        self._idl.run()
        session = self._idl._session  # noqa: SLF001 - the library shows the connection's state nowhere else
        if self._idl.is_cancelled:
            raise ReplicaLostError(f"{self._address} cancelled the monitor (its schema changes)")
        if self._connection_seqno is None:
            if session.is_connected():
                self._connection_seqno = session.get_seqno()
            elif session.stream is None:
                raise self._lost(f"cannot connect to {self._address}")
        elif not session.is_connected() or session.get_seqno() != self._connection_seqno:
            raise self._lost(f"connection to {self._address} lost")
        reception = self._idl.reception
        received = 0 if reception is None else reception.received_bytes
        has_received = received != self._received_bytes
        self._received_bytes = received
        if has_received:
            self._heard = now
        if (self.is_synced and not was_synced) or (had_question and self._idl.question is None):
            self._confirmed = self._asked
        return has_received or (reception is not None and reception.has_messages)

    def _listen(self) -> None:
        """Take in what the library said.

        It logs an update that it cannot parse or apply, and goes on without: a warning out of the IDL ends the replica.
        """
        for said in library_log.take():
            text = said.text.removeprefix(f"{self._address}: ")
            if said.file != "idl.py":
                self._last_words = text
            elif said.is_warning:
                raise ReplicaFaultError(f"{self._address}: the IDL warned: {text}")
            else:
                self._verdict = text

    def _lost(self, what: str) -> ReplicaLostError:
        """An error with the library's own reason, if it gave one."""
        self._listen()
        return ReplicaLostError(f"{what}: {self._verdict or self._last_words or 'closed by the server'}")

    def take_changed(self) -> frozenset[str]:
        """The tables whose rows changed since the last call; every table after the first synchronisation."""
        changed = {table for table, rows in self._idl.changed_rows.items() if rows}
        for table in changed:
            known = self._plain_rows[table]
            for row in self._idl.changed_rows[table]:
                known.pop(row, None)
            self._idl.changed_rows[table].clear()
        for name, table in self._idl.tables.items():
            # A new row with nothing but default values causes no notification.
            if self._row_counts.get(name) != len(table.rows):
                self._row_counts[name] = len(table.rows)
                changed.add(name)
        return frozenset(changed)

    def rows(self, table: str) -> list[Row]:
        """The table's rows with their `_uuid`, as plain values. A row that did not change is the same object again."""
        known = self._plain_rows[table]
        rows = self._idl.tables[table].rows
        plain = {key: known[key] if key in known else dict(_columns(rows[key])) for key in rows}
        self._plain_rows[table] = plain
        return list(plain.values())

    def close(self) -> None:
        """Close the connection."""
        self._idl.close()
        library_log.take()


def _keep_alive(connection: socket.socket) -> None:
    """Let the kernels notice a host or network that is gone within 15 s, at no cost to the server's process."""
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Asked after 4, 7, 10 and 13 s of silence, the last time in vain; the same with data on the way.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 4)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 3)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 12_000)


def _open(address: str, schema: SchemaHelper) -> _FollowingIdl:
    try:
        return _FollowingIdl(address, schema)
    except ovs.db.error.Error as e:
        raise UnavailableError(f"{address} has a schema that cannot be used: {e}") from e


def _narrowed(
    schema: Mapping[str, JsonValue], selects: Sequence[Select], optional: Mapping[str, Sequence[str]]
) -> SchemaHelper:
    tables = schema.get("tables")
    helper = SchemaHelper(None, json.loads(json.dumps(schema)))
    for select in selects:
        table = tables.get(select.table) if isinstance(tables, dict) else None
        has = table.get("columns") if isinstance(table, dict) else None
        if not isinstance(has, dict) or not has.keys() >= set(select.columns):
            raise UnavailableError(
                f"the server's schema of {schema.get('name')} has no {select.table} with {', '.join(select.columns)}"
            )
        wanted = [column for column in optional.get(select.table, ()) if column in has]
        helper.register_columns(select.table, [*select.columns, *wanted])
    return helper


def _columns(row: object) -> Iterator[tuple[str, Value]]:
    yield "_uuid", str(row.uuid)  # type: ignore[attr-defined]
    # Row.__getattr__ would look for uncommitted changes, of which there are none, for every key of a map.
    data = row._data  # type: ignore[attr-defined]  # noqa: SLF001
    for column in data.keys():  # noqa: SIM118 - the mapping makes absent columns up only when asked like this
        yield column, _plain(data[column])


def _plain(datum: object) -> Value:
    values = datum.values  # type: ignore[attr-defined]
    if datum.type.is_map():  # type: ignore[attr-defined]
        return {key.value: value.value for key, value in values.items()}
    if len(values) == 1 and datum.type.n_max == 1:  # type: ignore[attr-defined]
        return _atom(next(iter(values)).value)
    return frozenset(_atom(key.value) for key in values)


def _atom(value: object) -> Atom:
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, uuid.UUID):
        return str(value)
    raise ReplicaFaultError(f"the IDL holds {value!r}, which is no OVSDB value")


def _text(error: Exception) -> str:
    """The exception's text; some of the library's own fail to give theirs."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever goes wrong in a foreign __str__, the fault itself must be told
        return "(no text)"
