"""Identifiers. A zone number becomes a `ZoneId` once, at the edge; only a `FlushableZoneId` can be deleted from."""

from __future__ import annotations

from typing import Final, NewType

from ctctl.errors import InvalidZoneError

ZoneId = NewType("ZoneId", int)
"""A conntrack zone number, 0 … 65535 (`CTA_ZONE` is a u16). Zone 0 is real: it is the host's own traffic."""

FlushableZoneId = NewType("FlushableZoneId", ZoneId)
"""A zone that a delete may name: 1 … 65535. Zone 0 never is one."""

RouterId = NewType("RouterId", str)
"""A logical router's identity: its UUID in the Northbound database (`logical-router` in the Southbound one)."""

MAX_ZONE: Final = 0xFFFF
HOST_ZONE: Final = ZoneId(0)


def zone_id(value: object) -> ZoneId:
    """`value` as a zone number.

    Raises:
        InvalidZoneError: not an int (a bool is none either), or outside 0 … 65535.
    """
    if type(value) is not int:
        raise InvalidZoneError(f"zone must be a whole number, not {value!r}", remedy="give a number from 0 to 65535")
    if not 0 <= value <= MAX_ZONE:
        raise InvalidZoneError(f"zone {value} is out of range", remedy="give a number from 0 to 65535")
    return ZoneId(value)


def flushable_zone_id(value: object) -> FlushableZoneId:
    """`value` as a zone that may be deleted from.

    Raises:
        InvalidZoneError: not a zone number, or zone 0, which holds the host's own connections.
    """
    zone = zone_id(value)
    if zone == HOST_ZONE:
        raise InvalidZoneError("zone 0 holds the host's own connections and is never flushed")
    return FlushableZoneId(zone)
