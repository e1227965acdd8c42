"""The HTTP server under attack: bounded in connections, time and bytes, and `/-/healthy` answers within a second.

Crowds are processes of their own. No root is needed, only a machine with that many loopback sockets to spare.
"""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ctctl.metrics.collectors import MetricsSettings
from ctctl.metrics.routes import MAX_WAITING
from ctctl.metrics.web import WebServer
from ctctl.metrics.web_settings import WebSettings
from ctctl.model.ids import ZoneId
from ctctl.model.snapshot import Snapshot
from ctctl.model.zone import Zone, ZoneKind
from tests.host.crowd import crowd
from tests.metrics.certificates import Authority
from tests.metrics.serving import LOOPBACK, ask, connect, said, serving, until_closed
from tests.metrics.snapshots import NOW, busy_snapshot, count_of, table_stats
from tests.metrics.snapshots import replace as changed

pytestmark = pytest.mark.host

CROWD = 10_000
PATIENCE_S = 1.0


@pytest.fixture(autouse=True)
def _ahead_of_others() -> Iterator[None]:
    """The server gets its share of the CPUs whatever else this machine does; its attackers are elsewhere."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    yield
    os.setpriority(os.PRIO_PROCESS, 0, before)


def starved_so_far_s() -> float:
    """Seconds that threads of this process were ready to run while other processes had the CPUs."""
    waited_ns = 0
    for statistics in Path("/proc/self/task").glob("*/schedstat"):
        # A thread may end between being listed and being read.
        with suppress(OSError):
            waited_ns += int(statistics.read_text().split()[1])
    return waited_ns / 1e9


@dataclass
class Watch:
    """Asks `/-/healthy` over and over, on a new connection each time.

    `took_s`: without the time this machine had no CPU to spare for the server or for asking.
    """

    server: WebServer
    tls: ssl.SSLContext | None = None
    took_s: list[float] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    repeated: int = 0
    should_end: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.should_end.is_set():
            began, starved_s = time.perf_counter(), starved_so_far_s()
            while True:
                try:
                    assert ask(self.server, "/-/healthy", tls=self.tls, timeout_s=10).status == 200
                except ConnectionError:
                    # Made to leave for being slower than a crowd: asked again, in the same second.
                    self.repeated += 1
                except (OSError, AssertionError) as failure:
                    self.failures.append(failure)
                    break
                else:
                    break
            starved_s = starved_so_far_s() - starved_s
            self.took_s.append(max(0.0, time.perf_counter() - began - starved_s))


@contextmanager
def healthy_within_a_second(server: WebServer, tls: ssl.SSLContext | None = None) -> Iterator[Watch]:
    watch = Watch(server, tls)
    thread = threading.Thread(target=watch.run)
    thread.start()
    try:
        yield watch
    finally:
        watch.should_end.set()
        thread.join()
    assert not watch.failures
    assert watch.took_s
    assert watch.repeated <= len(watch.took_s) / 20
    assert max(watch.took_s) < PATIENCE_S, f"slowest of {len(watch.took_s)}: {max(watch.took_s):.2f} s"


def dropped(server: WebServer, reason: str) -> int:
    guard = server._guard
    assert guard is not None
    return guard.drops[reason]


def open_now(server: WebServer) -> int:
    guard = server._guard
    assert guard is not None
    return guard.count


def wait_for(is_so: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_ten_thousand_silent_connections_take_no_more_places_than_there_are() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CROWD + 100:
        pytest.skip(f"needs a hard RLIMIT_NOFILE of {CROWD + 100}, has {hard}")
    settings = WebSettings(LOOPBACK, header_timeout_s=60.0)
    with serving(settings) as server, healthy_within_a_second(server) as watch:
        with crowd(server.addresses[0], CROWD):
            wait_for(lambda: dropped(server, "evicted") >= CROWD - settings.max_connections)
            assert open_now(server) <= settings.max_connections
            answered = len(watch.took_s)
            wait_for(lambda: len(watch.took_s) > answered + 5)
            assert ask(server, "/metrics").status == 200
        print(f"{len(watch.took_s)} probes, slowest {max(watch.took_s):.3f} s")


def test_a_slow_loris_is_ended_at_the_deadline_however_steadily_it_feeds() -> None:
    with serving(WebSettings(LOOPBACK, header_timeout_s=0.5)) as server, healthy_within_a_second(server):
        began = time.monotonic()
        with ExitStack() as stack:
            peers = [stack.enter_context(connect(server)) for _ in range(300)]
            open_peers = dict.fromkeys(peers)
            for peer in peers:
                peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
            while open_peers:
                assert time.monotonic() - began < 20
                for peer in list(open_peers):
                    try:
                        peer.sendall(b"X-A: b\r\n")
                    except OSError:
                        del open_peers[peer]
                time.sleep(0.02)
        assert dropped(server, "deadline") == 300


def test_headers_fed_byte_by_byte_end_in_a_408() -> None:
    with serving(WebSettings(LOOPBACK, header_timeout_s=0.3)) as server, connect(server) as peer:
        heard = b""
        for letter in b"GET /metrics HTTP/1.1\r\nHost: x\r\n" * 100:
            readable, _, _ = select.select([peer], [], [], 0.01)
            if readable:
                heard = until_closed(peer)
                break
            peer.sendall(bytes([letter]))
        assert heard.startswith(b"HTTP/1.1 408 Request Timeout")


def test_a_second_request_that_never_ends_is_ended_like_a_first() -> None:
    with serving(WebSettings(LOOPBACK, header_timeout_s=0.3)) as server, connect(server) as peer:
        peer.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in peer.recv(4096)
        wait_for(lambda: open_now(server) == 1)
        time.sleep(0.6)
        peer.sendall(b"GET /-/hea")
        heard = until_closed(peer)
        assert heard.removeprefix(b"healthy\n").startswith(b"HTTP/1.1 408")
        assert dropped(server, "deadline") == 1


def test_a_connection_may_rest_between_scrapes_but_not_for_ever() -> None:
    with serving(WebSettings(LOOPBACK, header_timeout_s=0.1, idle_timeout_s=0.6)) as server, connect(server) as peer:
        for _ in range(2):
            peer.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
            heard = b""
            while not heard.endswith(b"healthy\n"):
                heard += peer.recv(4096)
            time.sleep(0.3)
        assert until_closed(peer) == b""


def test_tls_clients_that_never_speak_neither_fill_the_server_nor_stop_others(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path)
    cert, key = authority.issue("server")
    config = tmp_path / "web.json"
    config.write_text(json.dumps({"tls_server_config": {"cert_file": str(cert), "key_file": str(key)}}))
    settings = WebSettings(LOOPBACK, config_file=str(config), max_connections=200, header_timeout_s=30.0)
    trusting = ssl.create_default_context(cafile=authority.certificate)
    with (
        serving(settings, load=lambda path: json.loads(Path(path).read_text())) as server,
        healthy_within_a_second(server, trusting) as watch,
        crowd(server.addresses[0], 600, b"", b"\x16\x03\x01\x02\x00\x01"),
    ):
        answered = len(watch.took_s)
        wait_for(lambda: len(watch.took_s) > answered + 5)
        assert open_now(server) <= settings.max_connections
        assert dropped(server, "evicted") >= 300


def test_a_thousand_scrapers_at_once_take_no_place_from_a_probe() -> None:
    with serving(WebSettings(LOOPBACK, max_connections=200)) as server, healthy_within_a_second(server) as watch:
        with crowd(server.addresses[0], 1_000, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"):
            answered = len(watch.took_s)
            wait_for(lambda: len(watch.took_s) > answered + 5)
        assert ask(server, "/metrics").status == 200


def test_scrapes_that_wait_for_a_hanging_one_are_bounded_in_number() -> None:
    release = threading.Event()

    def hanging() -> Snapshot:
        if threading.current_thread().name.startswith("ctctl-exposition"):
            release.wait(60)
        return busy_snapshot()

    settings = WebSettings(LOOPBACK, max_connections=MAX_WAITING + 36)
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Prometheus-Scrape-Timeout-Seconds: 60\r\n\r\n"
    with serving(settings, snapshot=hanging) as server, ExitStack() as stack:
        try:
            peers = [stack.enter_context(connect(server)) for _ in range(MAX_WAITING + 20)]
            for peer in peers:
                peer.sendall(request)
            readable: list[socket.socket] = []
            while len(readable) < 20:
                readable, _, _ = select.select(peers, [], [], 20)
            assert all(b" 503 " in peer.recv(4096) for peer in readable)
            assert len(readable) == 20
            assert ask(server, "/-/healthy").status == 200
        finally:
            release.set()


def test_a_peer_that_does_not_read_its_answer_is_ended_at_the_deadline() -> None:
    zones = tuple(Zone(ZoneId(n), ZoneKind.PORT, f"port-{n}-{'x' * 200}", f"p{n}") for n in range(1, 15_000))
    large = changed(busy_snapshot(), zones=zones, count=count_of(dict.fromkeys(range(1, 15_000), 1)))
    server = WebServer(
        WebSettings(LOOPBACK, send_timeout_s=0.5),
        lambda: large,
        table_stats,
        lambda: NOW,
        metrics=MetricsSettings(max_zone_series=15_000),
    )
    server.start()
    try:
        with socket.socket() as peer, healthy_within_a_second(server):
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.connect(server.addresses[0])
            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_for(lambda: dropped(server, "deadline") == 1, seconds=60)
        wait_for(lambda: open_now(server) == 0)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("request_bytes", "statuses"),
    [
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n", (400, 431)),
        (b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n\r\n", (400, 414, 431)),
        (b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 100_000 + b"\r\n", (400, 431)),
        (b"a" * 1_000_000, (400, 431)),
        (b"\r\n" * 500_000, (400, 431)),
        (b"\0" * 1_000, (400, 431)),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500, (400, 431)),
    ],
    ids=["header", "path", "many headers", "no line", "empty lines", "zeros", "TLS hello"],
)
def test_a_giant_or_senseless_request_is_refused_and_costs_no_more_than_its_bound(
    request_bytes: bytes, statuses: tuple[int, ...]
) -> None:
    with serving(WebSettings(LOOPBACK, header_timeout_s=1.0)) as server, connect(server) as peer:
        heard = b""
        try:
            peer.sendall(request_bytes)
        except OSError:
            # Refused before it had said everything.
            heard = b""
        heard = until_closed(peer)
        # A refusal may be lost where the kernel resets a connection with unread bytes.
        assert not heard or int(heard.split(b" ")[1]) in statuses
        assert ask(server, "/-/healthy").status == 200


@pytest.mark.parametrize(
    "target",
    [
        b"/../../etc/passwd", b"//metrics", b"/metrics/", b"/%2e%2e/metrics", b"/metrics%00", b"/\xff\xfe", b"*",
        b"/-/healthy/../../", b"/x?" + b"%" * 100, b"http://[::1", b"http://x:99999/metrics", b"x", b"/%zz", b"\x7f",
        b"/metrics;x=y", b"javascript:alert(1)", b"/<script>",
    ],
)  # fmt: skip
def test_a_bad_path_is_not_found_or_refused(target: bytes) -> None:
    with serving() as server:
        heard = said(server, b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert int(heard.split(b" ")[1]) in (400, 404)
        assert b"<script>" not in heard
        assert ask(server, "/-/healthy").status == 200


@pytest.mark.parametrize("method", [b"FLUSH", b"G\0T", b"get", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_an_unknown_method_is_refused(method: bytes) -> None:
    with serving() as server:
        heard = said(server, method + b" /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert int(heard.split(b" ")[1]) in (400, 405)


def test_a_body_nobody_asked_for_is_not_read_to_its_end() -> None:
    with serving(WebSettings(LOOPBACK, header_timeout_s=1.0)) as server, connect(server) as peer:
        peer.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        sent = 0
        try:
            while sent < 50_000_000:
                sent += peer.send(b"a" * 65536)
        except OSError:
            sent += 0
        assert sent < 50_000_000
        assert ask(server, "/-/healthy").status == 200


def test_endless_pipelined_requests_end_with_the_bound_on_bytes() -> None:
    with serving() as server, healthy_within_a_second(server), connect(server) as peer:
        peer.settimeout(0.5)
        sent = 0
        try:
            while sent < 200_000_000:
                sent += peer.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
        except OSError:
            sent += 0
        assert sent < 200_000_000


def test_a_client_that_leaves_in_the_middle_of_its_answer_leaves_nothing_behind() -> None:
    with serving() as server:
        for _ in range(50):
            with connect(server) as peer:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_for(lambda: open_now(server) == 0)
        assert ask(server, "/metrics").status == 200
