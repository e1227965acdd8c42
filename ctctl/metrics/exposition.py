"""The exposition as bytes: format and compression the client asked for, made in a thread, shared by who comes along.

Scrapes that arrive while an equal one is being made get that one; they start no second.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from ctctl.metrics.shared_work import SharedWork

_GZIP_LEVEL: Final = 4


class Format(Enum):
    """The two text formats, by their content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Exposition:
    """One scrape's answer. `encoding`: "gzip", or "" for none."""

    content_type: str
    encoding: str
    body: bytes


def _weighted(header: str) -> list[tuple[str, dict[str, str], float]]:
    """The elements of an Accept-like header: (value, parameters, q), lower-cased; q is 1 where it is missing or bad."""
    elements = []
    for element in header.lower().split(","):
        value, *rest = (part.strip() for part in element.split(";"))
        parameters = dict(pair.split("=", 1) for pair in rest if "=" in pair)
        try:
            weight = float(parameters.pop("q", "1"))
        except ValueError:
            weight = 1.0
        elements.append((value, parameters, weight))
    return elements


def negotiate(accept: str) -> Format:
    """OpenMetrics where the client prefers a version of it that is served here, the classic text format otherwise."""
    openmetrics, text = 0.0, 0.0
    for value, parameters, weight in _weighted(accept):
        if value == "application/openmetrics-text" and parameters.get("version", "1.0.0") in ("1.0.0", "0.0.1"):
            openmetrics = max(openmetrics, weight)
        elif value in ("text/plain", "text/*", "*/*", "") and parameters.get("version", "0.0.4") == "0.0.4":
            text = max(text, weight)
    return Format.OPENMETRICS if openmetrics > 0 and openmetrics >= text else Format.TEXT


def accepts_gzip(accept_encoding: str) -> bool:
    """Claims that the client takes gzip."""
    return any(value == "gzip" and weight > 0 for value, _, weight in _weighted(accept_encoding))


class Exposer:
    """Makes expositions of one registry. `get` belongs to one event loop; collecting happens in one worker thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._work: SharedWork[tuple[Format, bool], Exposition] = SharedWork("ctctl-exposition")

    async def get(self, accept: str, accept_encoding: str, timeout_s: float) -> Exposition:
        """The exposition as asked for, begun at most one generation ago.

        Raises:
            TimeoutError: it was not ready within `timeout_s`; making it goes on for the next one who asks.
        """
        wanted, is_gzip = negotiate(accept), accepts_gzip(accept_encoding)
        return await self._work.get((wanted, is_gzip), lambda: self._make(wanted, is_gzip), timeout_s)

    def close(self) -> None:
        """Begin no more; what is under way ends by itself."""
        self._work.close()

    def _make(self, wanted: Format, is_gzip: bool) -> Exposition:
        make: Callable[[CollectorRegistry], bytes] = (
            generate_openmetrics if wanted is Format.OPENMETRICS else generate_latest
        )
        body = make(self._registry)
        if is_gzip:
            return Exposition(wanted.value, "gzip", gzip.compress(body, compresslevel=_GZIP_LEVEL, mtime=0))
        return Exposition(wanted.value, "", body)
