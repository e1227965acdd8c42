"""UNIX_DIAG: which unix sockets listen in the network namespace that answers ⇄ bytes.

Source: the kernel's include/uapi/linux/unix_diag.h and net/unix/diag.c (Linux ≥ 3.3).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from ctctl.wire import netlink
from ctctl.wire.netlink import MalformedMessageError, Message

SOCK_DIAG_BY_FAMILY: Final = 20
AF_UNIX: Final = 1
TCP_LISTEN: Final = 10
UDIAG_SHOW_VFS: Final = 0x2
UNIX_DIAG_VFS: Final = 1

_REQUEST: Final = struct.Struct("=BBxxIIIII")
"""struct unix_diag_req: family, protocol, states, inode, show, cookie[2]."""
_REPLY: Final = struct.Struct("=BBBxIII")
"""struct unix_diag_msg: family, type, state, inode, cookie[2]."""
_VFS: Final = struct.Struct("=II")
"""struct unix_diag_vfs: inode, device."""


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """A file as unix_diag names it: the lower 32 bits of its inode number, and `major << 20 | minor`."""

    inode: int
    device: int


def listeners_request(seq: int) -> bytes:
    """Ask for every listening unix socket of this network namespace, with the file it is bound to."""
    payload = _REQUEST.pack(AF_UNIX, 0, 1 << TCP_LISTEN, 0, UDIAG_SHOW_VFS, 0, 0)
    return netlink.message(SOCK_DIAG_BY_FAMILY, netlink.NLM_F_REQUEST | netlink.NLM_F_DUMP, seq, payload)


def listener(reply: Message) -> FileIdentity | None:
    """The file one listening socket is bound to, None for an abstract or unbound one.

    Raises:
        MalformedMessageError: no unix_diag answer, or a truncated one.
    """
    if reply.type != SOCK_DIAG_BY_FAMILY or len(reply.payload) < _REPLY.size:
        raise MalformedMessageError(f"answer of type {reply.type} and {len(reply.payload)} bytes is no unix_diag_msg")
    value = netlink.by_type(reply.payload, _REPLY.size).get(UNIX_DIAG_VFS)
    if value is None:
        return None
    if len(value) != _VFS.size:
        raise MalformedMessageError(f"unix_diag_vfs of {len(value)} bytes")
    return FileIdentity(*_VFS.unpack(value))
