"""What the `ovs` library says to its log: the only place where it tells why a connection ended or what it dropped.

Process-wide in the library, hence functions and not an object; kept per thread, so that each replica hears its own.
Nothing of it reaches the agent's log from here. Part of the door `ovsdb_idl`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

from ovsdbapp.backend.ovs_idl import vlog


@dataclass(frozen=True, slots=True)
class Said:
    """One line. `file`: the library's source file that said it."""

    is_warning: bool
    file: str
    text: str


class _Ear(logging.Handler):
    """Keeps the last lines of each thread."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.said: dict[int, deque[Said]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        lines = self.said.setdefault(record.thread or 0, deque(maxlen=16))
        lines.append(Said(record.levelno >= logging.WARNING, record.filename, record.getMessage()))


_ear: Final = _Ear()


def open() -> None:  # noqa: A001 - read as library_log.open()
    """Listen from now on, and forget what this thread heard before."""
    vlog.use_python_logger(max_level=vlog.INFO)
    logger = logging.getLogger(vlog.__name__)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    if _ear not in logger.handlers:
        logger.addHandler(_ear)
    take()


def take() -> list[Said]:
    """What was said in this thread since the last call, oldest first."""
    return list(_ear.said.pop(threading.get_ident(), ()))
