"""One unfiltered dump of the whole table, block by block, and whether it can be believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ctctl.backends.kernel.table import BUCKETS_PATH, setting
from ctctl.backends.protocol import CountIncompleteError
from ctctl.clients.netlink import (
    NETLINK_NETFILTER,
    RECEIVE_BYTES,
    InterruptedDumpError,
    NetlinkSocket,
    OverrunError,
    TruncatedError,
    from_kernel,
)
from ctctl.errors import CtctlError, PermissionDeniedError, ProtocolError, TimedOutError
from ctctl.model.counts import IncompleteReason
from ctctl.wire import conntrack
from ctctl.wire.conntrack_walk import DumpWalk, OnEntry

MAX_ATTEMPTS: Final = 3
TIMEOUT_S: Final = 10.0
"""For one block of at most 32 KiB, which takes the kernel less than a millisecond."""

_WORTH_REPEATING: Final = frozenset(
    {IncompleteReason.INTERRUPTED, IncompleteReason.TABLE_RESIZED, IncompleteReason.OVERRUN}
)

ShouldStop = Callable[[], bool]


def read_table(on_entry: OnEntry, should_stop: ShouldStop, *, is_enough: ShouldStop | None = None) -> bool:
    """Dump the table once and hand every entry to `on_entry`. Returns whether `is_enough()` ended it early.

    Raises:
        CountIncompleteError: what was handed over is not the whole table, and why.
    """
    buckets = setting(BUCKETS_PATH)
    try:
        ended_early = _read_blocks(on_entry, should_stop, is_enough)
    except CtctlError as error:
        raise incomplete(error) from error
    if setting(BUCKETS_PATH) != buckets:
        raise CountIncompleteError(
            IncompleteReason.TABLE_RESIZED,
            "conntrack's hash table was resized during the dump, which then misses or repeats entries unmarked",
        )
    return ended_early


def is_worth_repeating(error: CountIncompleteError) -> bool:
    """Claims that the next attempt may well succeed."""
    return error.reason in _WORTH_REPEATING


def incomplete(error: CtctlError) -> CountIncompleteError:
    """The reason a dump failed for, as one of the closed list."""
    if isinstance(error, CountIncompleteError):
        return error
    reason = IncompleteReason.KERNEL_ERROR
    for kind, its_reason in (
        (PermissionDeniedError, IncompleteReason.PERMISSION),
        (TimedOutError, IncompleteReason.TIMEOUT),
        (InterruptedDumpError, IncompleteReason.INTERRUPTED),
        (OverrunError, IncompleteReason.OVERRUN),
        (TruncatedError, IncompleteReason.OVERRUN),
        (ProtocolError, IncompleteReason.MALFORMED),
    ):
        if isinstance(error, kind):
            reason = its_reason
            break
    return CountIncompleteError(reason, error.what, remedy=error.remedy)


def _read_blocks(on_entry: OnEntry, should_stop: ShouldStop, is_enough: ShouldStop | None) -> bool:
    with NetlinkSocket(NETLINK_NETFILTER, timeout_s=TIMEOUT_S) as kernel:
        seq = kernel.next_seq()
        walk = DumpWalk(seq, kernel.portid, on_entry)
        buffer = bytearray(RECEIVE_BYTES)
        kernel.send(conntrack.dump_request(seq))
        while not walk.feed(buffer, kernel.receive_into(buffer)):
            if should_stop():
                raise CountIncompleteError(IncompleteReason.STOPPED, "the dump was stopped on request")
            if is_enough is not None and is_enough():
                return True
    if walk.error_number:
        raise from_kernel(walk.error_number, "dumping the conntrack table")
    if walk.is_interrupted:
        raise InterruptedDumpError("dumping the conntrack table: the kernel says that it changed underneath")
    if walk.is_overrun:
        raise OverrunError("dumping the conntrack table: the kernel reports lost answers")
    return False
