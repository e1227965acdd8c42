"""What an error means for a flush: its place in the closed list of reasons that metrics and alerts know."""

from __future__ import annotations

from typing import Final

from ctctl.clients.netlink import InterruptedDumpError, OverrunError, TruncatedError
from ctctl.errors import CtctlError, PermissionDeniedError, ProtocolError, TimedOutError, UnavailableError
from ctctl.model.counts import CountIncompleteError, IncompleteReason
from ctctl.model.flush import FailureReason, FlushFailure
from ctctl.model.ids import FlushableZoneId

_REASONS: Final[tuple[tuple[type[CtctlError], FailureReason], ...]] = (
    (PermissionDeniedError, FailureReason.PERMISSION),
    (TimedOutError, FailureReason.TIMEOUT),
    (UnavailableError, FailureReason.UNAVAILABLE),
    (OverrunError, FailureReason.OVERRUN),
    (TruncatedError, FailureReason.MALFORMED),
    (InterruptedDumpError, FailureReason.INTERRUPTED),
    (ProtocolError, FailureReason.MALFORMED),
)
"""The first that fits counts; subclasses stand before their bases."""

_DUMP_REASONS: Final = {
    IncompleteReason.PERMISSION: FailureReason.PERMISSION,
    IncompleteReason.UNAVAILABLE: FailureReason.UNAVAILABLE,
    IncompleteReason.TIMEOUT: FailureReason.TIMEOUT,
    IncompleteReason.STOPPED: FailureReason.TIMEOUT,  # a flush's dump is stopped only when its time is up
    IncompleteReason.MALFORMED: FailureReason.MALFORMED,
    IncompleteReason.KERNEL_ERROR: FailureReason.KERNEL_ERROR,
}
"""The others leave a dump that missed something."""


def failure(zone: FlushableZoneId, error: CtctlError, deleted: int = 0, already_gone: int = 0) -> FlushFailure:
    """The outcome of a flush of `zone` that ended with `error`."""
    if isinstance(error, CountIncompleteError):
        reason = _DUMP_REASONS.get(error.reason, FailureReason.INCOMPLETE_DUMP)
    else:
        reason = next((reason for kind, reason in _REASONS if isinstance(error, kind)), FailureReason.KERNEL_ERROR)
    return FlushFailure(zone, reason, str(error), deleted, already_gone)
