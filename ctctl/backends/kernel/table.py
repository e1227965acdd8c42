"""What the kernel says about its conntrack table beside the entries: settings under /proc/sys, and what it can do."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from ctctl.clients.netlink import NETLINK_NETFILTER, KernelRefusedError, NetlinkSocket
from ctctl.errors import UnavailableError
from ctctl.model.counts import TableStats
from ctctl.wire import conntrack

BUCKETS_PATH: Final = "/proc/sys/net/netfilter/nf_conntrack_buckets"
TIMESTAMP_PATH: Final = "/proc/sys/net/netfilter/nf_conntrack_timestamp"
TIMEOUT_S: Final = 5.0
"""For answers that take microseconds, unless a flush holds the kernel's one ctnetlink mutex."""


def setting(path: str) -> int | None:
    """A numeric kernel setting of this thread's network namespace, None where it cannot be read."""
    try:
        return int(Path(path).read_bytes())
    except (OSError, ValueError):
        return None


def read_stats(kernel: NetlinkSocket) -> TableStats:
    """Exact size and limit of the table.

    Raises:
        UnavailableError: this kernel has no ctnetlink (it answers EINVAL), or no permission.
        CtctlError: another answer than the one asked for.
    """
    seq = kernel.next_seq()
    kernel.send(conntrack.stats_request(seq))
    try:
        replies = list(kernel.answers(seq, "reading conntrack statistics"))
    except KernelRefusedError as error:
        if error.number not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        raise UnavailableError(
            "this kernel does not answer conntrack requests", remedy="load the module nf_conntrack_netlink"
        ) from error
    if not replies:
        raise UnavailableError("the kernel acknowledged a request for conntrack statistics without giving any")
    return conntrack.table_stats(replies[0])


def entries_now() -> int:
    """Entries in the table, exactly, in microseconds.

    Raises:
        CtctlError: see `read_stats`.
    """
    with NetlinkSocket(NETLINK_NETFILTER, timeout_s=TIMEOUT_S) as kernel:
        return read_stats(kernel).entries


def filters_by_zone() -> bool:
    """Whether CTA_ZONE limits a dump or flush on this kernel (Linux ≥ 6.8, or a backport).

    Asks with a control, because a kernel without ctnetlink refuses everything with the same error. Changes nothing.

    Raises:
        CtctlError: neither answer was had, so nothing is known.
    """
    with NetlinkSocket(NETLINK_NETFILTER, timeout_s=TIMEOUT_S) as kernel:
        read_stats(kernel)
    return _refuses_probe(with_zone=True) and not _refuses_probe(with_zone=False)


def _refuses_probe(*, with_zone: bool) -> bool:
    """Whether the probe is refused with EINVAL. Where it is not, a dump has begun, which ends with the socket."""
    with NetlinkSocket(NETLINK_NETFILTER, timeout_s=TIMEOUT_S) as kernel:
        seq = kernel.next_seq()
        kernel.send(conntrack.filter_probe_request(seq, with_zone=with_zone))
        try:
            next(kernel.answers(seq, "probing the conntrack zone filter"), None)
        except KernelRefusedError as error:
            if error.number == errno.EINVAL:
                return True
            raise
        return False
