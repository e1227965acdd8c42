"""Builds the agent, starts its threads, and ends it: a thread that dies takes the process with it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

import structlog

import ctctl
from ctctl.agent.allocations import claimed_in_memory
from ctctl.agent.commands import Commands
from ctctl.agent.control import ControlServer
from ctctl.agent.executor import Clearance, Executor, Work
from ctctl.agent.journal import Journal
from ctctl.agent.loop import ControlLoop
from ctctl.agent.policy_source import PolicySource
from ctctl.backends.kernel import KernelDeleter, KernelReader
from ctctl.backends.kernel.costs import FlushCosts
from ctctl.clients import clock, state_files
from ctctl.clients.daemon_files import control_sockets
from ctctl.clients.namespace import listens_here
from ctctl.clients.ovsdb_reader import LocalOvsdbReader
from ctctl.config.parse import load_plain
from ctctl.config.settings import Settings
from ctctl.decide.planner import Planner
from ctctl.errors import UnavailableError
from ctctl.metrics.web import WebServer
from ctctl.model.counts import Keep
from ctctl.model.daemon import Daemon
from ctctl.model.events import JournalOpened, PauseChanged
from ctctl.model.ovn import OvnDatabase
from ctctl.model.snapshot import Snapshot
from ctctl.sources.capabilities import CapabilitySource
from ctctl.sources.counts import CountSource
from ctctl.sources.flusher_lock import FlusherLockSource
from ctctl.sources.local_ovsdb import LocalOvsdbSource
from ctctl.sources.ovn import OvnSource
from ctctl.sources.stalls import MainLoopProber
from ctctl.sources.vswitchd_log import LogFollower
from ctctl.sources.zone_list import ZoneListSource

SWITCH_INTERVAL_S: Final = 0.0005
"""How long a busy thread may keep the interpreter from a waiting one: an order passes through several threads, and a
counting pass or a scrape must not hold it up for Python's default of 5 ms at each step.
"""

JOIN_TIMEOUT_S: Final = 3.0
"""How long the end waits for threads; one that is inside the kernel with a flush cannot be interrupted."""

_log = structlog.get_logger("ctctl")


class _Running(Protocol):
    def run(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(slots=True)
class _Published:
    """The last snapshot; replaced whole, so that readers need no lock."""

    snapshot: Snapshot | None = None

    def set(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def get(self) -> Snapshot | None:
        return self.snapshot


class _Effects:
    """What the control loop sets in motion."""

    def __init__(
        self,
        executor: Executor,
        counts: CountSource,
        probes: CapabilitySource,
        southbound: OvnSource,
        zone_list: ZoneListSource,
    ) -> None:
        self._executor = executor
        self._counts = counts
        self._probes = probes
        self._southbound = southbound
        self._zone_list = zone_list

    def flush(self, work: Work) -> None:
        self._executor.submit(work)

    def clear(self, clearance: Clearance) -> None:
        self._executor.clear(clearance)

    def keep(self, keep: Keep) -> None:
        self._counts.keep = keep

    def count(self) -> None:
        self._counts.request()

    def probe(self) -> None:
        self._probes.request()

    def watch_zone_list(self, *, is_wanted: bool) -> None:
        self._zone_list.watch(is_wanted=is_wanted)

    def set_southbound(self, remote: str | None) -> None:
        self._southbound.set_remote(remote)


class Agent:
    """One agent. `run` blocks in the calling thread, which must be the main one (signals)."""

    def __init__(self, settings: Settings, config_file: Path | None) -> None:
        self._settings = settings
        self._state_dir = Path(settings.state.dir)
        self._journal = Journal(self._state_dir)
        self._published = _Published()
        self._died: str | None = None

        costs = FlushCosts()
        reader = KernelReader(clock.now, costs=costs)
        self._reader = LocalOvsdbReader(settings.ovs.db, settings.ovs.bridge, clock.now)
        self._executor = Executor(
            self._reader,
            reader.look_up,
            self._journal,
            self._report,
            clock.now,
            remember_request=partial(state_files.add_done_request, self._state_dir),
            claimed_in_memory=partial(claimed_in_memory, Path(settings.ovn.rundir)),
        )
        counts = CountSource(settings.count, reader, self._report, clock.now)
        probes = CapabilitySource(reader, self._vswitchd_socket, listens_here, self._report)
        zone_list = ZoneListSource(Path(settings.ovn.rundir), self._report, clock.now)
        southbound = OvnSource(OvnDatabase.SOUTHBOUND, settings.ovn, self._report, clock.now)
        northbound = OvnSource(OvnDatabase.NORTHBOUND, settings.ovn, self._report, clock.now)
        self._loop = ControlLoop(
            Planner(settings.flush.policy(), state_files.done_requests(self._state_dir)),
            _Effects(self._executor, counts, probes, southbound, zone_list),
            KernelDeleter(clock.now, costs=costs),
            self._published.set,
            clock.now,
            stall_timeout_s=settings.stalls.timeout_s,
        )
        rundirs = Path(settings.ovs.rundir), Path(settings.ovn.rundir)
        self._threads: dict[str, _Running] = {
            "executor": self._executor,
            "local-ovsdb": LocalOvsdbSource(settings.ovs, self._report, clock.now),
            "southbound": southbound,
            "northbound": northbound,
            "zone-list": zone_list,
            "counts": counts,
            "capabilities": probes,
            "stalls": MainLoopProber(settings.stalls, *rundirs, self._report, clock.now, Path(settings.paths.procfs)),
            "logs": LogFollower(
                {Daemon.VSWITCHD: Path(settings.ovs.log), Daemon.OVN_CONTROLLER: Path(settings.ovn.log)},
                self._report,
                clock.now,
            ),
            "flusher-lock": FlusherLockSource(self._report, self._open_journal),
        }
        if config_file is not None:
            self._threads["policy"] = PolicySource(config_file, settings.flush, self._report)
        self._web = WebServer(
            settings.web,
            self._published.get,
            reader.table_stats,
            clock.now,
            metrics=settings.metrics,
            load_web_config=load_plain,
        )
        commands = Commands(self._published.get, self._loop.ask_flush, self._set_paused)
        self._control = ControlServer(Path(settings.control.socket), commands.handlers())

    def run(self) -> int:
        """Run until SIGTERM or SIGINT, or until a thread dies. Returns the exit code.

        Raises:
            UnavailableError: a listen address is taken; nothing was started.
        """
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._web.start()
        _log.info("ctctl starts", version=ctctl.__version__, listen=_shown(self._web.addresses))
        self._start_control()
        if state_files.is_paused(self._state_dir):
            self._report(PauseChanged(is_paused=True))
        threads = [self._thread(name, part) for name, part in self._threads.items()]
        with _signals(self._loop.stop), _deaths(self._thread_died):
            for thread in threads:
                thread.start()
            self._loop.run()
            _log.info("ctctl stops", why=self._died or "signal")
        self._stop(threads)
        return 0 if self._died is None else 1

    def _report(self, event: object) -> None:
        self._loop.report(event)  # type: ignore[arg-type]  # sources are built before the loop they report to

    def _vswitchd_socket(self) -> str:
        return str(control_sockets(Path(self._settings.ovs.rundir), Daemon.VSWITCHD)[0].path)

    def _open_journal(self) -> None:
        """Only the flusher does: two agents may share a state directory while one replaces the other. What the former
        one wrote there while this one stood by counts from now on, and so does the control socket that it gave up.
        """
        self._report(PauseChanged(is_paused=state_files.is_paused(self._state_dir)))
        if not self._control.is_serving:
            with suppress(UnavailableError):  # said at the start; whoever has it now may give it up later
                self._control.start()
        try:
            lines = self._journal.open(clock.now())
        except UnavailableError as error:
            self._report(JournalOpened((), why_not=str(error)))
            return
        interrupted = tuple((_number(line), str(line.get("owner") or "")) for line in lines)
        done = state_files.done_requests(self._state_dir)
        self._report(JournalOpened(interrupted, done_requests=done))

    def _start_control(self) -> None:
        try:
            self._control.start()
        except UnavailableError as error:
            self._loop.narrator.note(f"the command line cannot reach this agent: {error}", clock.now(), is_warning=True)

    def _set_paused(self, *, is_paused: bool) -> None:
        if is_paused:
            self._report(PauseChanged(is_paused=True))  # first: what stops flushes must not depend on a disk
            state_files.set_paused(self._state_dir, is_paused=True)
        else:
            state_files.set_paused(self._state_dir, is_paused=False)
            self._report(PauseChanged(is_paused=False))

    def _thread(self, name: str, part: _Running) -> threading.Thread:
        return threading.Thread(target=part.run, name=name, daemon=True)

    def _thread_died(self, death: threading.ExceptHookArgs) -> None:
        """An agent that lost a part of itself, the server's or a library's thread too, must not look healthy."""
        name = "unnamed" if death.thread is None else death.thread.name
        _log.error("a thread died; the agent ends", thread=name, exc_info=death.exc_value)
        self._died = f"thread {name} died"
        self._loop.stop()

    def _stop(self, threads: list[threading.Thread]) -> None:
        # Before the lock is let go: whoever takes it next binds the same control socket.
        self._control.stop()
        for part in self._threads.values():
            part.stop()
        self._web.stop()
        deadline = clock.now().boot_s + JOIN_TIMEOUT_S
        for thread in threads:
            thread.join(timeout=max(0.0, deadline - clock.now().boot_s))
        self._reader.close()
        self._journal.close()


@contextmanager
def _deaths(hook: Callable[[threading.ExceptHookArgs], None]) -> Iterator[None]:
    former, threading.excepthook = threading.excepthook, hook
    try:
        yield
    finally:
        threading.excepthook = former


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    def handler(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop()

    former = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, action in former.items():
            signal.signal(number, action)


def _shown(addresses: tuple[tuple[str, int], ...]) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)


def _number(line: Mapping[str, object]) -> int:
    """The zone of a journal line; 0 for a line that somebody wrote by hand."""
    zone = line.get("zone")
    return zone if isinstance(zone, int) else 0
