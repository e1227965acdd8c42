"""The HTTP server: metrics for Prometheus, a page for people, two probes. No request changes anything.

It runs in a thread with an event loop of its own. Whatever takes time (collecting, encoding, password hashes, the
page) happens in worker threads, so `/-/healthy` is answered at once whatever else goes on.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Final

import structlog
from aiohttp import web
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger

from ctctl.errors import CtctlError
from ctctl.metrics.collect_table import PatientReader
from ctctl.metrics.collectors import Clock, MetricsSettings, SnapshotCollector, build_registry
from ctctl.metrics.connections import ConnectionGuard, Limits, Phase
from ctctl.metrics.exposition import Exposer
from ctctl.metrics.families import Families
from ctctl.metrics.listen import ListenAddress
from ctctl.metrics.web_settings import WebSettings
from ctctl.model.counts import TableStats
from ctctl.model.snapshot import Snapshot

log: Final[FilteringBoundLogger] = structlog.get_logger("ctctl.metrics")

DEFAULT_SCRAPE_TIMEOUT_S: Final = 10.0
MAX_SCRAPE_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 3.0
_HEADERS: Final = {
    "Server": "ctctl",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}

# The library logs every malformed request with a traceback; a peer could fill the log with them.
_silent: Final = logging.getLogger("ctctl.metrics.http")
_silent.propagate = False
_silent.addHandler(logging.NullHandler())


def scrape_timeout_s(header: str | None) -> float:
    """Seconds to answer within, from `X-Prometheus-Scrape-Timeout-Seconds`, a little less than the client waits."""
    try:
        asked_s = float(header or "")
    except ValueError:
        return DEFAULT_SCRAPE_TIMEOUT_S
    if not math.isfinite(asked_s) or asked_s <= 0:
        return DEFAULT_SCRAPE_TIMEOUT_S
    return min(asked_s - min(0.25, asked_s / 4), MAX_SCRAPE_TIMEOUT_S)


class WebServer:
    """Serves one agent's snapshot over HTTP until stopped.

    `snapshot`: the last one published, None before the first. `read_table_stats`: exact table size, may raise
    UnavailableError. Both are called from worker threads.
    """

    def __init__(
        self,
        settings: WebSettings,
        snapshot: Callable[[], Snapshot | None],
        read_table_stats: Callable[[], TableStats],
        clock: Clock,
        *,
        metrics: MetricsSettings | None = None,
    ) -> None:
        self._settings = settings
        self._snapshot = snapshot
        self._guard: ConnectionGuard | None = None
        self._exposer = Exposer(
            build_registry(
                SnapshotCollector(snapshot, PatientReader(read_table_stats), clock, metrics),
                HttpCollector(settings.max_connections, lambda: self._guard),
            )
        )
        self._listening: list[socket.socket] = []
        self._addresses: tuple[tuple[str, int], ...] = ()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._should_stop: asyncio.Event | None = None
        self._is_serving = threading.Event()

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """(host, port) of each listening socket, in the order of the settings; empty before `start`."""
        return self._addresses

    def start(self) -> None:
        """Listen on every address and serve, in a thread of its own.

        Raises:
            ConfigError: an address or the web configuration file is malformed.
            UnavailableError: an address cannot be had; names it and the remedy. Nothing listens then.
        """
        addresses = [ListenAddress.parse(text) for text in self._settings.listen_addresses]
        try:
            for address in addresses:
                self._listening.append(address.open())
        except CtctlError:
            self._close_sockets()
            raise
        self._addresses = tuple(listening.getsockname()[:2] for listening in self._listening)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="ctctl-http", daemon=True)
        self._thread.start()
        self._is_serving.wait()

    def stop(self) -> None:
        """End every connection and the thread, within seconds. May be called before `start` and twice."""
        if self._loop is not None and self._should_stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._should_stop.set)
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT_S)
        self._close_sockets()

    def _close_sockets(self) -> None:
        for listening in self._listening:
            listening.close()
        self._listening.clear()

    async def _serve(self) -> None:
        """The thread's work: serve until told to stop."""
        self._loop = asyncio.get_running_loop()
        self._should_stop = asyncio.Event()
        settings = self._settings
        limits = Limits(
            settings.max_connections, settings.header_timeout_s, settings.send_timeout_s, settings.idle_timeout_s
        )
        http = web.Server(
            self._answer,
            access_log=None,
            logger=_silent,
            lingering_time=0.0,
            keepalive_timeout=settings.idle_timeout_s,
        )
        self._guard = ConnectionGuard(limits, http, lambda: None, self._loop)
        for listening in self._listening:
            self._guard.listen(listening)
        self._is_serving.set()
        try:
            await self._should_stop.wait()
        finally:
            self._guard.close()
            self._exposer.close()
            await http.shutdown(timeout=0.5)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        """Answer one request, and keep its connection's phases."""
        guard = self._guard
        connection = None if guard is None else guard.of(request.transport)
        if guard is None or connection is None:
            return web.Response(status=503)
        guard.enter(connection, Phase.COMPUTING)
        try:
            response = await self._route(request)
        except Exception as error:
            log.exception("http_request_failed", path=request.path, exc_info=error)
            response = _text(500, "internal error, see the log of ctctl\n")
        guard.enter(connection, Phase.SENDING)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        try:
            await response.prepare(request)
            await response.write_eof()
        except ConnectionError:
            # The peer has gone; there is nobody left to tell.
            return response
        guard.enter(connection, Phase.IDLE)
        return response

    async def _route(self, request: web.BaseRequest) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            return _text(405, "only GET and HEAD: nothing can be changed over HTTP\n", {"Allow": "GET, HEAD"})
        if request.path == self._settings.telemetry_path:
            return await self._metrics(request)
        match request.path:
            case "/":
                return self._landing_page()
            case "/-/healthy":
                return _text(200, "healthy\n")
            case "/-/ready":
                return self._ready()
            case _:
                return _text(404, f"not here; try / {self._settings.telemetry_path} /-/healthy /-/ready\n")

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        timeout_s = scrape_timeout_s(request.headers.get("X-Prometheus-Scrape-Timeout-Seconds"))
        try:
            exposition = await self._exposer.get(
                request.headers.get("Accept", ""), request.headers.get("Accept-Encoding", ""), timeout_s
            )
        except TimeoutError:
            return _text(503, f"the exposition was not ready within {timeout_s:g} s\n", {"Retry-After": "1"})
        headers = {"Content-Type": exposition.content_type, "Vary": "Accept, Accept-Encoding"}
        if exposition.encoding:
            headers["Content-Encoding"] = exposition.encoding
        return web.Response(body=exposition.body, headers=headers)

    def _ready(self) -> web.Response:
        snapshot = self._snapshot()
        if snapshot is None:
            return _text(503, "not ready: nothing is known yet\n")
        if not snapshot.is_ready:
            return _text(503, f"not ready: {snapshot.why_not_ready}\n")
        return _text(200, "ready\n")

    def _landing_page(self) -> web.Response:
        path = self._settings.telemetry_path
        body = f'<!doctype html><html lang="en"><title>ctctl</title><h1>ctctl</h1><a href="{path}">Metrics</a></html>\n'
        return web.Response(text=body, content_type="text/html")


class HttpCollector(Collector):
    """The families of `Subject.HTTP`."""

    def __init__(self, limit: int, guard: Callable[[], ConnectionGuard | None]) -> None:
        self._limit = limit
        self._guard = guard

    def describe(self) -> Iterable[Family]:
        """Nothing: registering must not collect."""
        return ()

    def collect(self) -> Iterable[Family]:
        """One scrape's worth."""
        guard = self._guard()
        families = Families()
        families.put("ctctl_http_connections_limit", self._limit)
        if guard is not None:
            families.put("ctctl_http_connections", guard.count)
            for reason, number in guard.drops.items():
                families.put("ctctl_http_connections_dropped_total", number, reason)
        return families.in_order()


def _text(status: int, body: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=body, headers=headers)
