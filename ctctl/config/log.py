"""The `log:` section."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LogLevel(StrEnum):
    """Least severe level that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line looks."""

    LOGFMT = "logfmt"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Logging, on standard error."""

    level: LogLevel = LogLevel.INFO
    """Least severe level that is written."""

    format: LogFormat = LogFormat.LOGFMT
    """logfmt (time, level, text, key=value) or json."""
