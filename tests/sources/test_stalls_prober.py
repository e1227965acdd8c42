"""Promises of the main-loop probe, against real sockets and a clock of the test's own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from ctctl.clients import clock
from ctctl.model.daemon import Daemon, DaemonView
from ctctl.model.events import DaemonSeen, Event
from ctctl.model.instant import Instant
from ctctl.sources.stalls import MainLoopProbe, MainLoopProber, StallSettings
from tests.clients.made_up_proc import add_process
from tests.clients.unixctl_daemon import TurningDaemon, UnixctlDaemon

INTERVAL_S = 0.5


class Bench:
    """A probe, its daemon's run directory, and the time."""

    def __init__(self, rundir: Path) -> None:
        self.rundir = rundir
        self.now = Instant(boot_s=1000.0, wall_s=5000.0)
        self.probe = MainLoopProbe(Daemon.VSWITCHD, rundir, INTERVAL_S, rundir / "proc")
        self.views: list[DaemonView] = []

    def turn(self) -> DaemonView | None:
        view = self.probe.turn(self.now)
        if view is not None:
            self.views.append(view)
        return view

    def after(self, seconds: float) -> DaemonView | None:
        self.now = Instant(self.now.boot_s + seconds, self.now.wall_s + seconds)
        return self.turn()

    def last(self) -> DaemonView:
        return self.views[-1]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.probe.close()


def test_an_answer_is_reported_with_its_round_trip_and_the_daemons_version(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir) as daemon:
        bench.turn()
        daemon.turn()
        view = bench.after(0.003)
    assert view is not None
    assert view.is_up
    assert view.version == "3.1.0"
    assert view.socket_path == str(daemon.path)
    assert view.answers == 1
    assert view.last_round_trip_s == pytest.approx(0.003)


def test_the_main_loop_is_asked_once_an_interval_on_one_connection(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir) as daemon:
        for _ in range(100):
            bench.after(0.1)
            daemon.turn()
        assert len(daemon.requests) == 20
        assert daemon.accepted == 1


def test_a_probe_is_shown_unanswered_within_one_interval_and_never_repeated(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir) as daemon:
        bench.turn()
        daemon.turn()
        bench.after(0.01)
        bench.after(INTERVAL_S)
        asked = bench.now
        for _ in range(120):
            bench.after(0.5)
        assert bench.last().unanswered_since == asked
        assert bench.last().is_up
        daemon.turn()
        bench.after(0.25)
        assert len(daemon.requests) == 2
        assert bench.last().unanswered_since is None
        assert bench.last().last_round_trip_s == pytest.approx(60.25)
        assert daemon.accepted == 1


def test_a_late_answer_is_followed_by_the_next_probe_at_once(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir) as daemon:
        bench.turn()
        for _ in range(14):
            bench.after(0.5)
        daemon.turn()
        bench.after(0.1)
        daemon.turn()
        assert len(daemon.requests) == 2


def test_the_time_in_which_the_prober_itself_was_stopped_is_no_stall(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir) as daemon:
        bench.turn()
        daemon.turn()  # the answer lies there while the prober does not run
        bench.after(3600.0)
        assert bench.last().last_round_trip_s == 0.0
        assert bench.last().unanswered_since is None
        bench.after(INTERVAL_S)  # asks again, and is stopped again
        bench.after(3600.0)
        waiting = bench.last().unanswered_since
        assert waiting == bench.now


def test_a_daemon_too_stuck_to_accept_is_up_and_its_wait_counts_from_the_first_attempt(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir, backlog=0) as daemon:
        others = MainLoopProbe(Daemon.VSWITCHD, bench.rundir, INTERVAL_S, bench.rundir / "proc")
        others.turn(bench.now)  # fills the queue
        view = bench.turn()
        first = bench.now
        assert view is not None
        assert view.is_up
        assert view.unanswered_since == first
        bench.after(3.0)
        assert bench.last().unanswered_since == first
        daemon.turn()
        bench.after(0.5)  # connects and asks
        daemon.turn()
        bench.after(0.01)
        assert bench.last().unanswered_since is None
        assert bench.last().last_round_trip_s == pytest.approx(3.51)
        others.close()


def test_a_missing_run_directory_says_which_and_what_to_do(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "openvswitch")
    view = bench.turn()
    assert view is not None
    assert not view.is_up
    assert str(tmp_path / "openvswitch") in view.why_down
    assert "mount" in view.why_down


