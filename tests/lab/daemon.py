"""One OVS or OVN daemon in a namespace: started detached, found by its pidfile, asked through its control socket."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.namespace import Namespace

END_TIMEOUT_S = 10.0


class DaemonError(Exception):
    """A daemon did not start; says what it printed."""


def wait_until(is_true: Callable[[], bool], what: str, timeout_s: float = 10.0) -> None:
    """Look every 10 ms until a claim holds.

    Raises:
        TimeoutError: it did not in `timeout_s`; names `what` was waited for.
    """
    deadline = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}")
        time.sleep(0.01)


@dataclass(frozen=True, slots=True)
class LabDaemon:
    """How to start one daemon.

    `program`: its name in the tree's `bin/`. `label`: the name of its pidfile and log. `arguments`: what follows the
    common options. `unixctl`: its control socket where it is not `<program>.<pid>.ctl` in `rundir`.
    """

    namespace: Namespace
    tree: Path
    program: str
    label: str
    rundir: Path
    logdir: Path
    arguments: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    unixctl: Path | None = None

    @property
    def pidfile(self) -> Path:
        """Holds the daemon's process number as the namespace counts."""
        return self.rundir / f"{self.label}.pid"

    @property
    def log(self) -> Path:
        """The daemon's log file."""
        return self.logdir / f"{self.label}.log"

    @property
    def inner_pid(self) -> int:
        """Process number inside the namespace.

        Raises:
            ProcessLookupError: it has no pidfile, so it is not running.
        """
        try:
            return int(self.pidfile.read_text())
        except (FileNotFoundError, ValueError) as error:
            raise ProcessLookupError(f"{self.label} is not running: no {self.pidfile}") from error

    @property
    def host_pid(self) -> int:
        """Process number as the owner of the namespace counts."""
        return self.namespace.host_pid(self.inner_pid)

    @property
    def control_socket(self) -> Path:
        """Path of its unixctl socket."""
        return self.unixctl or self.rundir / f"{self.program}.{self.inner_pid}.ctl"

    @property
    def is_running(self) -> bool:
        """Claims that its process exists (stopped counts, dead and not yet reaped does not)."""
        try:
            status = Path(f"/proc/{self.host_pid}/stat").read_text(encoding="utf-8")
        except (ProcessLookupError, FileNotFoundError):
            return False
        return status.rpartition(")")[2].split()[0] != "Z"

    def launch(self) -> subprocess.Popen[bytes]:
        """Begin starting it; the returned process ends when the daemon serves."""
        unixctl = [f"--unixctl={self.unixctl}"] if self.unixctl else []
        return self.namespace.popen(
            [
                self.tree / "bin" / self.program,
                "--detach",
                "--no-chdir",
                f"--pidfile={self.pidfile}",
                f"--log-file={self.log}",
                "-vconsole:off",
                "-vsyslog:off",
                *unixctl,
                *self.arguments,
            ],
            env=self.env,
            stderr=subprocess.PIPE,
        )

    def start(self) -> None:
        """Start it and return when it serves."""
        finish(self.launch())

    def appctl(self, *command: str, timeout_s: float = 30.0) -> str:
        """Ask it through its control socket; the answer's text."""
        argv: list[str | Path] = [
            self.tree / "bin/ovs-appctl",
            f"--timeout={timeout_s:g}",
            "-t",
            self.control_socket,
            *command,
        ]
        return self.namespace.run(argv, env=self.env, timeout_s=timeout_s + 5).stdout

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal: SIGSTOP makes it hang, SIGCONT go on."""
        self.namespace.run(["kill", "-s", str(int(number)), str(self.inner_pid)])

    def stop(self) -> None:
        """End it for good, and wait until it is gone. ovn-controller then takes its chassis out of the Southbound."""
        self._exit()

    def restart(self) -> None:
        """Stop and start it as an upgrade does: ovn-controller leaves its chassis in the Southbound meanwhile."""
        self._exit(*(["--restart"] if self.program == "ovn-controller" else []))
        self.start()

    def _exit(self, *options: str) -> None:
        if self.is_running:
            pid = self.host_pid
            self.appctl("exit", *options)
            self._wait_gone(pid)

    def kill(self) -> None:
        """End it as a crash would (SIGKILL); its pidfile and socket stay behind."""
        pid = self.host_pid
        self.signal(signal.SIGKILL)
        self._wait_gone(pid)

    def _wait_gone(self, pid: int) -> None:
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), f"{self.label} to end", END_TIMEOUT_S)


def finish(*processes: subprocess.Popen[bytes]) -> None:
    """Wait for programs that were started together.

    Raises:
        DaemonError: one of them failed; with what it said.
    """
    for process in processes:
        with process:
            _, errors = process.communicate(timeout=30)
        if process.returncode != 0:
            raise DaemonError(f"{process.args!r} answered {process.returncode}: {(errors or b'').decode().strip()}")
