"""Promises of the advice: the path, the reason, the cost and the cure, and no claim without knowledge."""

from __future__ import annotations

import pytest

from ctctl.decide.stall_advice import stall_advice
from ctctl.model.ovs import DatapathType
from ctctl.model.snapshot import TargetInfo
from ctctl.model.stalls import FlushPath, StallTallies

PREDICTED = {FlushPath.TABLE_DUMP: 11.2, FlushPath.KERNEL_FILTER: 0.87}


def target(ovs: str, linux: str, datapath: DatapathType = DatapathType.KERNEL) -> TargetInfo:
    return TargetInfo(kernel_release=linux, ovs_version=ovs, datapath_type=datapath)


def test_a_table_dump_is_explained_with_cost_and_cure() -> None:
    tallies = StallTallies(predicted_router_stall_s=PREDICTED, path_in_use=FlushPath.TABLE_DUMP)
    assert stall_advice(target("3.1.0", "6.12.1"), tallies, 150_000) == (
        (
            "Open vSwitch 3.1.0 on Linux 6.12.1 reads the whole table for each zone it flushes: "
            "Open vSwitch is too old for anything else."
        ),
        "Creating one router would block its main thread for about 11 s with the 150,000 entries the table has now.",
        "What helps: Open vSwitch ≥ 3.4 on Linux ≥ 6.8 (about 870 ms a router), or a smaller table.",
        "What does not help: emptying zones beforehand, or another flush; the cost is that of the table.",
    )


@pytest.mark.parametrize(
    ("ovs", "linux", "who"),
    [
        ("3.5.0", "6.1.0", "Linux is"),
        ("3.3.1", "6.8.0", "Open vSwitch is"),
        ("3.1.0", "5.14.0", "Open vSwitch and Linux are"),
    ],
)
def test_the_reason_names_what_is_too_old(ovs: str, linux: str, who: str) -> None:
    lines = stall_advice(target(ovs, linux), StallTallies(path_in_use=FlushPath.TABLE_DUMP), None)
    assert f"{who} too old" in lines[0]


def test_the_filter_needs_no_cure() -> None:
    tallies = StallTallies(predicted_router_stall_s=PREDICTED, path_in_use=FlushPath.KERNEL_FILTER)
    lines = stall_advice(target("3.5.0", "6.12.1"), tallies, None)
    assert lines == (
        (
            "Open vSwitch 3.5.0 on Linux 6.12.1 has the kernel delete one zone's entries: "
            "one walk of the table for each zone."
        ),
        "Creating one router would block its main thread for about 870 ms.",
    )


@pytest.mark.parametrize(
    ("where", "word"),
    [
        (target("3.1.0", "6.1.0", DatapathType.USERSPACE), "userspace"),
        (target("", "6.1.0"), "does not say its version"),
        (target("3.1.0", "6.1.0", DatapathType.UNKNOWN), "datapath"),
    ],
)
def test_what_is_unknown_is_said_to_be(where: TargetInfo, word: str) -> None:
    [line] = stall_advice(where, StallTallies(), None)
    assert word in line


def test_before_the_first_count_no_cost_is_claimed() -> None:
    lines = stall_advice(target("3.1.0", "6.1.0"), StallTallies(path_in_use=FlushPath.TABLE_DUMP), None)
    assert "after the first count" in lines[1]
