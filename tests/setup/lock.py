"""One set-up at a time: two clones, or two make runs of one clone, wait for each other instead of colliding."""

from __future__ import annotations

import contextlib
import fcntl
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.setup.errors import SetupError


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`; the kernel releases it with the process, however that ends."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise SetupError(f"cannot write {path} ({error.strerror}); set CTCTL_CACHE to a directory you own") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("set-up: waiting for another set-up to finish", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
