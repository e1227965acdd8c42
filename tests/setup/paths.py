"""Where the set-up works: in the clone that it is part of. What clones can share lies in the lab's cache directory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CLONE: Final = Path(__file__).resolve().parents[2]
