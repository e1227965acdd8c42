"""One unfiltered dump of the whole table, block by block, and whether it can be believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ctctl.backends.kernel.table import BUCKETS_PATH, setting
from ctctl.clients.netlink import (
    NETLINK_NETFILTER,
    RECEIVE_BYTES,
    InterruptedDumpError,
    NetlinkSocket,
    OverrunError,
    TruncatedError,
    from_kernel,
)
from ctctl.errors import CtctlError, PermissionDeniedError, ProtocolError, TimedOutError, UnavailableError
from ctctl.model.counts import CountIncompleteError, IncompleteReason
from ctctl.wire import conntrack
from ctctl.wire.conntrack_walk import DumpEnd

MAX_ATTEMPTS: Final = 3
TIMEOUT_S: Final = 10.0
"""For one block of at most 32 KiB, which takes the kernel less than a millisecond."""

_WORTH_REPEATING: Final = frozenset(
    {IncompleteReason.INTERRUPTED, IncompleteReason.TABLE_RESIZED, IncompleteReason.OVERRUN}
)
_REASONS: Final[tuple[tuple[type[CtctlError], IncompleteReason], ...]] = (
    (PermissionDeniedError, IncompleteReason.PERMISSION),
    (TimedOutError, IncompleteReason.TIMEOUT),
    (UnavailableError, IncompleteReason.UNAVAILABLE),
    (InterruptedDumpError, IncompleteReason.INTERRUPTED),
    (OverrunError, IncompleteReason.OVERRUN),
    (TruncatedError, IncompleteReason.MALFORMED),
    (ProtocolError, IncompleteReason.MALFORMED),
)
"""The first that fits counts; subclasses stand before their bases."""

ShouldStop = Callable[[], bool]


class Sink(Protocol):
    """What takes the blocks of a dump."""

    def begin(self, seq: int, portid: int) -> None:
        """A dump with this sequence number and port id begins; whatever was taken before is void."""
        ...

    def feed(self, block: bytearray, end: int) -> DumpEnd | None:
        """Take `block[:end]`; returns how the dump ended once it has."""
        ...

    def is_enough(self) -> bool:
        """Claims that the rest of the dump is not needed."""
        ...


def read_table(sink: Sink, should_stop: ShouldStop) -> tuple[bool, int]:
    """Dump the table into `sink`, again where that may help.

    Returns whether the dump came to its end (otherwise the sink had enough), and how many attempts it took.

    Raises:
        CountIncompleteError: what the sink was given is not the whole table, and why.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            return _read_once(sink, should_stop), attempt
        except CountIncompleteError as error:
            if attempt >= MAX_ATTEMPTS or error.reason not in _WORTH_REPEATING:
                raise


def incomplete(error: CtctlError) -> CountIncompleteError:
    """The error that ended a pass, as one of the closed list of reasons."""
    reason = next((reason for kind, reason in _REASONS if isinstance(error, kind)), IncompleteReason.KERNEL_ERROR)
    return CountIncompleteError(reason, error.what, remedy=error.remedy)


def _read_once(sink: Sink, should_stop: ShouldStop) -> bool:
    buckets = setting(BUCKETS_PATH)
    try:
        is_whole = _read_blocks(sink, should_stop)
    except CountIncompleteError:
        raise
    except CtctlError as error:
        raise incomplete(error) from error
    if setting(BUCKETS_PATH) != buckets:
        raise CountIncompleteError(
            IncompleteReason.TABLE_RESIZED,
            "conntrack's hash table was resized during the dump, which then misses or repeats entries unmarked",
        )
    return is_whole


def _read_blocks(sink: Sink, should_stop: ShouldStop) -> bool:
    with NetlinkSocket(NETLINK_NETFILTER, timeout_s=TIMEOUT_S) as kernel:
        seq = kernel.next_seq()
        sink.begin(seq, kernel.portid)
        buffer = bytearray(RECEIVE_BYTES)
        kernel.send(conntrack.dump_request(seq))
        while (end := sink.feed(buffer, kernel.receive_into(buffer))) is None:
            if should_stop():
                raise CountIncompleteError(IncompleteReason.STOPPED, "the dump was stopped on request")
            if sink.is_enough():
                return False
    if end.error_number:
        raise from_kernel(end.error_number, "dumping the conntrack table")
    if end.is_interrupted:
        raise InterruptedDumpError("dumping the conntrack table: the kernel says that it changed underneath")
    if end.is_overrun:
        raise OverrunError("dumping the conntrack table: the kernel reports lost answers")
    return True
