"""Logging: one event, one line, on standard error; key=value or JSON."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from typing import TextIO, cast

import structlog

from ctctl.config.log import LogFormat, LogSettings


class _Forgiving(io.TextIOBase):
    """A stream whose writes never fail: a full disk or a closed pipe must not end the agent."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def configure(settings: LogSettings) -> None:
    """Set up the process's logging; libraries that use the standard logger are shown from warning on."""
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if settings.format is LogFormat.LOGFMT:
        renderer = structlog.processors.LogfmtRenderer(key_order=["time", "level", "event"])
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", _Forgiving(sys.stderr))),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="level=warning logger=%(name)s %(message)s")
