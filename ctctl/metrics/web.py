"""The HTTP server's life: sockets, the thread with its event loop, and what is watched while it serves.

Whatever takes time (collecting, encoding, password hashes, the page) happens in worker threads, so `/-/healthy` is
answered at once whatever else goes on. No request changes anything.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import structlog
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger
from yarl import URL

from ctctl.errors import ConfigError, CtctlError
from ctctl.metrics.collect_table import PatientReader
from ctctl.metrics.collectors import Clock, MetricsSettings, SnapshotCollector, build_registry
from ctctl.metrics.connection import Phase
from ctctl.metrics.connections import ConnectionGuard, Limits
from ctctl.metrics.exposition import Exposer
from ctctl.metrics.families import Families
from ctctl.metrics.listen import ListenAddress
from ctctl.metrics.page.history import History
from ctctl.metrics.page.status_page import StatusPage
from ctctl.metrics.routes import Routes, text
from ctctl.metrics.tls import has_allowed_name
from ctctl.metrics.web_config_file import OPEN_ACCESS, Load, WebAccess, WebConfigFile
from ctctl.metrics.web_settings import WebSettings
from ctctl.model.counts import TableStats
from ctctl.model.snapshot import Snapshot

log: Final[FilteringBoundLogger] = structlog.get_logger("ctctl.metrics")

_WATCH_INTERVAL_S: Final = 1.0
_STOP_TIMEOUT_S: Final = 3.0
_NOWHERE: Final = "/-/malformed"
_OWN_PATHS: Final = ("/", "/-/healthy", "/-/ready")

# The library logs every malformed request with a traceback; a peer could fill the log with them.
_silent: Final = logging.getLogger("ctctl.metrics.http")
_silent.setLevel(logging.CRITICAL + 1)


class WebServer:
    """Serves one agent's snapshot over HTTP until stopped.

    `snapshot`: the last one published, None before the first. `read_table_stats`: exact table size, may raise
    UnavailableError. Both are called from worker threads. `load_web_config`: reads a YAML file into plain values,
    needed where the settings name one.
    """

    def __init__(
        self,
        settings: WebSettings,
        snapshot: Callable[[], Snapshot | None],
        read_table_stats: Callable[[], TableStats],
        clock: Clock,
        *,
        metrics: MetricsSettings | None = None,
        load_web_config: Load | None = None,
    ) -> None:
        self._settings = settings
        self._snapshot = snapshot
        self._clock = clock
        self._load_web_config = load_web_config
        self._read_table_stats = PatientReader(read_table_stats)
        self._history = History()
        self._guard: ConnectionGuard | None = None
        self._routes: Routes | None = None
        self._config_file: WebConfigFile | None = None
        self._exposer = Exposer(
            build_registry(
                SnapshotCollector(snapshot, self._read_table_stats, clock, metrics),
                HttpCollector(settings.max_connections, lambda: self._guard, lambda: self._config_file),
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
            ConfigError: an address, the telemetry path or the web configuration file is malformed or unusable.
            UnavailableError: an address cannot be had; names it and the remedy. Nothing listens then.
        """
        path = self._settings.telemetry_path
        if not path.startswith("/") or path in _OWN_PATHS:
            raise ConfigError(
                f"telemetry path {path!r} cannot be used", remedy=f"begin it with / and avoid {', '.join(_OWN_PATHS)}"
            )
        addresses = [ListenAddress.parse(address) for address in self._settings.listen_addresses]
        self._config_file = self._read_config_file()
        try:
            for address in addresses:
                self._listening.append(address.open())
        except CtctlError:
            self._close_sockets()
            raise
        self._addresses = tuple(listening.getsockname()[:2] for listening in self._listening)
        self._thread = threading.Thread(target=self._run, name="ctctl-http", daemon=True)
        self._thread.start()
        self._is_serving.wait()

    def stop(self) -> None:
        """End every connection and the thread, within seconds. May be called before `start` and twice."""
        if self._loop is not None and self._should_stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._should_stop.set)
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT_S)
        self._close_sockets()

    def _read_config_file(self) -> WebConfigFile | None:
        if self._settings.config_file is None:
            return None
        if self._load_web_config is None:
            raise ConfigError(f"nothing here reads web configuration {self._settings.config_file}")
        return WebConfigFile(self._settings.config_file, self._load_web_config)

    def _close_sockets(self) -> None:
        for listening in self._listening:
            listening.close()
        self._listening.clear()

    def _access(self) -> WebAccess:
        return OPEN_ACCESS if self._config_file is None else self._config_file.access

    def _is_welcome(self, transport: asyncio.BaseTransport) -> bool:
        tls = self._access().config.tls_server_config
        if tls is None or not tls.client_allowed_sans:
            return True
        return has_allowed_name(transport.get_extra_info("peercert"), tls.client_allowed_sans)

    def _tls_context(self) -> ssl.SSLContext | None:
        return self._access().context

    def _run(self) -> None:
        """The thread's work. An exception that leaves it reaches `threading.excepthook`, as any thread's does."""
        try:
            asyncio.run(self._serve())
        finally:
            self._is_serving.set()

    async def _serve(self) -> None:
        """Serve until told to stop."""
        self._loop = asyncio.get_running_loop()
        self._should_stop = asyncio.Event()
        settings = self._settings
        limits = Limits(
            settings.max_connections, settings.header_timeout_s, settings.send_timeout_s, settings.idle_timeout_s
        )
        http = web.Server(
            self._answer,
            access_log=None,
            request_factory=_request,
            logger=_silent,
            lingering_time=0.0,
            keepalive_timeout=settings.idle_timeout_s,
        )
        page = StatusPage(settings.telemetry_path, self._snapshot, self._read_table_stats, self._clock, self._history)
        self._routes = Routes(settings.telemetry_path, self._exposer, page, self._snapshot, self._access)
        self._guard = ConnectionGuard(limits, http, self._tls_context, self._is_welcome, self._loop)
        watching = asyncio.create_task(self._watch(self._guard))
        for listening in self._listening:
            self._guard.listen(listening)
        self._is_serving.set()
        stopping = asyncio.create_task(self._should_stop.wait())
        try:
            # `_watch` ends only by an exception, which then ends the thread.
            done, _ = await asyncio.wait((stopping, watching), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            watching.cancel()
            await self._guard.close()
            self._routes.close()
            self._exposer.close()
            await http.shutdown(timeout=0.5)

    async def _watch(self, guard: ConnectionGuard) -> None:
        """Once a second: the history's next observation, and whether the web configuration has changed."""
        loop = asyncio.get_running_loop()
        worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ctctl-http-watch")
        try:
            while True:
                await loop.run_in_executor(worker, self._observe)
                if self._config_file is not None and await loop.run_in_executor(worker, self._config_file.refresh):
                    guard.renew()
                await asyncio.sleep(_WATCH_INTERVAL_S)
        finally:
            worker.shutdown(wait=False, cancel_futures=True)

    def _observe(self) -> None:
        """The plots' next observation."""
        now = self._clock()
        entries = None
        if self._history.needs_entries(now):
            # Whatever it is, the table's collector counts and logs it; here it leaves a gap in a plot.
            with suppress(Exception):
                entries = self._read_table_stats().entries
        self._history.observe(now, self._snapshot(), entries)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, and keep its connection's phases."""
        guard, routes = self._guard, self._routes
        connection = None if guard is None else guard.of(request.transport)
        if guard is None or routes is None or connection is None:
            return text(503, "going away\n")
        guard.enter(connection, Phase.COMPUTING)
        try:
            response = await routes.answer(request)
        except Exception:
            log.exception("http_request_failed", path=request.path)
            response = text(500, "internal error, see the log of ctctl\n")
        guard.enter(connection, Phase.SENDING)
        try:
            await response.prepare(request)
            await response.write_eof()
        except ConnectionError:
            # The peer has gone; there is nobody left to tell.
            return response
        guard.enter(connection, Phase.IDLE)
        return response


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """The request of a parsed message; one for a path that does not exist where its target is no usable URL."""
    loop = asyncio.get_running_loop()
    try:
        return web.BaseRequest(message, payload, protocol, writer, task, loop)
    except ValueError:
        # `http://x:99999/`: not every version of the library looks at the port before it gets here.
        nowhere = message._replace(path=_NOWHERE, url=URL(_NOWHERE))
        return web.BaseRequest(nowhere, payload, protocol, writer, task, loop)


class HttpCollector(Collector):
    """The families of `Subject.HTTP`."""

    def __init__(
        self,
        limit: int,
        guard: Callable[[], ConnectionGuard | None],
        config_file: Callable[[], WebConfigFile | None],
    ) -> None:
        self._limit = limit
        self._guard = guard
        self._config_file = config_file

    def describe(self) -> Iterable[Family]:
        """Nothing: registering must not collect."""
        return ()

    def collect(self) -> Iterable[Family]:
        """One scrape's worth."""
        guard, config_file = self._guard(), self._config_file()
        families = Families()
        families.put("ctctl_http_connections_limit", self._limit)
        if guard is not None:
            families.put("ctctl_http_connections", guard.count)
            for reason, number in guard.drops.items():
                families.put("ctctl_http_connections_dropped_total", number, reason)
        if config_file is not None:
            families.put("ctctl_web_config_last_read_good", config_file.is_last_read_good)
        return families.in_order()
