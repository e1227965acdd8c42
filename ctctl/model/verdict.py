"""What ctctl found in a zone that was newly assigned to a router."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ctctl.model.flush import Trigger
from ctctl.model.ids import RouterId, ZoneId
from ctctl.model.instant import Instant


class Verdict(StrEnum):
    """`empty`: no entries. `clean`: entries, all checked, none older than the assignment. `stale`: some are older.
    `unverified`: entries, and nothing to compare them with.
    """

    EMPTY = "empty"
    CLEAN = "clean"
    STALE = "stale"
    UNVERIFIED = "unverified"


class FlushStep(StrEnum):
    """What was done about it, as the verdict line says it."""

    NOT_NEEDED = "not-needed"
    DONE = "done"
    FAILED = "failed"
    HELD = "held"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ZoneVerdict:
    """The one verdict of one assignment (router identity, zone).

    `entries`: in the zone when it was looked at, None when it could not be. `flush_detail`: the hold or failure
    reason, "" otherwise. `visible`: the key became visible; `given`: the verdict was reached.
    """

    router: RouterId
    owner: str
    zone: ZoneId
    trigger: Trigger
    verdict: Verdict
    flush: FlushStep
    flush_detail: str
    entries: int | None
    visible: Instant
    given: Instant
    router_seen: Instant | None = None
