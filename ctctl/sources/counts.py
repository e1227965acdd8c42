"""Counting the table on a timer and on demand, within a share of one core, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from ctctl.clients import clock
from ctctl.model.counts import CountIncompleteError, CountPass, IncompleteReason, Keep
from ctctl.model.events import CountFailed, CountFinished
from ctctl.model.instant import Instant
from ctctl.sources.source import Clock, Report

MAX_CREDIT_S: Final = 5.0
"""Unused counting time that can be saved up: enough for a few passes in a row over a table of a million entries."""

GAP_S: Final = 0.2
"""Rest after each pass: verdicts of routers created in a row share one, and flushes find the kernel's lock free."""

RESERVE_S: Final = 2.5
"""Regular passes leave this much unspent, so that a verdict does not have to wait for its pass."""

_RETRY_AFTER_FAILURE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class CountSettings:
    """How often the conntrack table is counted."""

    interval_s: float = 15.0
    """Time between two regular passes; it stretches when the table is so large that `max_cpu_ratio` asks."""

    max_cpu_ratio: float = 0.02
    """Share of one core that all passes together may use, verification passes included."""

    def __post_init__(self) -> None:
        if self.interval_s <= 0:
            raise ValueError("interval must be positive")
        if not 0 < self.max_cpu_ratio <= 1:
            raise ValueError("max_cpu_ratio must be above 0 and at most 1")


class Counter(Protocol):
    """What this source needs of a conntrack table."""

    def count(self, should_stop: Callable[[], bool], keep: Keep) -> CountPass:
        """One pass over the whole table; raises CountIncompleteError when none could be had."""
        ...


class Allowance:
    """CPU time saved up and spent: `ratio` seconds are earned per second, a pass costs what it used."""

    def __init__(self, ratio: float, now: Instant) -> None:
        self._ratio = ratio
        self._credit_s = MAX_CREDIT_S
        self._at = now

    def spend(self, seconds: float, now: Instant) -> None:
        """Pay for a pass that ended now. The balance may become negative."""
        self._accrue(now)
        self._credit_s -= seconds

    def wait_s(self, now: Instant, above_s: float = 0.0) -> float:
        """Seconds until the balance is above `above_s`; 0 when it is."""
        self._accrue(now)
        return 0.0 if self._credit_s > above_s else (above_s - self._credit_s) / self._ratio

    def _accrue(self, now: Instant) -> None:
        self._credit_s = min(MAX_CREDIT_S, self._credit_s + now.since(self._at) * self._ratio)
        self._at = now


class CountSource:
    """Reports `CountFinished` or `CountFailed` after each pass.

    `keep`: which entries a pass keeps for comparison; replaced whole, by any thread, read when a pass starts.
    """

    name = "counts"

    def __init__(self, settings: CountSettings, reader: Counter, report: Report, clock: Clock) -> None:
        self._settings = settings
        self._reader = reader
        self._report = report
        self._clock = clock
        self.keep = Keep()
        self._wake = threading.Event()
        self._stop = threading.Event()

    def request(self) -> None:
        """Count as soon as the allowance permits; from any thread. Requests made before a pass starts share it."""
        self._wake.set()

    def run(self) -> None:
        """Count until stopped."""
        allowance = Allowance(self._settings.max_cpu_ratio, self._clock())
        while not self._stop.is_set():
            self._wake.clear()
            pause_s = self._pass(allowance)
            self._stop.wait(timeout=GAP_S)
            self._wake.wait(timeout=max(pause_s, allowance.wait_s(self._clock(), RESERVE_S)))
            self._stop.wait(timeout=allowance.wait_s(self._clock()))

    def stop(self) -> None:
        """End `run`, also in the middle of a pass."""
        self._stop.set()
        self._wake.set()

    def _pass(self, allowance: Allowance) -> float:
        """Count once. Returns how long to wait before the next regular pass, in seconds."""
        begun_s = clock.thread_cpu_s()
        should_stop: Callable[[], bool] = self._stop.is_set
        try:
            finished = self._reader.count(should_stop, self.keep)
        except CountIncompleteError as error:
            ended = self._clock()
            allowance.spend(clock.thread_cpu_s() - begun_s, ended)
            if error.reason is not IncompleteReason.STOPPED:
                self._report(CountFailed(error.reason, str(error), ended))
            return max(_RETRY_AFTER_FAILURE_S, self._settings.interval_s)
        cpu_s = clock.thread_cpu_s() - begun_s
        allowance.spend(cpu_s, self._clock())
        self._report(CountFinished(finished, cpu_s))
        return self._settings.interval_s
