"""A real server on a free port of the loopback, and the bluntest of clients."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ctctl.metrics.web import WebServer
from ctctl.metrics.web_config_file import Load
from ctctl.metrics.web_settings import WebSettings
from ctctl.model.counts import TableStats
from ctctl.model.snapshot import Snapshot
from tests.metrics.snapshots import NOW, busy_snapshot, table_stats

LOOPBACK = ("127.0.0.1:0",)


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@contextmanager
def serving(
    settings: WebSettings | None = None,
    snapshot: Callable[[], Snapshot | None] = busy_snapshot,
    read: Callable[[], TableStats] = table_stats,
    load: Load | None = None,
) -> Iterator[WebServer]:
    """A server of a busy node."""
    server = WebServer(settings or WebSettings(LOOPBACK), snapshot, read, lambda: NOW, load_web_config=load)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def ask(
    server: WebServer,
    path: str,
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    timeout_s: float = 20.0,
) -> Answer:
    """One request on a connection of its own."""
    host, port = server.addresses[0]
    connection = (
        http.client.HTTPConnection(host, port, timeout=timeout_s)
        if tls is None
        else http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls)
    )
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


def connect(server: WebServer, timeout_s: float = 20.0) -> socket.socket:
    """A bare connection."""
    return socket.create_connection(server.addresses[0], timeout=timeout_s)


def said(server: WebServer, request: bytes, timeout_s: float = 20.0) -> bytes:
    """Everything the server says to these bytes until it closes."""
    with connect(server, timeout_s) as peer:
        peer.sendall(request)
        return until_closed(peer)


def until_closed(peer: socket.socket) -> bytes:
    """Everything the server still says; a connection that is reset has been closed, too."""
    heard = b""
    try:
        while chunk := peer.recv(65536):
            heard += chunk
    except ConnectionResetError:
        pass
    return heard
