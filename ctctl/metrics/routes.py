"""Every route of the HTTP server: a request goes in, an answer comes out, nothing is changed on the way."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final, Protocol

from aiohttp import web

from ctctl.metrics.basic_auth import PasswordChecker, TooManyLoginsError
from ctctl.metrics.exposition import Exposer
from ctctl.metrics.rate_limit import RateLimit
from ctctl.metrics.shared_work import SharedWork
from ctctl.metrics.web_config import RateLimitConfig
from ctctl.metrics.web_config_file import WebAccess
from ctctl.model.snapshot import Snapshot

DEFAULT_SCRAPE_TIMEOUT_S: Final = 10.0
MAX_SCRAPE_TIMEOUT_S: Final = 60.0
PAGE_TIMEOUT_S: Final = 10.0
MAX_WAITING: Final = 64
"""Requests that may wait for an exposition, a page or a password at once: they must not take every connection."""

_HEADERS: Final = {
    "Server": "ctctl",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class Page(Protocol):
    """The page for people."""

    @property
    def content_security_policy(self) -> str:
        """What the page may load and run: its own script and style, by their hashes, and nothing else."""
        ...

    def html(self) -> str:
        """The page as it is now; called from a worker thread."""
        ...


def scrape_timeout_s(header: str | None) -> float:
    """Seconds to answer within, from `X-Prometheus-Scrape-Timeout-Seconds`, a little less than the client waits."""
    try:
        asked_s = float(header or "")
    except ValueError:
        return DEFAULT_SCRAPE_TIMEOUT_S
    if not math.isfinite(asked_s) or asked_s <= 0:
        return DEFAULT_SCRAPE_TIMEOUT_S
    return min(asked_s - min(0.25, asked_s / 4), MAX_SCRAPE_TIMEOUT_S)


class Routes:
    """Answers requests. Belongs to one event loop; `access` is asked anew for each request."""

    def __init__(
        self,
        telemetry_path: str,
        exposer: Exposer,
        page: Page,
        snapshot: Callable[[], Snapshot | None],
        access: Callable[[], WebAccess],
    ) -> None:
        self._telemetry_path = telemetry_path
        self._exposer = exposer
        self._page = page
        self._snapshot = snapshot
        self._access = access
        self._passwords = PasswordChecker()
        self._pages: SharedWork[str, str] = SharedWork("ctctl-page")
        self._waiting = 0
        self._limited_by = RateLimitConfig()
        self._rate_limit = RateLimit(0, 0)

    def close(self) -> None:
        """Begin no more work."""
        self._passwords.close()
        self._pages.close()

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """The answer to one request, with the headers every answer carries."""
        config = self._access().config
        response = self._over_rate(config.rate_limit)
        if response is None:
            response = await self._within_bounds(request, config.basic_auth_users)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        for name, value in config.http_server_config.headers.items():
            if value:
                response.headers[name] = value
        return response

    def _over_rate(self, limit: RateLimitConfig) -> web.Response | None:
        if limit != self._limited_by:
            self._limited_by = limit
            self._rate_limit = RateLimit(limit.interval_s, limit.burst)
        if self._rate_limit.is_admitted(asyncio.get_running_loop().time()):
            return None
        return text(429, "too many requests, see rate_limit in the web configuration\n")

    async def _within_bounds(self, request: web.BaseRequest, users: dict[str, str]) -> web.Response:
        """The answer, unless it would have to be waited for and too many are waiting."""
        is_quick = not users and request.path not in ("/", self._telemetry_path)
        if not is_quick and self._waiting >= MAX_WAITING:
            return text(503, "too many requests at once, try again\n", {"Retry-After": "1"})
        self._waiting += 1
        try:
            refusal = await self._unauthorized(request, users)
            return await self._route(request) if refusal is None else refusal
        finally:
            self._waiting -= 1

    async def _unauthorized(self, request: web.BaseRequest, users: dict[str, str]) -> web.Response | None:
        if not users:
            return None
        try:
            if await self._passwords.is_allowed(users, request.headers.get("Authorization")):
                return None
        except TooManyLoginsError:
            return text(503, "too many passwords to check, try again\n", {"Retry-After": "1"})
        return text(401, "Unauthorized\n", {"WWW-Authenticate": "Basic"})

    async def _route(self, request: web.BaseRequest) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            return text(405, "only GET and HEAD: nothing can be changed over HTTP\n", {"Allow": "GET, HEAD"})
        if request.path == self._telemetry_path:
            return await self._metrics(request)
        match request.path:
            case "/":
                return await self._status_page()
            case "/-/healthy":
                return text(200, "healthy\n")
            case "/-/ready":
                return self._ready()
            case _:
                return text(404, f"not here; try / {self._telemetry_path} /-/healthy /-/ready\n")

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        timeout_s = scrape_timeout_s(request.headers.get("X-Prometheus-Scrape-Timeout-Seconds"))
        try:
            exposition = await self._exposer.get(
                request.headers.get("Accept", ""), request.headers.get("Accept-Encoding", ""), timeout_s
            )
        except TimeoutError:
            return text(503, f"the exposition was not ready within {timeout_s:g} s\n", {"Retry-After": "1"})
        headers = {"Content-Type": exposition.content_type, "Vary": "Accept, Accept-Encoding"}
        if exposition.encoding:
            headers["Content-Encoding"] = exposition.encoding
        return web.Response(body=exposition.body, headers=headers)

    async def _status_page(self) -> web.Response:
        try:
            html = await self._pages.get("/", self._page.html, PAGE_TIMEOUT_S)
        except TimeoutError:
            return text(503, f"the page was not ready within {PAGE_TIMEOUT_S:g} s\n", {"Retry-After": "1"})
        policy = {"Content-Security-Policy": self._page.content_security_policy}
        return web.Response(text=html, content_type="text/html", headers=policy)

    def _ready(self) -> web.Response:
        snapshot = self._snapshot()
        if snapshot is None:
            return text(503, "not ready: nothing is known yet\n")
        if not snapshot.is_ready:
            return text(503, f"not ready: {snapshot.why_not_ready}\n")
        return text(200, "ready\n")


def text(status: int, body: str, headers: dict[str, str] | None = None) -> web.Response:
    """A plain-text answer."""
    return web.Response(status=status, text=body, headers=headers)