def test_a_daemon_that_stays_down_is_reported_once(bench: Bench) -> None:
    for _ in range(100):
        bench.after(0.5)
    assert len(bench.views) == 1
    assert "no control socket ovs-vswitchd.PID.ctl" in bench.last().why_down


def test_a_socket_nobody_listens_at_is_a_daemon_that_is_down(bench: Bench) -> None:
    UnixctlDaemon(bench.rundir).end(leave_files=True)
    view = bench.turn()
    assert view is not None
    assert not view.is_up
    assert "Connection refused" in view.why_down


def test_a_daemon_that_starts_later_is_found(bench: Bench) -> None:
    bench.turn()
    with UnixctlDaemon(bench.rundir) as daemon:
        bench.after(INTERVAL_S)
        daemon.turn()
        bench.after(0.01)
        assert bench.last().is_up
        assert bench.last().why_down == ""
        assert bench.last().version == "3.1.0"


def test_a_restart_is_followed_and_ends_what_the_old_daemon_did_not_answer(bench: Bench) -> None:
    old = UnixctlDaemon(bench.rundir, pid=100)
    bench.turn()
    old.accept()
    bench.after(3.0)
    assert bench.last().unanswered_since is not None
    old.end()
    with UnixctlDaemon(bench.rundir, pid=200, replies={"version": "ovs-vswitchd (Open vSwitch) 3.5.0\n"}) as new:
        bench.after(0.1)
        assert bench.last().unanswered_since is None
        new.turn()
        bench.after(0.1)
        assert bench.last().version == "3.5.0"
        assert bench.last().socket_path == str(new.path)


def test_a_stuck_daemon_whose_successor_listens_is_left_although_its_connection_is_open(bench: Bench) -> None:
    old = UnixctlDaemon(bench.rundir, pid=100)
    bench.turn()
    old.accept()
    with UnixctlDaemon(bench.rundir, pid=200) as new:
        bench.after(INTERVAL_S)
        new.turn()
        bench.after(0.1)
        assert bench.last().socket_path == str(new.path)
        assert bench.last().unanswered_since is None
    old.end()


def test_a_daemon_restarted_under_the_same_pid_is_followed(bench: Bench) -> None:
    old = UnixctlDaemon(bench.rundir, pid=1)
    bench.turn()
    old.turn()
    bench.after(0.01)
    old.drop_connections()
    with UnixctlDaemon(bench.rundir, pid=1, replies={"version": "ovs-vswitchd (Open vSwitch) 3.5.0\n"}) as new:
        bench.after(INTERVAL_S)
        new.turn()
        bench.after(0.01)
        assert bench.last().version == "3.5.0"
    old.end()


def test_files_left_behind_do_not_hide_the_daemon_nor_make_the_probe_reconnect(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir, pid=7, with_pidfile=False) as daemon:
        UnixctlDaemon(bench.rundir, pid=9).end(leave_files=True)  # the pidfile names this one
        for _ in range(20):
            bench.after(INTERVAL_S)
            daemon.turn()
        assert bench.last().is_up
        assert daemon.accepted == 1


def test_a_connection_outlives_its_socket_file(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir) as daemon:
        bench.turn()
        daemon.turn()
        daemon.path.unlink()
        for _ in range(5):
            bench.after(INTERVAL_S)
            daemon.turn()
        assert bench.last().answers == 5
        assert bench.last().is_up


def test_a_daemon_that_accepts_and_closes_is_tried_once_an_interval(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir) as daemon:
        for _ in range(100):
            bench.after(0.05)
            daemon.accept()
            daemon.drop_connections()
        assert daemon.accepted <= 12


def test_a_daemon_that_talks_nonsense_is_left_and_tried_again(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir) as daemon:
        bench.turn()
        daemon.accept()
        daemon.connections[0].sendall(b"HTTP/1.1 400 Bad Request\r\n")
        bench.after(0.1)
        daemon.drop_connections()
        bench.after(INTERVAL_S)
        daemon.turn()
        bench.after(0.01)
        assert bench.last().answers == 1
        assert daemon.accepted == 2


def test_a_daemon_that_does_not_know_the_command_still_answers(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir) as daemon:
        daemon.replies.clear()
        bench.turn()
        daemon.turn()
        bench.after(0.01)
        assert bench.last().answers == 1
        assert bench.last().version is None


def test_an_answer_in_pieces_counts_when_it_is_complete(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir) as daemon:
        bench.turn()
        daemon.accept()
        connection = daemon.connections[0]
        connection.recv(1000)
        answer = b'{"id":1,"error":null,"result":"ovs-vswitchd (Open vSwitch) 3.1.0\\n"}'
        for byte in answer[:-1]:
            connection.sendall(bytes([byte]))
            bench.after(0.001)
            assert all(view.answers == 0 for view in bench.views)
        connection.sendall(answer[-1:])
        bench.after(0.001)
        assert bench.last().answers == 1


