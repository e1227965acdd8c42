"""A real agent in a private namespace: configured, started, asked, stopped and killed as an operator would.

`with LabAgent(namespace, ovn) as agent:` is ready when the block begins: it has its first map and its first count.
Without `ovn` it runs on a host without OVS.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import yaml
from prometheus_client.parser import text_string_to_metric_families

from ctctl.clients.control import ask
from ctctl.errors import CtctlError
from ctctl.model.ovn import OvnDatabase
from tests.lab.daemon import wait_until
from tests.lab.namespace import Namespace
from tests.lab.ovn import Ovn

PROGRAM = (sys.executable, "-m", "ctctl")
END_TIMEOUT_S = 15.0
CONTROLLER_LOG = "ovn-controller.log"

Settings = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer; `seconds` from connecting to the last byte."""

    status: int
    body: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Samples:
    """One scrape, parsed."""

    by_series: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    @classmethod
    def parse(cls, exposition: str) -> Self:
        """From the text format."""
        families = text_string_to_metric_families(exposition)
        return cls({(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples})

    def get(self, name: str, **labels: str) -> float | None:
        """The series with exactly these labels, None without it."""
        return self.by_series.get((name, frozenset(labels.items())))

    def all(self, name: str, **labels: str) -> dict[frozenset[tuple[str, str]], float]:
        """Every series of this name that has at least these labels."""
        wanted = labels.items()
        return {found: v for (n, found), v in self.by_series.items() if n == name and wanted <= found}

    def sum(self, name: str, **labels: str) -> float:
        """The sum of `all`, 0 without any."""
        return sum(self.all(name, **labels).values())


class LabAgent:
    """One agent of a namespace. `settings` is laid over what the lab needs, section by section.

    `name` tells several agents of one namespace apart: each has its own configuration, state, socket and log. They
    need different `port`s.
    """

    def __init__(
        self,
        namespace: Namespace,
        ovn: Ovn | None = None,
        settings: Settings | None = None,
        *,
        name: str = "agent",
        port: int = 10779,
    ) -> None:
        self.namespace = namespace
        self.port = port
        self.directory = namespace.directory / name
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config = self.directory / "ctctl.yaml"
        self.state_dir = self.directory / "state"
        self.socket = self.directory / "control.sock"
        self.log_file = self.directory / "log"
        self.ready_seconds = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        rundir = namespace.directory / "no-ovs"
        self._needs: dict[str, dict[str, Any]] = {
            "ovs": {"db": f"unix:{rundir}/db.sock", "rundir": str(rundir), "log": f"{rundir}/log"},
            "ovn": {"rundir": str(rundir)},
            "state": {"dir": str(self.state_dir)},
            "control": {"socket": str(self.socket)},
            # A dump walks the whole machine's table, other tests' entries included: here it may cost what it costs.
            "count": {"interval": "1s", "max_cpu_ratio": 1.0},
            "web": {"listen_addresses": [f"127.0.0.1:{port}"]},
        }
        if ovn is not None:
            self._needs["ovs"] = {"db": ovn.ovs_db, "rundir": str(ovn.ovs_rundir), "log": str(ovn.ovs_log)}
            self._needs["ovn"] = {"rundir": str(ovn.ovn_rundir), "log": str(ovn.chassis.ovn_logdir / CONTROLLER_LOG)}
        self.configure(settings or {})

    # Life.

    def configure(self, settings: Settings) -> None:
        """Write the configuration file anew, as a whole and at once; a running agent re-reads its `flush:`."""
        merged = {section: {**self._needs.get(section, {}), **values} for section, values in settings.items()}
        draft = self.config.with_suffix(".new")
        draft.write_text(yaml.safe_dump({**self._needs, **merged}))
        draft.replace(self.config)

    def launch(self) -> subprocess.Popen[bytes]:
        """Start it without waiting for anything."""
        with self.log_file.open("ab") as log:
            argv = [*PROGRAM, "agent", "--config", str(self.config)]
            self._process = self.namespace.popen(argv, stdout=log, stderr=log)
        return self._process

    def start(self, *, timeout_s: float = 30.0) -> Self:
        """Start it and return when `/-/ready` says yes; `ready_seconds` is how long that took."""
        begun = time.monotonic()
        self.launch()
        self.wait_until_ready(timeout_s=timeout_s)
        # What a database shows when it speaks for the first time is nothing new: scenes begin after that.
        with contextlib.suppress(TimeoutError):
            self._wait(lambda: len(self.databases()) == len(OvnDatabase), "every database to be heard", 10.0)
        self.ready_seconds = time.monotonic() - begun
        return self

    def wait_until_serving(self, *, timeout_s: float = 30.0) -> None:
        """Return when it answers HTTP at all."""
        self._wait(lambda: self.get("/-/healthy").status == 200, "the agent to serve", timeout_s)

    def wait_until_ready(self, *, timeout_s: float = 30.0) -> None:
        """Return when `/-/ready` says yes."""
        self._wait(lambda: self.get("/-/ready").status == 200, "the agent to be ready", timeout_s)

    def _wait(self, is_true: Any, what: str, timeout_s: float) -> None:
        def holds() -> bool:
            if self._process is not None and self._process.poll() is not None:
                raise RuntimeError(f"the agent ended with {self._process.returncode}:\n{self.log()}")
            try:
                return bool(is_true())
            except (OSError, CtctlError):
                return False

        try:
            wait_until(holds, what, timeout_s)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; its log:\n{self.log()}") from error

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process as the owner of the namespace knows it."""
        assert self._process is not None, "not started"
        return self._process

    @property
    def is_running(self) -> bool:
        """Claims that it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def stop(self) -> tuple[int, float]:
        """End it with SIGTERM. Returns its exit code and how many seconds it took."""
        begun = time.monotonic()
        self.process.terminate()
        return self.process.wait(END_TIMEOUT_S), time.monotonic() - begun

    def kill9(self) -> None:
        """End it as a crash would; its socket and journal stay behind."""
        self.process.kill()
        self.process.wait(END_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_running:
            self.process.send_signal(signal.SIGCONT)
            self.stop()

    # Asking it.

    def get(self, path: str, *, timeout_s: float = 10.0) -> Reply:
        """HTTP GET from inside the namespace.

        Raises:
            OSError: nobody listens, or no answer within `timeout_s`.
        """
        return self.namespace.call(_get, self.port, path, timeout_s)

    def databases(self) -> dict[str, str]:
        """Every database that something is known of, by name: connected, lost or not read."""
        status = cast("dict[str, Any]", ask(self.socket, {"command": "status"}, timeout_s=10.0))
        return dict(status["databases"])

    def metrics(self) -> Samples:
        """One scrape."""
        return Samples.parse(self.get("/metrics").body)

    def run(self, *arguments: str, stdin: str = "", timeout_s: float = 90.0) -> subprocess.CompletedProcess[str]:
        """Run the command line inside, with this agent's configuration, as text."""
        argv = [*PROGRAM, *arguments, "--config", str(self.config)]
        return self.namespace.run(argv, stdin=stdin, check=False, timeout_s=timeout_s)

    def ctl(self, *arguments: str) -> tuple[int, Any]:
        """Run the command line with `-o json`; exit code and what it printed, None for nothing."""
        done = self.run(*arguments, "-o", "json")
        return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """What `ctctl events` shows, oldest first; only of one kind where that is named.

        Asked without a process of its own, because waiting for an event asks often.
        """
        found = cast("list[dict[str, Any]]", ask(self.socket, {"command": "events"}, timeout_s=10.0))
        return [event for event in found if kind in (None, event["kind"])]

    def wait_for_event(self, kind: str, *words: str, count: int = 1, timeout_s: float = 20.0) -> list[dict[str, Any]]:
        """At least `count` events of a kind whose text has all of `words`.

        Raises:
            TimeoutError: there were fewer.
        """
        found: list[dict[str, Any]] = []

        def are_there() -> bool:
            found[:] = [e for e in self.events(kind) if all(word in e["text"] for word in words)]
            return len(found) >= count

        self._wait(are_there, f"{count} {kind} events with {' '.join(words)}", timeout_s)
        return found

    def wait_for_metric(self, claim: Any, what: str, *, timeout_s: float = 20.0) -> Samples:
        """The first scrape of which `claim(samples)` holds."""
        found: list[Samples] = []

        def holds() -> bool:
            found[:] = [self.metrics()]
            return bool(claim(found[0]))

        self._wait(holds, what, timeout_s)
        return found[0]

    def log(self) -> str:
        """Everything it has logged, over all its lives."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def log_lines(self, *words: str) -> list[str]:
        """Lines of the log that have all of `words`."""
        return [line for line in self.log().splitlines() if all(word in line for word in words)]

    def journal(self) -> list[dict[str, Any]]:
        """The lines of the journal."""
        path: Path = self.state_dir / "journal.jsonl"
        lines: Iterable[str] = path.read_text().splitlines() if path.exists() else ()
        return [json.loads(line) for line in lines]


def _get(port: int, path: str, timeout_s: float) -> Reply:
    begun = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode()
    finally:
        connection.close()
    return Reply(response.status, body, time.monotonic() - begun)
