"""Real ovsdb-servers on their own: standalone, clustered and relays, on unix, tcp and ssl; no namespace needed.

Started as plain child processes in a directory of the caller's; a test drives and damages them, and `close` ends them.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

START_TIMEOUT_S = 20.0

DATABASES = {"Open_vSwitch": "vswitch", "OVN_Southbound": "ovn-sb", "OVN_Northbound": "ovn-nb"}


class OvsdbServer:
    """One ovsdb-server process and its database file, which outlives the process.

    `tree`: an unpacked OVN of the lab. `remotes`: passive addresses to listen at, beside the unix socket `socket`.
    """

    def __init__(
        self, tree: Path, directory: Path, database: str, *, name: str = "db", remotes: Sequence[str] = ()
    ) -> None:
        self.tree = tree
        self.database = database
        self.directory = directory
        self.name = name
        self.file = directory / f"{name}.db"
        self.socket = directory / f"{name}.sock"
        self.source = str(self.file)  # what the server serves: a file, or relay:DATABASE:ADDRESS
        self.options: list[str] = [f"--remote={remote}" for remote in remotes]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it listens, as an OVSDB address."""
        return f"unix:{self.socket}"

    @property
    def schema(self) -> Path:
        """The release's schema of this database."""
        return self.tree / "schema" / f"{DATABASES[self.database]}.ovsschema"

    def create(self) -> Self:
        """Make an empty standalone database, in place of the one that may be there."""
        self.file.unlink(missing_ok=True)
        self.run("ovsdb-tool", "create", str(self.file), str(self.schema))
        return self

    def create_cluster(self, raft_address: str, *peers: str) -> Self:
        """Make the first member of a clustered database, or one that joins the peers."""
        if peers:
            self.run("ovsdb-tool", "join-cluster", str(self.file), self.database, raft_address, *peers)
        else:
            self.run("ovsdb-tool", "create-cluster", str(self.file), str(self.schema), raft_address)
        return self

    def relay_of(self, address: str) -> Self:
        """Make this a relay of another server."""
        self.source = f"relay:{self.database}:{address}"
        return self

    def start(self) -> Self:
        """Start the process and wait until it answers."""
        self.socket.unlink(missing_ok=True)
        log = (self.directory / f"{self.name}.log").open("ab")
        with log:
            self.process = subprocess.Popen(
                [
                    self.tree / "bin" / "ovsdb-server",
                    self.source,
                    f"--remote=punix:{self.socket}",
                    f"--unixctl={self.directory / self.name}.ctl",
                    "--no-chdir",
                    "-vconsole:info",
                    "-vsyslog:off",
                    *self.options,
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        end = time.monotonic() + START_TIMEOUT_S
        while not _listens(self.socket):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"ovsdb-server {self.name} did not start: see {log.name}")
            time.sleep(0.01)
        return self

    def stop(self) -> None:
        """End the process as an operator would; the socket file goes with it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once; the socket file stays behind."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """A new process over the same file."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Stop the process without ending it: its connections stay open and say nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End the process if there is one, paused or not."""
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def transact(self, *operations: dict[str, Any]) -> list[dict[str, Any]]:
        """Carry the operations out in one transaction, of any size."""
        request = {"method": "transact", "id": 0, "params": [self.database, *operations]}
        received = b""
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(START_TIMEOUT_S)
            stream.connect(str(self.socket))
            stream.sendall(json.dumps(request).encode())
            while True:
                data = stream.recv(1 << 20)
                assert data, "the server closed the connection"
                received += data
                with contextlib.suppress(json.JSONDecodeError):
                    reply = json.loads(received)
                    break
        results: list[dict[str, Any]] = reply["result"]
        if reply["error"] or any(result.get("error") for result in results):
            raise RuntimeError(f"transaction failed: {reply}")
        return results

    def set_external_ids(self, table: str, content: dict[str, str], where: Sequence[Any] = ()) -> None:
        """Replace `external_ids` in all rows of a table, or in those that match."""
        self.transact({"op": "update", "table": table, "where": list(where), "row": {"external_ids": ovs_map(content)}})

    def appctl(self, *command: str) -> str:
        """Ask the process itself."""
        return self.run("ovs-appctl", "-t", f"{self.directory / self.name}.ctl", *command)

    def convert(self, schema: Path) -> None:
        """Convert the running database to another schema, which ends every monitor."""
        self.run("ovsdb-client", "convert", self.address, str(schema))

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of the same release; its output."""
        done = subprocess.run(
            [self.tree / "bin" / program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=START_TIMEOUT_S,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        self._signal(number)
        assert self.process is not None
        self.process.wait(START_TIMEOUT_S)


def ovs_map(content: dict[str, str]) -> list[Any]:
    """A text map in OVSDB's notation."""
    return ["map", [[key, value] for key, value in content.items()]]


@contextlib.contextmanager
def open_vswitch(tree: Path, directory: Path, *, name: str = "conf") -> Iterator[OvsdbServer]:
    """A running local database with a bridge br-int, as ovs-vsctl leaves it."""
    with OvsdbServer(tree, directory, "Open_vSwitch", name=name).create().start() as server:
        fill_open_vswitch(server)
        yield server


def fill_open_vswitch(server: OvsdbServer) -> None:
    """The rows that a fresh host has."""
    vsctl = ("ovs-vsctl", "--no-wait", f"--db={server.address}")
    server.run(*vsctl, "init")
    server.run(
        *vsctl, "add-br", "br-int", "--", "set", "Open_vSwitch", ".",
        "external_ids:system-id=ch1", "external_ids:ovn-remote=unix:/nowhere", "ovs_version=3.1.0",
    )  # fmt: skip


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def free_port() -> int:
    """A TCP port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _validity(days: int) -> list[str]:
    """OpenSSL 3.0 knows no dates here; 3.5 does, and refuses a negative number of days."""
    known = subprocess.run(["openssl", "x509", "-help"], capture_output=True, text=True, check=False)
    if days < 0 and "-not_after" in known.stdout + known.stderr:
        return ["-not_before", "20200101000000Z", "-not_after", "20200102000000Z"]
    return ["-days", str(days)]


class Pki:
    """A certificate authority for tests, made with openssl."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.key = directory / f"{name}.key"
        self.certificate = directory / f"{name}.pem"
        self._openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", str(self.key), "-out", str(self.certificate),
        )  # fmt: skip

    def issue(self, name: str, *, days: int = 1) -> tuple[Path, Path]:
        """A key and a certificate; with negative `days` one that has expired."""
        key, request, certificate = (self.directory / f"{name}.{end}" for end in ("key", "csr", "pem"))
        self._openssl(
            "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request),
        )  # fmt: skip
        self._openssl(
            "x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self.key),
            "-CAcreateserial", *_validity(days), "-out", str(certificate),
        )  # fmt: skip
        return key, certificate

    @staticmethod
    def _openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
