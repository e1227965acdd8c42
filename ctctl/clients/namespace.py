"""Is a daemon's control socket in this thread's network namespace? Answers without access to the daemon's /proc.

A path proves nothing: it comes from a mount, and every namespace that sees the mount sees it. The kernel's list of
listening unix sockets is per network namespace and names the file each is bound to.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctctl.clients.netlink import NETLINK_SOCK_DIAG, NetlinkSocket
from ctctl.errors import CtctlError
from ctctl.wire import sock_diag
from ctctl.wire.sock_diag import FileIdentity

TIMEOUT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Presence:
    """Whether the socket listens here; None when that cannot be told. `why` is one line."""

    is_here: bool | None
    why: str


def listens_here(path: str) -> bool | None:
    """Whether the unix socket at `path` listens in this thread's network namespace; None: cannot tell."""
    return presence(path).is_here


def presence(path: str) -> Presence:
    """As `listens_here`, with the reason. Never raises for what a host can look like."""
    try:
        status = Path(path).stat()
    except OSError as error:
        return Presence(None, f"cannot look at {path}: {error.strerror}")
    if not stat.S_ISSOCK(status.st_mode):
        return Presence(None, f"{path} is not a socket")
    wanted = FileIdentity(
        inode=status.st_ino & 0xFFFFFFFF,
        device=os.major(status.st_dev) << 20 | os.minor(status.st_dev),
    )
    try:
        listening = _listening_files()
    except CtctlError as error:
        return Presence(None, f"cannot list listening unix sockets: {error}")
    if wanted in listening:
        return Presence(is_here=True, why=f"{path} listens in this network namespace")
    if any(file.inode == wanted.inode for file in listening):
        return Presence(None, f"{path} and a listening socket have equal inode numbers on different devices")
    return Presence(is_here=False, why=f"nothing in this network namespace listens on {path}")


def _listening_files() -> frozenset[FileIdentity]:
    with NetlinkSocket(NETLINK_SOCK_DIAG, timeout_s=TIMEOUT_S) as kernel:
        seq = kernel.next_seq()
        kernel.send(sock_diag.listeners_request(seq))
        found = [sock_diag.listener(reply) for reply in kernel.answers(seq, "listing unix sockets")]
    return frozenset(file for file in found if file is not None)
