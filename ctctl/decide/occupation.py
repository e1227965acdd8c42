"""What a thread was doing while it stalled, from the CPU time it used and what the scheduler says about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ctctl.model.daemon import ThreadSample, ThreadState
from ctctl.model.stalls import LongPoll, Occupation

MOSTLY: Final = 0.5
"""The share of a stall from which on something is what the thread was doing."""


def occupation(
    poll: LongPoll | None,
    first: ThreadSample | None,
    last: ThreadSample | None,
    states: Mapping[ThreadState, int],
) -> Occupation:
    """What kept the thread: the daemon's own figures say whether it used the CPU, /proc says why it did not.

    `first`, `last`: the thread at the probe and as last seen; `states`: how often it was seen in each state between.
    """
    if poll is not None and (busy := _work(poll.user_s, poll.system_s, poll.duration_s)) is not None:
        return busy
    if first is None or last is None or not states or last.at.since(first.at) <= 0:
        return Occupation.UNKNOWN if poll is None else Occupation.OFF_CPU
    elapsed_s = last.at.since(first.at)
    if poll is None and (busy := _work(last.user_s - first.user_s, last.system_s - first.system_s, elapsed_s)):
        return busy
    if (last.waiting_s or 0.0) - (first.waiting_s or 0.0) >= MOSTLY * elapsed_s:
        return Occupation.STARVED
    match max(states, key=lambda state: states[state]):
        case ThreadState.STOPPED:
            return Occupation.STOPPED
        case ThreadState.SLEEPING | ThreadState.UNINTERRUPTIBLE:
            return Occupation.BLOCKED
        case ThreadState.RUNNING:  # ready all the time, and yet without CPU time
            return Occupation.STARVED
        case _:
            return Occupation.OFF_CPU


def _work(user_s: float, system_s: float, elapsed_s: float) -> Occupation | None:
    if user_s + system_s < MOSTLY * elapsed_s:
        return None
    return Occupation.KERNEL_WORK if system_s >= user_s else Occupation.USER_WORK
