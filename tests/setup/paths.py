"""Where the set-up keeps things: the clone it belongs to, and a cache outside of it."""

from __future__ import annotations

import os
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]


def cache_dir() -> Path:
    """What is expensive and the same for every clone: `$CTCTL_CACHE`, else `ctctl` in the user's cache."""
    if chosen := os.environ.get("CTCTL_CACHE"):
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ctctl"
