"""Ending on a signal: at once and tidily, except while a package is half installed."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Final, NoReturn

ENDING: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def end_tidily() -> None:
    """From now on a signal ends this process through its finally blocks."""
    for signum in ENDING:
        signal.signal(signum, _exit)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """A signal that arrives inside takes effect at the end: dpkg that is stopped half-way leaves a broken machine."""
    arrived: list[int] = []
    before = {signum: signal.signal(signum, lambda signum, _frame: arrived.append(signum)) for signum in ENDING}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
    if arrived:
        _exit(arrived[0], None)


def _exit(signum: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + signum)
