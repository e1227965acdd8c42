"""The HTTP server as its clients meet it: routes, status codes, addresses, the life of its thread."""

from __future__ import annotations

import gzip
import http.client
import socket
import threading
from dataclasses import replace

import pytest

from ctctl.errors import ConfigError, UnavailableError
from ctctl.metrics.routes import DEFAULT_SCRAPE_TIMEOUT_S, MAX_SCRAPE_TIMEOUT_S, scrape_timeout_s
from ctctl.metrics.web import WebServer
from ctctl.metrics.web_settings import WebSettings
from ctctl.model.counts import TableStats
from tests.metrics.serving import LOOPBACK, ask, connect, said, serving, until_closed
from tests.metrics.snapshots import NOW, busy_snapshot, empty_snapshot, table_stats


def test_each_route_answers_with_its_own_content() -> None:
    with serving() as server:
        metrics = ask(server, "/metrics")
        assert (metrics.status, metrics.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert "ctctl_conntrack_entries 10200.0" in metrics.text
        assert "ctctl_http_connections 1.0" in metrics.text
        page = ask(server, "/")
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert (ask(server, "/-/healthy").status, ask(server, "/-/healthy").text) == (200, "healthy\n")
        assert (ask(server, "/-/ready").status, ask(server, "/-/ready").text) == (200, "ready\n")
        assert ask(server, "/nowhere").status == 404


@pytest.mark.parametrize("path", ["/", "/metrics", "/-/healthy", "/-/ready", "/nowhere"])
def test_head_gives_the_headers_of_get_and_no_body(path: str) -> None:
    with serving() as server:
        got, head = ask(server, path), ask(server, path, method="HEAD")
        assert (head.status, head.body) == (got.status, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
        assert int(head.headers["content-length"]) > 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/metrics", "/-/healthy", "/-/quit", "/-/reload", "/flush"])
def test_no_other_method_is_answered_with_more_than_a_refusal(method: str, path: str) -> None:
    with serving() as server:
        answer = ask(server, path, method=method)
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


def test_an_agent_that_is_not_ready_says_why_and_is_healthy_all_the_same() -> None:
    with serving(snapshot=empty_snapshot) as server:
        assert (ask(server, "/-/ready").status, ask(server, "/-/ready").text) == (503, "not ready: no zone map yet\n")
        assert ask(server, "/-/healthy").status == 200
    with serving(snapshot=lambda: None) as server:
        assert ask(server, "/-/ready").status == 503
        assert ask(server, "/").status == 200
        assert ask(server, "/metrics").status == 200


def test_metrics_come_in_the_format_and_encoding_asked_for() -> None:
    with serving() as server:
        asked = {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"}
        answer = ask(server, "/metrics", headers=asked)
        assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(answer.body).endswith(b"# EOF\n")


def test_the_telemetry_path_can_be_moved_and_the_page_links_to_it() -> None:
    with serving(WebSettings(LOOPBACK, telemetry_path="/metrics/node")) as server:
        assert ask(server, "/metrics/node").status == 200
        assert ask(server, "/metrics").status == 404
        assert 'href="/metrics/node"' in ask(server, "/").text


@pytest.mark.parametrize("path", ["metrics", "", "/", "/-/ready"])
def test_a_telemetry_path_that_cannot_be_is_refused_at_start(path: str) -> None:
    server = WebServer(WebSettings(LOOPBACK, telemetry_path=path), busy_snapshot, table_stats, lambda: NOW)
    with pytest.raises(ConfigError, match="telemetry path"):
        server.start()
    assert server.addresses == ()


def test_several_addresses_of_both_families_are_served() -> None:
    try:
        socket.getaddrinfo(name := "localhost", None)
    except OSError:
        name = "127.0.0.1"  # a minimal root has no /etc/hosts
    with serving(WebSettings((":0", "127.0.0.1:0", "[::1]:0", f"{name}:0"))) as server:
        assert len(server.addresses) == 4
        for family_host, (_, port) in zip(("127.0.0.1", "127.0.0.1", "::1", name), server.addresses, strict=True):
            connection = http.client.HTTPConnection(family_host, port, timeout=20)
            connection.request("GET", "/-/healthy")
            assert connection.getresponse().status == 200
            connection.close()
        dual = http.client.HTTPConnection("::1", server.addresses[0][1], timeout=20)
        dual.request("GET", "/-/healthy")
        assert dual.getresponse().status == 200
        dual.close()


def test_a_busy_port_is_a_start_up_error_that_names_it_and_leaves_nothing_listening() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as spare:
        busy, free = taken.getsockname()[1], spare.getsockname()[1]
        spare.close()
        settings = WebSettings((f"127.0.0.1:{free}", f"127.0.0.1:{busy}"))
        server = WebServer(settings, busy_snapshot, table_stats, lambda: NOW)
        with pytest.raises(
            UnavailableError, match=rf"127\.0\.0\.1:{busy}: Address already in use; .*--web.listen-address"
        ):
            server.start()
        with socket.create_server(("127.0.0.1", free)):
            pass


def test_stopping_ends_the_thread_and_frees_the_port_at_once_with_connections_open() -> None:
    with serving() as server:
        idle = connect(server)
        ask(server, "/metrics")
        port = server.addresses[0][1]
        server.stop()
        assert "ctctl-http" not in {thread.name for thread in threading.enumerate()}
        assert until_closed(idle) == b""
        idle.close()
        with socket.create_server(("127.0.0.1", port)):
            pass
        server.stop()


def test_a_server_can_be_stopped_before_it_was_started() -> None:
    WebServer(WebSettings(LOOPBACK), busy_snapshot, table_stats, lambda: NOW).stop()


def test_one_connection_serves_many_scrapes() -> None:
    with serving() as server:
        connection = http.client.HTTPConnection(*server.addresses[0], timeout=20)
        for _ in range(5):
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            assert (response.status, b"ctctl_http_connections 1.0" in response.read()) == (200, True)
        connection.close()


def test_pipelined_requests_are_answered_in_order() -> None:
    with serving() as server:
        request = (
            b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\nGET /-/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        heard = said(server, request)
        assert heard.count(b"HTTP/1.1 200 OK") == 2
        assert heard.index(b"healthy\n") < heard.index(b"ready\n")


def test_http_1_0_is_answered_and_closed() -> None:
    with serving() as server:
        assert b"200 OK" in said(server, b"GET /-/healthy HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, DEFAULT_SCRAPE_TIMEOUT_S),
        ("10", 9.75),
        ("0.4", pytest.approx(0.3)),
        ("1e9", MAX_SCRAPE_TIMEOUT_S),
        ("0", DEFAULT_SCRAPE_TIMEOUT_S),
        ("-3", DEFAULT_SCRAPE_TIMEOUT_S),
        ("nan", DEFAULT_SCRAPE_TIMEOUT_S),
        ("inf", DEFAULT_SCRAPE_TIMEOUT_S),
        ("ten", DEFAULT_SCRAPE_TIMEOUT_S),
    ],
)
def test_the_time_to_answer_within_is_a_little_less_than_the_scraper_waits(header: str | None, seconds: float) -> None:
    assert scrape_timeout_s(header) == seconds


def test_a_scrape_that_takes_too_long_is_a_503_in_time_and_the_probes_answer_meanwhile() -> None:
    release, entered = threading.Event(), threading.Event()

    def slow_snapshot() -> object:
        if threading.current_thread().name.startswith("ctctl-exposition"):
            entered.set()
            release.wait(60)
        return busy_snapshot()

    with serving(snapshot=slow_snapshot) as server:  # type: ignore[arg-type]
        try:
            scraping = threading.Thread(target=ask, args=(server, "/metrics"))
            scraping.start()
            assert entered.wait(20)
            late = ask(server, "/metrics", headers={"X-Prometheus-Scrape-Timeout-Seconds": "0.1"})
            assert (late.status, late.headers["retry-after"]) == (503, "1")
            assert ask(server, "/-/healthy").status == 200
            assert ask(server, "/").status == 200
        finally:
            release.set()
            scraping.join()


def test_scrapes_at_the_same_time_read_the_table_once() -> None:
    release, reads = threading.Event(), []

    def read() -> TableStats:
        reads.append(1)
        return table_stats()

    def waiting_snapshot() -> object:
        if threading.current_thread().name.startswith("ctctl-exposition"):
            release.wait(60)
        return busy_snapshot()

    with serving(snapshot=waiting_snapshot, read=read) as server:  # type: ignore[arg-type]
        answers: list[int] = []
        scrapers = [threading.Thread(target=lambda: answers.append(ask(server, "/metrics").status)) for _ in range(8)]
        for scraper in scrapers:
            scraper.start()
        guard = server._guard
        assert guard is not None
        while guard.count < len(scrapers):
            pass
        release.set()
        for scraper in scrapers:
            scraper.join()
        assert answers == [200] * 8
        # One for the first scrape, one for those that came while it ran or later, one for the plots.
        assert len(reads) <= 4


def test_a_bug_in_the_page_is_a_500_and_the_server_goes_on() -> None:
    def broken() -> object:
        if threading.current_thread().name.startswith("ctctl-page"):
            raise ZeroDivisionError
        return busy_snapshot()

    with serving(snapshot=broken) as server:  # type: ignore[arg-type]
        answer = ask(server, "/")
        assert (answer.status, answer.text) == (500, "internal error, see the log of ctctl\n")
        assert ask(server, "/metrics").status == 200


def test_answers_carry_headers_that_keep_browsers_from_guessing_and_caching() -> None:
    with serving() as server:
        for path in ("/", "/metrics", "/nowhere"):
            headers = ask(server, path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert headers["server"] == "ctctl"


def test_a_table_that_cannot_be_read_is_told_on_the_page() -> None:
    def read() -> TableStats:
        raise UnavailableError("nf_conntrack is not loaded", remedy="modprobe nf_conntrack")

    with serving(read=read) as server:
        assert "nf_conntrack is not loaded; modprobe nf_conntrack" in ask(server, "/").text


def test_a_reason_for_not_being_ready_cannot_forge_a_header() -> None:
    hostile = replace(empty_snapshot(), why_not_ready="no\r\nSet-Cookie: a=b")
    with serving(snapshot=lambda: hostile) as server:
        assert "set-cookie" not in ask(server, "/-/ready").headers
