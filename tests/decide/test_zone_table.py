"""Every zone worth a row: mapped ones, and unmapped ones that hold entries."""

from __future__ import annotations

import pytest

from ctctl.decide.zone_table import available, rows
from ctctl.model.counts import CountMethod, CountPass
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant
from ctctl.model.ovs import LocalView
from ctctl.model.zone import Zone, ZoneKind, ZoneMap

AT = Instant(0, 0)


def counted(*zones: int) -> CountPass:
    return CountPass(AT, AT, CountMethod.FULL_DUMP, {ZoneId(z): 1 for z in zones}, len(zones))


def local(*ranges: tuple[int, int]) -> LocalView:
    return LocalView(AT, 1, (), zone_ranges=ranges)


def mapped(*zones: int) -> ZoneMap:
    return ZoneMap({ZoneId(z): Zone(ZoneId(z), ZoneKind.PORT, f"p{z}") for z in zones})


def kinds(found: tuple[Zone, ...]) -> list[tuple[int, str]]:
    return [(int(z.zone), z.kind.value) for z in found]


def test_rows_are_in_the_order_of_their_numbers() -> None:
    found = rows(mapped(9, 2), counted(5, 2), local())
    assert kinds(found) == [(2, "port"), (5, "ownerless"), (9, "port")]


def test_entries_without_a_key_are_ownerless_and_zone_zero_is_the_hosts() -> None:
    assert kinds(rows(ZoneMap(), counted(0, 7), local())) == [(0, "host"), (7, "ownerless")]


def test_without_any_ovs_the_same_holds() -> None:
    assert kinds(rows(ZoneMap(), counted(0, 7, 64000), None)) == [(0, "host"), (7, "ownerless"), (64000, "foreign")]


@pytest.mark.parametrize(
    ("ranges", "zone", "kind"),
    [
        ((), 63999, "ownerless"),
        ((), 64000, "foreign"),
        ((), 64004, "foreign"),
        ((), 64005, "ownerless"),
        (((100, 200),), 99, "foreign"),
        (((100, 200),), 100, "ownerless"),
        (((100, 200),), 200, "ownerless"),
        (((100, 200),), 201, "foreign"),
        (((1, 5), (60000, 65535)), 64001, "ownerless"),
    ],
)
def test_what_ovn_would_not_number_here_is_foreign(ranges: tuple[tuple[int, int], ...], zone: int, kind: str) -> None:
    assert kinds(rows(ZoneMap(), counted(zone), local(*ranges))) == [(zone, kind)]


def test_without_a_count_only_the_map_has_rows() -> None:
    assert kinds(rows(mapped(3), None, local())) == [(3, "port")]


@pytest.mark.parametrize(
    ("ranges", "taken", "left"),
    [
        ((), (), 65535),
        ((), (1, 2, 0), 65533),
        (((10, 19),), (5, 10), 9),
        (((0, 9),), (), 9),
        (((10, 19), (15, 24)), (), 15),
        (((60000, 99999),), (), 5536),
        (((20, 10),), (), 0),
    ],
)
def test_available_numbers_honour_the_range_and_never_count_zero(
    ranges: tuple[tuple[int, int], ...], taken: tuple[int, ...], left: int
) -> None:
    assert available(mapped(*taken), local(*ranges)) == left


def test_without_a_map_nobody_knows_what_is_available() -> None:
    assert available(ZoneMap(), None) is None
