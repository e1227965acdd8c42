"""A flush that somebody asked of every node, delivered as a file."""

from __future__ import annotations

from dataclasses import dataclass

from ctctl.model.flush import Address
from ctctl.model.ids import FlushableZoneId


@dataclass(frozen=True, slots=True)
class FlushRequest:
    """One entry of the requests file.

    `name`: its id; each node carries it out at most once, across restarts. `routers`: names, aliases or identities;
    zones that a router has on this node are meant. `zones`: numbers. `address`: only entries that have it, None for
    whole zones. `not_after_wall_s`: Unix time after which nothing more is done for it.
    """

    name: str
    routers: tuple[str, ...]
    zones: tuple[FlushableZoneId, ...]
    address: Address | None
    not_after_wall_s: float
