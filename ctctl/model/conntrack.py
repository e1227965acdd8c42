"""One conntrack entry, as far as ctctl needs to know it to recognise or delete it."""

from __future__ import annotations

from dataclasses import dataclass

from ctctl.model.ids import FlushableZoneId, ZoneId


@dataclass(frozen=True, slots=True)
class EntryKey:
    """What names one entry in a delete: its original tuple, zone and id, and its own address family.

    `family`: AF_INET or AF_INET6 as the kernel reports it in nfgenmsg. `tuple_orig`: the payload of the
    kernel's CTA_TUPLE_ORIG attribute, byte for byte; sending back what was received is what makes a delete exact.
    `entry_id`: CTA_ID, a u32. Neither is identity over time: the kernel gives a re-created tuple the same id.
    """

    zone: FlushableZoneId
    family: int
    tuple_orig: bytes
    entry_id: int


@dataclass(frozen=True, slots=True)
class Sighting:
    """An entry as one complete pass saw it.

    `expires_boot_s`: CLOCK_BOOTTIME seconds at which its timeout runs out if nothing refreshes it, None for an
    offloaded entry (no timeout). `started_wall_s`: its start timestamp, None where `nf_conntrack_timestamp` is off.
    """

    zone: ZoneId
    family: int
    tuple_orig: bytes
    entry_id: int
    expires_boot_s: float | None
    started_wall_s: float | None
