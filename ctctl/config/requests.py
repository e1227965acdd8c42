"""The requests file: flushes asked of every node, delivered by a ConfigMap or configuration management."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from ctctl.config.parse import parse
from ctctl.errors import ConfigError
from ctctl.model.ids import flushable_zone_id
from ctctl.model.request import FlushRequest

MAX_ID: Final = 200


@dataclass(frozen=True, slots=True)
class RequestEntry:
    """One flush, done at most once on each node."""

    id: str
    """Names the request; a node that has carried it out never does so again."""

    not_after: str
    """Time after which it is void, e.g. 2026-11-30T18:00:00Z: a node that joins later must not act on it."""

    router: str | None = None
    """All zones of this router on each node: name, alias or Northbound UUID."""

    zones: tuple[int, ...] = ()
    """Zone numbers. They differ from node to node; name a router wherever there is one."""

    address: str | None = None
    """Only entries with this address in one of their tuples, e.g. a detached floating IP."""

    def __post_init__(self) -> None:
        if not self.id or not self.id.isprintable() or self.id != self.id.strip() or len(self.id) > MAX_ID:
            raise ValueError(f"id must be 1 to {MAX_ID} printable characters on one line")
        if self.router == "":
            raise ValueError("router must not be empty")
        if (self.router is None) is (not self.zones):
            raise ValueError("name either a router or zones")
        self.request()

    def request(self) -> FlushRequest:
        """The request that this entry spells.

        Raises:
            ValueError: a zone, an address or a time that is none.
        """
        when = datetime.fromisoformat(self.not_after)
        if when.tzinfo is None:
            raise ValueError(f"not_after {self.not_after} has no time zone; end it with Z")
        return FlushRequest(
            name=self.id,
            routers=() if self.router is None else (self.router,),
            zones=tuple(flushable_zone_id(zone) for zone in self.zones),
            address=None if self.address is None else ip_address(self.address),
            not_after_wall_s=when.timestamp(),
        )


@dataclass(frozen=True, slots=True)
class RequestsFile:
    """The whole file."""

    requests: tuple[RequestEntry, ...] = ()
    """In any order; entries may be taken out once they are void."""

    def __post_init__(self) -> None:
        names = [entry.id for entry in self.requests]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"id {min(twice)} is given twice")


def load_requests(path: Path) -> tuple[FlushRequest, ...]:
    """The requests in a file; a file that is not there holds none.

    Raises:
        ConfigError: it cannot be read, or something in it is wrong; names file, line and key. Then none of it counts.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the requests file {path}: {error}") from error
    return tuple(entry.request() for entry in parse(text, RequestsFile, str(path)).requests)
