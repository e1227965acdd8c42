"""Stalls of real daemons: stopped, restarted, warped, starved, and their logs under load."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ctctl.clients import clock
from ctctl.clients.unixctl import call
from ctctl.decide.stalls import StallTracker
from ctctl.model.daemon import Daemon, DaemonView, ThreadState
from ctctl.model.events import DaemonSeen, Event, TimePassed
from ctctl.model.stalls import DaemonThread, LogRead, Occupation, StallEpisode
from ctctl.sources.source import Source
from ctctl.sources.stalls import MainLoopProber, StallSettings
from ctctl.sources.vswitchd_log import LogFollower
from ctctl.wire.unixctl import parse_ct_zone_list
from tests.lab.daemon import wait_until
from tests.lab.marks import each_generation
from tests.lab.ovn import Ovn

pytestmark = pytest.mark.ovn

VSWITCHD = Daemon.VSWITCHD
SETTINGS = StallSettings()
MARGIN_S = 1.0
"""What a busy test machine may add."""


class Watch:
    """The two sources and the tracker over one chassis, as an agent runs them."""

    def __init__(self, ovn: Ovn) -> None:
        self.events: list[Event] = []
        self.ended: list[StallEpisode] = []
        self.views: dict[Daemon, DaemonView] = {}
        self.tracker = StallTracker(SETTINGS.timeout_s)
        self._lock = threading.Lock()
        self.prober = MainLoopProber(SETTINGS, ovn.ovs_rundir, ovn.ovn_rundir, self.report, clock.now)
        self.follower = LogFollower({VSWITCHD: ovn.ovs_log}, self.report, clock.now)
        self._threads = [threading.Thread(target=source.run) for source in self.sources]

    @property
    def follower_thread(self) -> threading.Thread:
        return self._threads[1]

    @property
    def sources(self) -> tuple[Source, Source]:
        return self.prober, self.follower

    def report(self, event: Event) -> None:
        with self._lock:
            self.events.append(event)
            if isinstance(event, DaemonSeen):
                self.views[event.view.daemon] = event.view
            self.ended += self.tracker.handle(event, clock.now())

    def pass_time(self) -> None:
        self.report(TimePassed())

    def until(self, is_true: Callable[[], bool], what: str, timeout_s: float = 10.0) -> None:
        def holds() -> bool:
            self.pass_time()
            return is_true()

        wait_until(holds, what, timeout_s)

    def view(self) -> DaemonView:
        return self.views[VSWITCHD]

    def unanswered_s(self) -> float:
        since = self.view().unanswered_since
        return 0.0 if since is None else clock.now().since(since)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        self.until(lambda: len(self.views) == 2 and all(v.answers for v in self.views.values()), "first answers")
        self.until(lambda: any(isinstance(e, LogRead) and e.read for e in self.events), "the log")

    def stop(self) -> None:
        for source in self.sources:
            source.stop()
        for thread in self._threads:
            thread.join(timeout=2)
            assert not thread.is_alive()


@pytest.fixture
def watch(ovn: Ovn) -> Iterator[Watch]:
    made = Watch(ovn)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@each_generation
def test_both_daemons_answer_with_their_versions_in_milliseconds(watch: Watch, ovn: Ovn) -> None:
    ovs, controller = ("3.5.", "25.03.") if ovn.has_name_keys else ("3.1.", "23.03.")
    watch.until(lambda: watch.view().answers >= 3, "three answers")
    assert (watch.view().version or "").startswith(ovs)
    assert (watch.views[Daemon.OVN_CONTROLLER].version or "").startswith(controller)
    assert (watch.view().last_round_trip_s or 9) < 0.1
    counter = watch.view().long_poll_intervals
    assert counter is not None if ovn.has_name_keys else counter is None


def test_a_stopped_vswitchd_shows_within_an_interval_and_is_one_episode(watch: Watch, ovn: Ovn) -> None:
    daemon = ovn.daemon("ovs-vswitchd")
    daemon.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    watch.until(lambda: watch.view().unanswered_since is not None, "the unanswered probe")
    assert time.monotonic() - stopped < 2 * SETTINGS.interval_s + MARGIN_S
    watch.until(lambda: watch.unanswered_s() > 3, "three seconds of stall")
    assert watch.view().is_up
    thread = watch.view().thread
    assert thread is not None
    assert thread.state is ThreadState.STOPPED
    assert watch.views[Daemon.OVN_CONTROLLER].unanswered_since is None
    daemon.signal(signal.SIGCONT)
    continued = time.monotonic()
    watch.until(lambda: watch.view().unanswered_since is None, "the answer")
    assert time.monotonic() - continued < MARGIN_S
    stalled_s = continued - stopped
    watch.until(lambda: bool(watch.ended), "the episode")
    [episode] = watch.ended
    assert episode.daemon is VSWITCHD
    assert episode.thread is DaemonThread.MAIN
    assert episode.occupation is Occupation.STOPPED
    assert abs(episode.duration_s - stalled_s) < SETTINGS.interval_s + MARGIN_S
    assert watch.tracker.tallies.episodes[VSWITCHD, DaemonThread.MAIN] == 1


def test_a_vswitchd_too_stuck_to_accept_is_up_for_whoever_comes_late(ovn: Ovn) -> None:
    daemon = ovn.daemon("ovs-vswitchd")
    daemon.signal(signal.SIGSTOP)
    others = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) for _ in range(80)]
    refused = 0
    for other in others:
        refused += other.connect_ex(str(daemon.control_socket)) != 0
    assert refused > 0
    watch = Watch(ovn)
    for thread in watch._threads:
        thread.start()
    try:
        watch.until(lambda: VSWITCHD in watch.views and watch.unanswered_s() > 1.5, "a stall")
        assert watch.view().is_up
        assert watch.view().why_down == ""
        for other in others:
            other.close()
        daemon.signal(signal.SIGCONT)
        watch.until(lambda: watch.view().answers > 0, "the answer")
    finally:
        watch.stop()


@each_generation
def test_a_restarted_vswitchd_is_followed(watch: Watch, ovn: Ovn) -> None:
    before = watch.view().socket_path
    daemon = ovn.daemon("ovs-vswitchd")
    daemon.stop()
    watch.until(lambda: not watch.view().is_up, "the end")
    assert "ovs-vswitchd" in watch.view().why_down
    daemon.start()
    watch.until(lambda: watch.view().is_up and watch.view().socket_path != before, "the new one")
    watch.until(lambda: watch.view().version is not None, "its version")


def test_a_killed_vswitchd_leaves_its_files_and_is_down_and_its_successor_is_found(watch: Watch, ovn: Ovn) -> None:
    daemon = ovn.daemon("ovs-vswitchd")
    daemon.signal(signal.SIGSTOP)
    watch.until(lambda: watch.unanswered_s() > 1.2, "the stall")
    daemon.kill()
    watch.until(lambda: not watch.view().is_up, "the end")
    assert watch.view().unanswered_since is None
    assert "Connection refused" in watch.view().why_down
    daemon.start()
    watch.until(lambda: watch.view().is_up and watch.view().unanswered_since is None, "the new one")
    watch.until(lambda: bool(watch.ended), "the episode that the kill ended")


@each_generation
def test_the_zone_list_of_ovn_controller_is_the_bridges_keys(ovn: Ovn) -> None:
    ovn.add_switch()
    ovn.add_host_port("a port with spaces")
    ovn.add_router("r1")
    ovn.router_zones("r1")
    text = call(ovn.daemon("ovn-controller").control_socket, "ct-zone-list", timeout_s=5)
    assert parse_ct_zone_list(text) == ovn.zones()


def test_ten_thousand_lines_a_second_and_rotation_meanwhile_lose_no_stall(watch: Watch, ovn: Ovn) -> None:
    """Lines are added to vswitchd's own log, which it reopens as logrotate makes it do."""
    filler = "2026-11-30T14:26:40.001Z|00045|connmgr|INFO|br-int<->unix#3: 12 flow_mods in the last 0 s (12 adds)\n"
    stall = "|00046|timeval|WARN|Unreasonably long 1100ms poll interval (10ms user, 20ms system)\n"
    cpu_before_s = thread_cpu_s(watch.follower_thread)
    begun = time.monotonic()
    stalls = 0
    for batch in range(40):  # 4 s at 10,000 lines a second
        with ovn.ovs_log.open("a") as file:
            file.write(filler * 500)
            if batch % 10 == 5:
                file.write(time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + ".000Z" + stall)
                stalls += 1
            file.write(filler * 500)
        match batch:
            case 5 | 25:
                ovn.ovs_log.rename(ovn.ovs_log.with_suffix(f".log.{batch}"))
                ovn.appctl("ovs-vswitchd", "vlog/reopen")
            case 15:
                time.sleep(0.5)  # what a truncation destroys unread nobody can tell
                os.truncate(ovn.ovs_log, 0)
        time.sleep(max(0.0, begun + (batch + 1) * 0.1 - time.monotonic()))
    elapsed_s = time.monotonic() - begun
    watch.until(lambda: len(watch.ended) == stalls, "every stall")
    watch.until(lambda: watch.tracker.tallies.log_lines[VSWITCHD] >= 40_000 + stalls, "every line")
    assert all(e.is_exact for e in watch.ended)
    assert watch.tracker.tallies.log_skipped_bytes[VSWITCHD] == 0
    assert (thread_cpu_s(watch.follower_thread) - cpu_before_s) / elapsed_s < 0.1


