"""Re-reads `flush:` of the configuration file, so that a tighter switch acts without a restart.

By content and once a second: a file that a ConfigMap delivers changes through a symlink, without any event on it.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import structlog

from ctctl.config.flush import FlushSettings
from ctctl.config.settings import load
from ctctl.errors import ConfigError
from ctctl.model.events import PolicyChanged
from ctctl.sources.source import Report

INTERVAL_S: Final = 1.0

_log = structlog.get_logger("ctctl.policy")


class PolicySource:
    """Reports `PolicyChanged` when the section's content changes. A broken file changes nothing, and is logged."""

    name = "policy"

    def __init__(self, path: Path, current: FlushSettings, report: Report) -> None:
        self._path = path
        self._current = current
        self._report = report
        self._complaint = ""
        self._stop = threading.Event()

    def run(self) -> None:
        """Watch until stopped."""
        while not self._stop.wait(INTERVAL_S):
            self.look()

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()

    def look(self) -> None:
        """Read the file once."""
        try:
            settings = load(self._path).flush
        except ConfigError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                _log.warning("configuration not re-read; the last good flush policy stays", why=str(error))
            return
        self._complaint = ""
        if settings != self._current:
            self._current = settings
            _log.info("flush policy re-read", switch=settings.switch.value)
            self._report(PolicyChanged(settings.policy()))