def test_the_counter_of_long_polls_is_asked_in_place_of_a_version_now_and_then(bench: Bench) -> None:
    replies = {"coverage/read-counter long_poll_interval": "3\n"}
    with UnixctlDaemon(bench.rundir, replies=replies) as daemon:
        for _ in range(2 * 40):
            bench.after(INTERVAL_S / 2)
            daemon.turn()
        asked = [method for method, _ in daemon.requests]
        assert len(asked) == 40
        assert asked.count("coverage/read-counter") == 2
        assert bench.last().long_poll_intervals == 3
        assert bench.last().version == "3.1.0"


def test_a_daemon_without_that_counter_is_asked_for_it_once(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir) as daemon:
        for _ in range(2 * 60):
            bench.after(INTERVAL_S / 2)
            daemon.turn()
        assert [method for method, _ in daemon.requests].count("coverage/read-counter") == 1
        assert bench.last().long_poll_intervals is None
        assert bench.last().is_up


def test_what_the_main_thread_did_meanwhile_is_shown_while_it_does_not_answer(bench: Bench) -> None:
    procfs = bench.rundir / "proc"
    add_process(procfs, 4711, "ovs-vswitchd", [4711, 100], system_ticks=100)
    with UnixctlDaemon(bench.rundir, pid=100) as daemon:
        bench.turn()
        add_process(procfs, 4711, "ovs-vswitchd", [4711, 100], system_ticks=350)
        bench.after(3.0)
        view = bench.last()
        assert view.thread is not None
        assert view.thread_when_asked is not None
        assert view.thread.system_s - view.thread_when_asked.system_s == pytest.approx(2.5)
        assert view.thread.at.since(view.thread_when_asked.at) == pytest.approx(3.0)
        daemon.turn()
        bench.after(0.1)
        assert bench.last().thread is not None  # an answer that late still says what had kept the thread
        daemon.turn()
        bench.after(0.1)
        assert bench.last().thread is None


@pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to become somebody who may not open the socket")
def test_a_refused_socket_names_path_uid_and_remedy_and_recovers(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir) as daemon:
        daemon.path.chmod(0o700)
        bench.rundir.chmod(0o755)
        for parent in bench.rundir.parents[:2]:  # pytest makes these for root alone
            parent.chmod(0o755)
        os.seteuid(65534)
        try:
            view = bench.turn()
        finally:
            os.seteuid(0)
        assert view is not None
        assert not view.is_up
        assert str(daemon.path) in view.why_down
        assert "uid 65534" in view.why_down
        assert "group" in view.why_down
        bench.after(INTERVAL_S)
        daemon.turn()
        bench.after(0.01)
        assert bench.last().is_up
        assert bench.last().why_down == ""


def test_the_source_reports_both_daemons_and_stops_at_once(tmp_path: Path) -> None:
    reported: SimpleQueue[Event] = SimpleQueue()
    prober = MainLoopProber(StallSettings(), tmp_path, tmp_path, reported.put, clock.now)
    with TurningDaemon(tmp_path), TurningDaemon(tmp_path, "ovn-controller", 5):
        thread = threading.Thread(target=prober.run)
        thread.start()
        versions: dict[Daemon, str] = {}
        while len(versions) < 2:
            event = reported.get(timeout=5)
            assert isinstance(event, DaemonSeen)
            if event.view.version is not None:
                versions[event.view.daemon] = event.view.version
        prober.stop()
        thread.join(timeout=1)
        assert not thread.is_alive()
    assert versions == {Daemon.VSWITCHD: "3.1.0", Daemon.OVN_CONTROLLER: "23.03.1"}


def test_a_source_stopped_before_it_runs_does_not_run(tmp_path: Path) -> None:
    reported: list[Event] = []
    prober = MainLoopProber(StallSettings(), tmp_path, tmp_path, reported.append, clock.now)
    prober.stop()
    prober.run()
    assert reported == []


def test_a_view_that_says_nothing_new_is_not_reported(bench: Bench) -> None:
    with UnixctlDaemon(bench.rundir) as daemon:
        bench.turn()
        daemon.turn()
        bench.after(0.01)
        seen = len(bench.views)
        for _ in range(4):
            bench.after(0.1)
        assert len(bench.views) == seen
