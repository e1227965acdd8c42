"""Promises of reading a daemon's main thread: on this kernel's own /proc, and on made-up ones of containers."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from ctctl.clients import clock
from ctctl.clients.proc import find_main_thread
from ctctl.model.daemon import ThreadState
from ctctl.model.instant import Instant
from tests.clients.made_up_proc import add_process

NOW = Instant(1.0, 2.0)


def test_this_process_is_found_under_its_own_pid_and_sampled() -> None:
    command = Path("/proc/self/comm").read_text().rstrip("\n")
    thread = find_main_thread(Path("/proc"), command, os.getpid())
    assert thread is not None
    now = clock.now()
    sample = thread.sample(now)
    assert sample is not None
    assert sample.at == now
    expected = ThreadState.RUNNING if threading.current_thread() is threading.main_thread() else ThreadState.SLEEPING
    assert sample.state is expected
    assert sample.user_s + sample.system_s > 0


def test_a_daemon_in_a_container_is_found_by_the_pid_it_has_there(tmp_path: Path) -> None:
    add_process(tmp_path, 12, "sshd", [12])
    add_process(tmp_path, 4711, "ovs-vswitchd", [4711, 12])
    add_process(tmp_path, 4712, "ovsdb-server", [4712, 12])
    thread = find_main_thread(tmp_path, "ovs-vswitchd", 12)
    assert thread is not None
    assert thread.pid == 4711
    sample = thread.sample(NOW)
    assert sample is not None
    assert (sample.user_s, sample.system_s, sample.waiting_s) == (1.5, 9.05, None)


def test_another_process_that_took_the_pid_is_not_mistaken_for_the_daemon(tmp_path: Path) -> None:
    add_process(tmp_path, 12, "bash", [12])
    assert find_main_thread(tmp_path, "ovs-vswitchd", 12) is None


def test_two_containers_with_the_same_pid_are_not_guessed_between(tmp_path: Path) -> None:
    add_process(tmp_path, 4711, "ovs-vswitchd", [4711, 12])
    add_process(tmp_path, 5711, "ovs-vswitchd", [5711, 12])
    assert find_main_thread(tmp_path, "ovs-vswitchd", 12) is None


def test_the_kernels_word_about_the_connection_decides_between_them(tmp_path: Path) -> None:
    add_process(tmp_path, 4711, "ovs-vswitchd", [4711, 12])
    add_process(tmp_path, 5711, "ovs-vswitchd", [5711, 12])
    thread = find_main_thread(tmp_path, "ovs-vswitchd", 12, peer_pid=5711)
    assert thread is not None
    assert thread.pid == 5711


def test_a_pid_that_means_another_process_in_that_procfs_is_not_believed(tmp_path: Path) -> None:
    add_process(tmp_path, 12, "bash", [12])
    add_process(tmp_path, 4711, "ovs-vswitchd", [4711, 12])
    thread = find_main_thread(tmp_path, "ovs-vswitchd", 12, peer_pid=12)
    assert thread is not None
    assert thread.pid == 4711


def test_a_missing_procfs_finds_nobody(tmp_path: Path) -> None:
    assert find_main_thread(tmp_path / "proc", "ovs-vswitchd", 12) is None


def test_a_process_that_ended_has_no_sample(tmp_path: Path) -> None:
    add_process(tmp_path, 12, "ovs-vswitchd", [12])
    thread = find_main_thread(tmp_path, "ovs-vswitchd", 12)
    assert thread is not None
    (tmp_path / "12" / "task" / "12" / "stat").unlink()
    assert thread.sample(NOW) is None
