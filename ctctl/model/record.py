"""One line of `ctctl events`: something an operator wants to find again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ctctl.model.instant import Instant


class RecordKind(StrEnum):
    """What the record is about."""

    ROUTER = "router"
    VERDICT = "verdict"
    FLUSH = "flush"
    HOLD = "hold"
    STALL = "stall"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Record:
    """`text` is the human line; `fields` the same as data (values: str, int, float, bool, None or lists of them).

    `number`: counts up from 1 over the agent's life, so that a follower knows what it has seen.
    """

    at: Instant
    kind: RecordKind
    text: str
    fields: Mapping[str, object] = field(default_factory=dict)
    number: int = 0
