"""Exit codes that scripts rely on."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell sees."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    FOUND = 3
    REFUSED = 4
