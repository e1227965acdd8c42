"""One flusher per network namespace: an abstract unix socket, which the kernel keeps per network namespace.

It vanishes with the process that holds it, however that ends, and cannot be left behind on a disk.
"""

from __future__ import annotations

import errno
import socket
from typing import Final

_NAME: Final = "\0ctctl-flusher"


class FlusherLock:
    """Held from a successful `acquire` until `release` or the end of the process."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def acquire(self) -> bool:
        """Take the lock if nobody in this network namespace holds it. Returns whether it is held now.

        Raises:
            OSError: unix sockets cannot be used at all.
        """
        if self._socket is not None:
            return True
        candidate = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            candidate.bind(_NAME)
        except OSError as error:
            candidate.close()
            if error.errno == errno.EADDRINUSE:
                return False
            raise
        self._socket = candidate
        return True

    def release(self) -> None:
        """Let another flusher have it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
