"""The web configuration in force: read at start, read again when it or a file it names changes.

At start a bad file is an error. Later the last good one stays in force, so that a half-written file neither opens
nor closes the server; the failure is logged once and exported.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from ctctl.errors import ConfigError, CtctlError
from ctctl.metrics.tls import server_context
from ctctl.metrics.web_config import WebConfig, parse_web_config

log: Final[FilteringBoundLogger] = structlog.get_logger("ctctl.metrics")

Load = Callable[[str], object]
"""Reads a YAML file into plain values; raises ConfigError or OSError."""

Stamps = tuple[tuple[str, int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class WebAccess:
    """What is in force: the configuration and the TLS context made of it (None: plain HTTP)."""

    config: WebConfig
    context: ssl.SSLContext | None


OPEN_ACCESS: Final = WebAccess(WebConfig(), None)
"""Without a configuration file: plain HTTP for everyone."""


def _stamp(path: str) -> tuple[str, int, int, int] | None:
    """What changes when the file does, also when a symbolic link is set to another file; None when unreadable."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return path, status.st_mtime_ns, status.st_ino, status.st_size


class WebConfigFile:
    """One web configuration file. `refresh` is called from one thread at a time, `access` from any.

    Raises:
        ConfigError: the file, or a certificate it names, cannot be read or used.
    """

    def __init__(self, path: str, load: Load) -> None:
        self._path = path
        self._load = load
        self._failure = ""
        self.access = self._read()
        self._stamps = self._stamps_now()
        # Read once more: what was just stamped may be newer than what was read.
        self.access = self._read()

    @property
    def is_last_read_good(self) -> bool:
        """Claims that what is in force is what the files say."""
        return not self._failure

    def refresh(self) -> bool:
        """Read again if a file has changed; True when other access is in force now."""
        stamps = self._stamps_now()
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        try:
            self.access = self._read()
        except CtctlError as error:
            if str(error) != self._failure:
                log.warning("web_config_unusable", error=str(error), consequence="the last good one stays in force")
            self._failure = str(error)
            return False
        # Where other files are named now, the next look finds their stamps unknown and reads once more.
        self._failure = ""
        log.info("web_config_read", path=self._path)
        return True

    def _read(self) -> WebAccess:
        try:
            content = self._load(self._path)
        except OSError as error:
            raise ConfigError(
                f"cannot read web configuration {self._path}: {error.strerror or error}",
                remedy="see --web.config.file or web.config_file",
            ) from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"web configuration {self._path} is not UTF-8 text: {error.reason}") from error
        config = parse_web_config(content, self._path)
        tls = config.tls_server_config
        return WebAccess(config, None if tls is None else server_context(tls))

    def _stamps_now(self) -> Stamps:
        tls = self.access.config.tls_server_config
        return tuple(_stamp(path) for path in (self._path, *(tls.files if tls else ())))
