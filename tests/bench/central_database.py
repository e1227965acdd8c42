"""What agents cost a central Southbound server: N simulated agents with the very requests of a real one.

`python -m tests.bench.central_database [--agents 200] [--datapaths 10000] [--suite trixie]` prints a table. One real
source is recorded through a proxy; its requests are then replayed on N connections over TCP, which read and discard
what the server sends and ask for a sign of life as often as an agent does. The server's own CPU time and memory are
taken from /proc, so other load on the machine changes little.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ctctl.clients.clock import now
from ctctl.model.events import Event, OvnViewRead
from ctctl.model.ovn import OvnDatabase
from ctctl.sources.ovn import OvnSettings, OvnSource
from ctctl.wire.jsonrpc import JsonStream, Request, encode_request
from tests.lab.debian import ovn_tree
from tests.lab.ovsdb_server import OvsdbServer, free_port, ovs_map

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PHASE_S = 10.0
CHANGES_PER_S = 10


@dataclass
class Recording:
    """The requests that a source sent on the connection of its replica, and the bytes of its first content."""

    requests: list[Request] = field(default_factory=list)
    answered_bytes: int = 0


@dataclass(frozen=True)
class Usage:
    """The server's processor seconds and resident bytes at one moment."""

    cpu_s: float
    resident: int

    @classmethod
    def of(cls, pid: int) -> Usage:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return cls((int(fields[11]) + int(fields[12])) / TICKS, int(fields[21]) * PAGE)


def fill(server: OvsdbServer, datapaths: int) -> None:
    """Routers with names as Neutron gives them."""
    for begin in range(0, datapaths, 2000):
        server.transact(*(insert(key) for key in range(begin + 1, min(begin + 2000, datapaths) + 1)))


def insert(tunnel_key: int) -> dict[str, object]:
    router = str(uuid.uuid4())
    ids = {"logical-router": router, "name": f"neutron-{router}", "name2": f"router-{tunnel_key}"}
    return {
        "op": "insert",
        "table": "Datapath_Binding",
        "row": {"tunnel_key": tunnel_key, "external_ids": ovs_map(ids)},
    }


@dataclass(frozen=True)
class SourceCost:
    """Of a real source: processor seconds and megabytes for the first view, and its share of a core after that."""

    first_s: float
    first_mb: float
    later_ratio: float


def run_source(address: str, seconds: float) -> SourceCost:
    """A real source for a while."""
    first = threading.Event()
    first_s: list[float] = []
    total_s: list[float] = []
    resident_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def report(event: Event) -> None:
        if isinstance(event, OvnViewRead):
            first_s.append(time.thread_time())
            first.set()

    source = OvnSource(OvnDatabase.SOUTHBOUND, OvnSettings(remote=address), report, now)

    def run() -> None:
        source.run()
        total_s.append(time.thread_time())

    thread = threading.Thread(target=run)
    thread.start()
    first.wait(60)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident_kb
    time.sleep(seconds)
    source.stop()
    thread.join()
    return SourceCost(first_s[0], grown_kb / 1024, (total_s[0] - first_s[0]) / seconds)


def change_for_a_while(server: OvsdbServer, first_key: int) -> None:
    """New datapaths, one by one, during one phase; gone again afterwards."""
    for i in range(int(PHASE_S * CHANGES_PER_S)):
        server.transact(insert(first_key + i))
        time.sleep(1 / CHANGES_PER_S)


def forget_changes(server: OvsdbServer, first_key: int) -> None:
    server.transact({"op": "delete", "table": "Datapath_Binding", "where": [["tunnel_key", ">=", first_key]]})


