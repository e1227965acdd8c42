"""Re-reads `flush:` of the configuration file, so that a tighter switch acts without a restart, and the requests file.

By content and once a second: a file that a ConfigMap delivers changes through a symlink, without any event on it.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import structlog

from ctctl.config.flush import FlushSettings
from ctctl.config.requests import load_requests
from ctctl.config.settings import load
from ctctl.errors import ConfigError
from ctctl.model.events import PolicyChanged, RequestsRead
from ctctl.model.request import FlushRequest
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
        self._seen: dict[Path, bytes | str] = {}
        self._requests: tuple[FlushRequest, ...] = ()
        self._stop = threading.Event()

    def run(self) -> None:
        """Watch until stopped."""
        self._look_at_requests()
        while not self._stop.wait(INTERVAL_S):
            self.look()

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()

    def look(self) -> None:
        """Read both files once."""
        self._look_at_policy()
        self._look_at_requests()

    def _look_at_policy(self) -> None:
        if not self._has_changed(self._path):
            return
        try:
            settings = load(self._path).flush
        except ConfigError as error:
            _log.warning("configuration not re-read; the last good flush policy stays", why=str(error))
            return
        if settings != self._current:
            self._current = settings
            _log.info("flush policy re-read", switch=settings.switch.value)
            self._report(PolicyChanged(settings.policy()))

    def _look_at_requests(self) -> None:
        if self._current.requests_file is None:
            requests: tuple[FlushRequest, ...] = ()
            self._seen = {path: content for path, content in self._seen.items() if path == self._path}
        else:
            path = Path(self._current.requests_file)
            if not self._has_changed(path):
                return
            try:
                requests = load_requests(path)
            except ConfigError as error:
                _log.warning("flush requests not re-read; the last good ones stay", why=str(error))
                return
        if requests != self._requests:
            self._requests = requests
            _log.info("flush requests read", requests=len(requests))
            self._report(RequestsRead(requests))

    def _has_changed(self, path: Path) -> bool:
        """Claims that the file, or why it cannot be read, is not what it was at the last look."""
        try:
            content: bytes | str = path.read_bytes()
        except OSError as error:
            content = str(error)
        has_changed = self._seen.get(path) != content
        self._seen[path] = content
        return has_changed