def thread_cpu_s(thread: threading.Thread) -> float:
    text = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


CPU_GROUPS = Path("/sys/fs/cgroup/cpu")


@pytest.fixture
def starved_group() -> Iterator[Path]:
    """A group that may use 0.2 % of one CPU."""
    group = CPU_GROUPS / f"ctctl-test-{os.getpid()}"
    unified = Path("/sys/fs/cgroup") / group.name
    if CPU_GROUPS.is_dir():
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text("1000000")
        (group / "cpu.cfs_quota_us").write_text("2000")
    elif (Path("/sys/fs/cgroup/cgroup.controllers")).exists():
        group = unified
        group.mkdir()
        (group / "cpu.max").write_text("2000 1000000")
    else:
        pytest.skip("no CPU controller to starve a daemon with")
    try:
        yield group
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(pid)
        group.rmdir()


@each_generation
def test_a_starved_vswitchd_is_told_from_a_busy_one_and_from_a_stopped_one(
    watch: Watch, ovn: Ovn, starved_group: Path
) -> None:
    """A hundred ports are 40 ms of work. /proc says that it was ready all along, its log how long it took."""
    pid = ovn.daemon("ovs-vswitchd").host_pid
    (starved_group / "cgroup.procs").write_text(str(pid))
    ports = [word for n in range(100) for word in ("--", "add-port", "br-int", f"p{n}")]
    ovn.vsctl("--no-wait", *ports[1:])

    def is_seen() -> bool:
        # Now and then it gets a moment of CPU and answers, so the stall that is looked for may have just ended.
        known = (*watch.tracker.lasting(clock.now()), *watch.ended)
        return any(e.duration_s > 4 and e.occupation is Occupation.STARVED for e in known)

    watch.until(is_seen, "a stall of a starved thread", 60)
    (starved_group.parent / "cgroup.procs").write_text(str(pid))
    watch.until(lambda: any(e.is_exact and e.duration_s > 4 for e in watch.ended), "the exact episode", 60)
    episode = next(e for e in watch.ended if e.is_exact and e.duration_s > 4)
    assert episode.occupation is Occupation.STARVED
    assert episode.user_s is not None
    assert episode.system_s is not None
    assert episode.user_s + episode.system_s < 0.5 * episode.duration_s
