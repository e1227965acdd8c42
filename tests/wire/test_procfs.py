"""Promises of the /proc parsers."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctctl.errors import ProtocolError
from ctctl.model.daemon import ThreadState
from ctctl.wire.procfs import parse_innermost_pid, parse_schedstat, parse_stat

# ovs-vswitchd 3.1, stopped, on Linux 6.x
STAT = (
    "6817 (ovs-vswitchd) T 1 6817 6817 0 -1 4194624 2588 0 0 0 152 905 0 0 20 0 7 0 87566 403054592 4338 "
    "18446744073709551615 94682500567040 94682502486761 140721393719136 0 0 0 0 4096 25603 1 0 0 17 1 0 0 0 0 0 "
    "94682503242816 94682503526912 94683080933376 140721393727628 140721393727855 140721393727855 140721393729468 0\n"
)
STATUS = "Name:\tovs-vswitchd\nState:\tT (stopped)\nPid:\t6817\nNStgid:\t6817\t12\nNSpid:\t6817\t12\nThreads:\t7\n"


def test_a_real_line_gives_state_and_times() -> None:
    assert parse_stat(STAT) == ("ovs-vswitchd", ThreadState.STOPPED, 152, 905)


@pytest.mark.parametrize("name", ["a b", ") R 1 (", "((", "", "ovs (x) S 1"])
def test_a_name_with_parentheses_shifts_no_field(name: str) -> None:
    assert parse_stat(STAT.replace("ovs-vswitchd", name)) == (name, ThreadState.STOPPED, 152, 905)


@pytest.mark.parametrize(
    ("letter", "state"),
    [
        ("R", ThreadState.RUNNING),
        ("S", ThreadState.SLEEPING),
        ("D", ThreadState.UNINTERRUPTIBLE),
        ("Z", ThreadState.OTHER),
    ],
)
def test_every_letter_has_its_state(letter: str, state: ThreadState) -> None:
    assert parse_stat(STAT.replace(") T ", f") {letter} "))[1] is state


def test_every_truncation_of_stat_is_refused() -> None:
    for end in range(len(STAT)):
        with pytest.raises(ProtocolError):
            parse_stat(STAT[:end])


def test_run_queue_wait_is_the_second_number() -> None:
    assert parse_schedstat("18190435 839325 18\n") == 839325


def test_a_kernel_that_keeps_no_scheduling_statistics_says_so_with_zeros() -> None:
    assert parse_schedstat("0 0 0\n") is None


@pytest.mark.parametrize("text", ["", "\n", "1 2 3", "1 2\n", "1 2 3 4\n", "a b c\n", "1 -2 3\n"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        parse_schedstat(text)


def test_the_pid_a_process_has_for_itself_is_the_innermost() -> None:
    assert parse_innermost_pid(STATUS) == 12
    assert parse_innermost_pid(STATUS.replace("NSpid:\t6817\t12", "NSpid:\t6817")) == 6817


@pytest.mark.parametrize("text", ["", "Name:\tx\n", "NSpid:\n", "NSpid:\tx\n"])
def test_a_status_without_namespaces_names_no_pid(text: str) -> None:
    assert parse_innermost_pid(text) is None


@given(st.text())
def test_garbage_is_refused_and_never_anything_else(text: str) -> None:
    for parse in (parse_stat, parse_schedstat, parse_innermost_pid):
        with contextlib.suppress(ProtocolError):
            parse(text)
