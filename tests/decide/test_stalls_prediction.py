"""Promises of the prediction: the cost of the table, times the zones of a router, on the path that is taken."""

from __future__ import annotations

import pytest

from ctctl.decide.stall_prediction import path_in_use, predicted_router_stall_s, predictions, zones_per_router
from ctctl.model.ovs import DatapathType
from ctctl.model.stalls import FlushPath


def test_without_the_filter_every_zone_costs_a_whole_table() -> None:
    assert predicted_router_stall_s(2.75, 0.3, 4, FlushPath.TABLE_DUMP) == pytest.approx(11.0)


def test_with_the_filter_every_zone_costs_a_flush() -> None:
    assert predicted_router_stall_s(2.75, 0.25, 4, FlushPath.KERNEL_FILTER) == pytest.approx(1.0)


def test_both_paths_are_predicted_so_that_the_cure_can_be_shown() -> None:
    assert predictions(1.0, 0.1, 4) == {FlushPath.KERNEL_FILTER: pytest.approx(0.4), FlushPath.TABLE_DUMP: 4.0}


@pytest.mark.parametrize(
    ("ovs", "kernel", "path"),
    [
        ("3.1.0", "6.12.0-1-amd64", FlushPath.TABLE_DUMP),
        ("3.3.7", "6.12.0-1-amd64", FlushPath.TABLE_DUMP),
        ("3.4.0", "6.7.12", FlushPath.TABLE_DUMP),
        ("3.4.0", "6.8.0-31-generic", FlushPath.KERNEL_FILTER),
        ("3.10.0", "6.10.3", FlushPath.KERNEL_FILTER),
        ("4.0.0", "7.0.1", FlushPath.KERNEL_FILTER),
        ("2.17.9", "5.14.0-362.el9", FlushPath.TABLE_DUMP),
        ("3.4.0", "what", None),
        ("", "6.8.0", None),
        (None, "6.8.0", None),
    ],
)
def test_the_path_follows_both_versions_by_number(ovs: str | None, kernel: str, path: FlushPath | None) -> None:
    assert path_in_use(ovs, kernel, DatapathType.KERNEL) is path


@pytest.mark.parametrize("datapath", [DatapathType.USERSPACE, DatapathType.UNKNOWN])
def test_no_path_is_claimed_for_another_datapath(datapath: DatapathType) -> None:
    assert path_in_use("3.5.0", "6.12.0", datapath) is None


def test_a_router_needs_four_zones_until_some_were_seen() -> None:
    assert zones_per_router([]) == 4.0
    assert zones_per_router([2, 6, 4]) == 4.0
    assert zones_per_router([2, 2, 9]) == 2.0
