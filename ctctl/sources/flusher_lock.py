"""Keeps trying for the flusher lock, so that the next agent takes over when this host's flusher ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from ctctl.clients.flusher_lock import FlusherLock
from ctctl.model.events import FlusherLockChanged
from ctctl.sources.source import Report

RETRY_S: Final = 1.0


class FlusherLockSource:
    """Reports `FlusherLockChanged` when the lock is taken, and once when somebody else has it."""

    name = "flusher-lock"

    def __init__(self, report: Report, prepare: Callable[[], None]) -> None:
        """`prepare`: run once the lock is held and before that is reported."""
        self._report = report
        self._prepare = prepare
        self._lock = FlusherLock()
        self._stop = threading.Event()

    def run(self) -> None:
        """Try until it is held or `stop` is called; it is kept until then."""
        is_reported = False
        while not self._lock.acquire():
            if not is_reported:
                self._report(FlusherLockChanged(is_held=False))
                is_reported = True
            if self._stop.wait(RETRY_S):
                return
        self._prepare()
        self._report(FlusherLockChanged(is_held=True))
        self._stop.wait()
        self._lock.release()

    def stop(self) -> None:
        """End `run` and let another agent have the lock."""
        self._stop.set()
