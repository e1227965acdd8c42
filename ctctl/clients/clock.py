"""The one clock of the agent."""

from __future__ import annotations

import time

from ctctl.model.instant import Instant


def now() -> Instant:
    """The present instant, on CLOCK_BOOTTIME and on the wall clock."""
    return Instant(boot_s=time.clock_gettime(time.CLOCK_BOOTTIME), wall_s=time.time())


def thread_cpu_s() -> float:
    """CPU seconds that the calling thread has used."""
    return time.thread_time()
