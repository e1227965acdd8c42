"""How the HTTP server listens and what it lets a peer do: settings only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The HTTP server. All its routes only read."""

    listen_addresses: tuple[str, ...] = (":10779",)
    """HOST:PORT each; without a host every address, IPv6 and IPv4. One that cannot be had ends the start-up."""

    telemetry_path: str = "/metrics"
    """Where the metrics are."""

    config_file: str | None = None
    """TLS, users and headers, in the format all Prometheus exporters share; re-read when it changes."""

    max_connections: int = 512
    """Open connections; when all are taken a newcomer gets the place of the longest idle one."""

    header_timeout_s: float = 5.0
    """Time a peer has for connecting, a TLS handshake and a whole request."""

    send_timeout_s: float = 10.0
    """Time a peer has for taking the answer."""

    idle_timeout_s: float = 120.0
    """Time a connection may rest between two requests; longer than a scrape interval spares handshakes."""
