"""Log lines about one database: when its trouble starts, when the reason changes, and when it is over.

A reason is told once per trouble, and trouble is over only when it has stayed away for a while, so that a connection
that comes and goes cannot fill the log.
"""

from __future__ import annotations

from typing import Final

import structlog

from ctctl.model.instant import Instant
from ctctl.model.ovn import OvnDatabase

MAX_REASONS: Final = 8
"""Reasons told per trouble; some contain what differs each time, and then the first few say it all."""

CALM_S: Final = 30.0
"""Seconds without a loss after which trouble is over."""


class TroubleLog:
    """Not for several threads at once. `module`: the logger's name."""

    def __init__(self, module: str, database: OvnDatabase) -> None:
        self._log = structlog.get_logger(module)
        self._database = database.value
        self._reasons: set[str] = set()
        self._calm_since: Instant | None = None
        self._was_ever_read = False

    def lost(self, why: str, *, is_configured: bool) -> None:
        """The database cannot be read, because of `why`."""
        self._calm_since = None
        if why in self._reasons or len(self._reasons) >= MAX_REASONS:
            return
        if not is_configured:
            self._log.info("database not followed", database=self._database, why=why)
        elif self._reasons:
            self._log.warning("database still lost", database=self._database, why=why)
        else:
            self._log.warning("database lost", database=self._database, why=why)
        self._reasons.add(why)

    def confirmed(self, at: Instant) -> None:
        """The database was read or answered at `at`."""
        if not self._was_ever_read:
            self._was_ever_read = True
            self._log.info("database followed", database=self._database)
        if not self._reasons:
            return
        if self._calm_since is None:
            self._calm_since = at
        elif at.since(self._calm_since) >= CALM_S:
            self._reasons.clear()
            self._log.info("database followed without trouble again", database=self._database, calm_s=round(CALM_S))
