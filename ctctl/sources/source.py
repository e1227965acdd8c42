"""What every source offers the agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ctctl.model.events import Event
from ctctl.model.instant import Instant

Report = Callable[[Event], None]
"""Hands an event to the control loop. Never blocks, may be called from any thread."""

Clock = Callable[[], Instant]


class Source(Protocol):
    """One thread's worth of watching."""

    @property
    def name(self) -> str:
        """The thread's name, as it appears in logs."""
        ...

    def run(self) -> None:
        """Watch and report until `stop` is called. An exception that leaves it ends the agent."""
        ...

    def stop(self) -> None:
        """Make `run` return within a second; may be called from any thread, also before `run`."""
        ...
