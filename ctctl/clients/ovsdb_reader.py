"""The local database's state in one round trip: for the check right before a flush, and for the command line.

Independent of the monitoring connection, so that what it says does not depend on whether that one works.
"""

from __future__ import annotations

from collections.abc import Callable

from ctctl.clients.deadline import Deadline
from ctctl.clients.ovsdb_connection import ConnectionLostError, OvsdbConnection
from ctctl.clients.ovsdb_remote import Remote, parse_remotes, socket_inode
from ctctl.errors import ProtocolError, UnavailableError
from ctctl.model.instant import Instant
from ctctl.model.ovs import LocalView
from ctctl.wire.jsonrpc import JsonValue
from ctctl.wire.local_view import LOCAL_SELECTS, local_view
from ctctl.wire.ovsdb import selected_rows, transact_params

DATABASE = "Open_vSwitch"


class LocalOvsdbReader:
    """Reads the local database on a connection of its own, which it keeps. For one thread at a time.

    `address`: an OVSDB address such as unix:/var/run/openvswitch/db.sock (the first one counts). `bridge`: the
    integration bridge, None to take it from the database. `clock`: the agent's clock.
    """

    def __init__(self, address: str, bridge: str | None, clock: Callable[[], Instant]) -> None:
        self._address = address
        self._bridge = bridge
        self._clock = clock
        self._connection: OvsdbConnection | None = None
        self._inode: tuple[int, int] | None = None
        self._session = 0

    def read(self, timeout_s: float) -> LocalView:
        """The state as the server has it between `LocalView.confirmed` (when it was asked) and the return.

        Everything is read in one transaction, so the parts of it fit together.

        Raises:
            PermissionDeniedError: the socket's mode refuses this process; names path, owner, mode and uid.
            TimedOutError: no answer within `timeout_s` seconds in all.
            UnavailableError: nobody listens, or the connection was lost twice.
            ProtocolError: the server refused to read, or answered with something that is no reply.
        """
        deadline = Deadline(timeout_s)
        remote = parse_remotes(self._address)[0]
        if self._connection is not None and self._inode != socket_inode(remote):
            self.close()  # a new server has re-created the socket; the old one may still answer
        try:
            if self._connection is not None:
                try:
                    return self._ask(self._connection, deadline)
                except ConnectionLostError:
                    self.close()  # the server was restarted, or hung up on an idle connection
            return self._ask(self._connect(remote, deadline), deadline)
        except (UnavailableError, ProtocolError):
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next `read` opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self, remote: Remote, deadline: Deadline) -> OvsdbConnection:
        self._inode = socket_inode(remote)
        self._connection = OvsdbConnection(remote, None, deadline)
        self._session += 1
        return self._connection

    def _ask(self, connection: OvsdbConnection, deadline: Deadline) -> LocalView:
        asked = self._clock()
        params: list[JsonValue] = transact_params(DATABASE, LOCAL_SELECTS)
        result = connection.call("transact", params, deadline)
        tables = selected_rows(result, LOCAL_SELECTS)
        return local_view(tables, bridge=self._bridge, confirmed=asked, session=self._session)
