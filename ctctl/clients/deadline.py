"""Waiting on one socket until a deadline, interruptible, so that no peer can hang a thread."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Final, Protocol

from ctctl.errors import TimedOutError, UnavailableError

_SLICE_S: Final = 0.2
"""How long a stop may go unnoticed while a peer is silent, in seconds."""


class StoppedError(UnavailableError):
    """The wait was given up because the agent is stopping, not because of the peer."""


class _Descriptor(Protocol):
    def fileno(self) -> int: ...


def never() -> bool:
    """For callers that cannot be interrupted."""
    return False


class Deadline:
    """The moment by which a whole exchange must be over, whatever its number of steps."""

    def __init__(self, timeout_s: float, should_stop: Callable[[], bool] = never) -> None:
        self._timeout_s = timeout_s
        self._end_s = time.monotonic() + timeout_s
        self._should_stop = should_stop

    def share(self, steps: int) -> Deadline:
        """A deadline for the first of so many steps, which leaves the others their part of the time."""
        return Deadline(self.remaining_s() / steps, self._should_stop)

    @property
    def timeout_s(self) -> float:
        """Seconds that the exchange had in all."""
        return self._timeout_s

    def remaining_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end_s - time.monotonic())

    def wait_for(self, descriptor: _Descriptor, events: int, what: str) -> None:
        """Return once one of the poll `events`, or an error, is there.

        Raises:
            TimedOutError: the deadline passed first; `what` says what was awaited.
            StoppedError: the caller is to stop.
        """
        poller = select.poll()
        poller.register(descriptor.fileno(), events)
        while not poller.poll(min(self.remaining_s(), _SLICE_S) * 1000):
            self.check(what)

    def check(self, what: str) -> None:
        """Raise as `wait_for` does when there is no time left."""
        if self._should_stop():
            raise StoppedError(f"stopped while {what}")
        if self.remaining_s() == 0.0:
            raise TimedOutError(f"{what}: no answer within {self._timeout_s:g} s")