def record(port: int) -> Recording:
    """What a source asks: on a first connection for the schema, on a second for its replica."""
    recording = Recording()
    listener = socket.create_server(("127.0.0.1", 0))
    proxy_port = listener.getsockname()[1]

    def relay(receiver: socket.socket, sender: socket.socket, look: Callable[[bytes], None]) -> None:
        while data := receiver.recv(1 << 16):
            look(data)
            sender.sendall(data)
        sender.shutdown(socket.SHUT_WR)

    def serve() -> None:
        for _ in range(2):
            client, _ = listener.accept()
            upstream = socket.create_connection(("127.0.0.1", port))
            stream = JsonStream()

            def asked(data: bytes, stream: JsonStream = stream) -> None:
                messages = [message for message in stream.feed(data) if isinstance(message, Request)]
                recording.requests.extend(message for message in messages if message.method != "echo")

            def answered(data: bytes) -> None:
                recording.answered_bytes += len(data)

            threading.Thread(target=relay, args=(client, upstream, asked), daemon=True).start()
            threading.Thread(target=relay, args=(upstream, client, answered), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    run_source(f"tcp:127.0.0.1:{proxy_port}", 0.5)
    listener.close()
    return recording


class Agents:
    """N connections that ask what was recorded."""

    def __init__(self, port: int, recording: Recording, count: int) -> None:
        self._port = port
        self._recording = recording
        self._count = count
        self.received = [0] * count
        self.answers = 0

    async def connect(self) -> None:
        """All at once, as after a server's restart; returns when every agent has its first content."""
        self._pipes = await asyncio.gather(
            *(asyncio.open_connection("127.0.0.1", self._port) for _ in range(self._count))
        )
        self._readers = [asyncio.create_task(self._read(i)) for i in range(self._count)]
        for _, writer in self._pipes:
            for request_id, request in enumerate(self._recording.requests):
                params = list(request.params)
                if request.method.startswith("monitor"):
                    params[1] = str(uuid.uuid4())  # the monitor's name, which is the client's choice
                writer.write(encode_request(request.method, params, request_id))
        while min(self.received) < self._recording.answered_bytes * 0.98:  # noqa: ASYNC110 - a benchmark may poll
            await asyncio.sleep(0.01)

    async def _read(self, number: int) -> None:
        reader = self._pipes[number][0]
        while data := await reader.read(1 << 18):
            self.received[number] += len(data)

    async def stay(self, seconds: float) -> None:
        """Ask for a sign of life as an agent does, spread over the interval."""
        end = time.monotonic() + seconds
        pause = OvnSettings().probe_interval_s / self._count
        number = 0
        while time.monotonic() < end:
            self._pipes[number % self._count][1].write(encode_request("echo", [], 99))
            number += 1
            await asyncio.sleep(pause)

    async def close(self) -> None:
        for _, writer in self._pipes:
            writer.close()
        await asyncio.gather(*self._readers)


async def measure(server: OvsdbServer, port: int, recording: Recording, count: int, datapaths: int) -> dict[str, float]:
    assert server.process is not None
    pid = server.process.pid
    before = Usage.of(pid)
    begun = time.monotonic()
    agents = Agents(port, recording, count)
    await agents.connect()
    connected, storm_s = Usage.of(pid), time.monotonic() - begun
    await agents.stay(PHASE_S)
    idle = Usage.of(pid)

    changing = asyncio.get_running_loop().run_in_executor(None, change_for_a_while, server, datapaths + 1)
    received = sum(agents.received)
    await agents.stay(PHASE_S)
    await changing
    changed = Usage.of(pid)
    told = sum(agents.received) - received
    await agents.close()
    forget_changes(server, datapaths + 1)
    return {
        "agents": count,
        "first content, server CPU ms per agent": (connected.cpu_s - before.cpu_s) / count * 1e3,
        "first content for all, s": storm_s,
        "first content, kB per agent": recording.answered_bytes / 1e3,
        "server memory, kB per agent": (connected.resident - before.resident) / count / 1e3,
        "quiet, server CPU % of a core": (idle.cpu_s - connected.cpu_s) / PHASE_S * 100,
        f"{CHANGES_PER_S} changes/s, server CPU % of a core": (changed.cpu_s - idle.cpu_s) / PHASE_S * 100,
        "a change, bytes per agent": told / count / (PHASE_S * CHANGES_PER_S),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[1, 50, 200])
    parser.add_argument("--datapaths", type=int, default=10_000)
    parser.add_argument("--suite", default="trixie")
    chosen = parser.parse_args()
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        server = OvsdbServer(
            ovn_tree(chosen.suite), Path(directory), "OVN_Southbound", remotes=[f"ptcp:{port}:127.0.0.1"]
        )
        with server.create().start():
            fill(server, chosen.datapaths)
            # Each source in a process of its own, whose memory is only its own.
            fresh = {"max_workers": 1, "mp_context": multiprocessing.get_context("spawn")}
            with ProcessPoolExecutor(**fresh) as quiet_process, ProcessPoolExecutor(**fresh) as changing_process:
                quiet = quiet_process.submit(run_source, server.address, PHASE_S).result()
                following = changing_process.submit(run_source, server.address, PHASE_S + 2.0)
                time.sleep(2.0)
                change_for_a_while(server, chosen.datapaths + 1)
                changing = following.result()
            forget_changes(server, chosen.datapaths + 1)
            print(f"one real source, {chosen.datapaths} datapaths")
            print(f"first view: {quiet.first_s:.2f} s CPU, {quiet.first_mb:.0f} MB")
            print(f"share of a core: {quiet.later_ratio:.2%} quiet")
            print(f"share of a core: {changing.later_ratio:.1%} at {CHANGES_PER_S} changes/s")
            recording = record(port)
            print("requests:", ", ".join(request.method for request in recording.requests))
            results = [
                asyncio.run(measure(server, port, recording, count, chosen.datapaths)) for count in chosen.agents
            ]
    for name in results[0]:
        print(f"| {name} | " + " | ".join(f"{result[name]:.4g}" for result in results) + " |")


if __name__ == "__main__":
    main()
