"""TLS, client certificates, users and headers on a real connection, and their change without a restart."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import bcrypt
import pytest

from ctctl.errors import ConfigError
from ctctl.metrics import web
from ctctl.metrics.web import WebServer
from ctctl.metrics.web_config_file import WebConfigFile
from ctctl.metrics.web_settings import WebSettings
from tests.metrics.certificates import Authority
from tests.metrics.serving import LOOPBACK, ask, connect, serving, until_closed
from tests.metrics.snapshots import NOW, busy_snapshot, table_stats


def load(path: str) -> object:
    """JSON is YAML, too; the product's own loader lives elsewhere."""
    return json.loads(Path(path).read_text() or "null")


def write(path: Path, content: object) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def settings(path: str) -> WebSettings:
    return WebSettings(LOOPBACK, config_file=path)


def client(ca: Authority, own: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca.certificate)
    if own is not None:
        context.load_cert_chain(*own)
    return context


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def eventually(is_so: Callable[[], bool]) -> None:
    """The server looks for changes at intervals; ask until it has looked."""
    for _ in range(400):
        if is_so():
            return
    pytest.fail("the change was not taken in")


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_WATCH_INTERVAL_S", 0.05)


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path)


def test_tls_is_served_and_plain_http_is_not(ca: Authority, tmp_path: Path) -> None:
    cert, key = ca.issue("server")
    path = write(tmp_path / "web.yml", {"tls_server_config": {"cert_file": cert.name, "key_file": key.name}})
    with serving(settings(path), load=load) as server:
        assert ask(server, "/metrics", tls=client(ca)).status == 200
        with connect(server) as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" not in until_closed(plain)
        assert 'dropped_total{reason="tls"} 1.0' in ask(server, "/metrics", tls=client(ca)).text


def test_old_tls_versions_are_refused_unless_asked_for(ca: Authority, tmp_path: Path) -> None:
    cert, key = ca.issue("server")
    tls = {"cert_file": str(cert), "key_file": str(key), "min_version": "TLS13"}
    path = write(tmp_path / "web.yml", {"tls_server_config": tls})
    with serving(settings(path), load=load) as server:
        old = client(ca)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(OSError, match=r"alert|protocol|EOF"):
            ask(server, "/-/healthy", tls=old)
        assert ask(server, "/-/healthy", tls=client(ca)).status == 200


def test_certificates_can_be_given_inline_and_one_curve_and_suite_be_chosen(ca: Authority, tmp_path: Path) -> None:
    cert, key = ca.issue("server")
    inline = {
        "cert": cert.read_text(),
        "key": key.read_text(),
        "client_ca": ca.certificate.read_text(),
        "client_auth_type": "VerifyClientCertIfGiven",
        "max_version": "TLS12",
        "cipher_suites": ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"],
        "curve_preferences": ["CurveP384"],
    }
    with serving(settings(write(tmp_path / "web.yml", {"tls_server_config": inline})), load=load) as server:
        with client(ca).wrap_socket(connect(server), server_hostname="localhost") as peer:
            assert peer.cipher()[:2] == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2")
        assert ask(server, "/metrics", tls=client(ca)).status == 200


def test_only_clients_with_a_certificate_of_the_ca_are_let_in(ca: Authority, tmp_path: Path) -> None:
    cert, key = ca.issue("server")
    tls = {
        "cert_file": str(cert),
        "key_file": str(key),
        "client_ca_file": str(ca.certificate),
        "client_auth_type": "RequireAndVerifyClientCert",
    }
    strangers = Authority.create(tmp_path, "stranger-ca")
    with serving(settings(write(tmp_path / "web.yml", {"tls_server_config": tls})), load=load) as server:
        assert ask(server, "/metrics", tls=client(ca, ca.issue("prometheus"))).status == 200
        for stranger in (None, strangers.issue("stranger")):
            with pytest.raises(OSError, match=r"alert|reset|Remote end closed"):
                ask(server, "/metrics", tls=client(ca, stranger))


def test_only_clients_with_an_allowed_name_are_let_in(ca: Authority, tmp_path: Path) -> None:
    cert, key = ca.issue("server")
    tls = {
        "cert_file": str(cert),
        "key_file": str(key),
        "client_ca_file": str(ca.certificate),
        "client_auth_type": "RequireAndVerifyClientCert",
        "client_allowed_sans": ["prometheus.example"],
    }
    with serving(settings(write(tmp_path / "web.yml", {"tls_server_config": tls})), load=load) as server:
        named = ca.issue("prometheus", "DNS:other.example,DNS:prometheus.example")
        assert ask(server, "/metrics", tls=client(ca, named)).status == 200
        other = ca.issue("other", "DNS:not-prometheus.example")
        with pytest.raises(OSError, match=r"reset|closed|EOF"):
            ask(server, "/metrics", tls=client(ca, other))


def test_users_are_asked_for_on_every_route(tmp_path: Path) -> None:
    hashed = bcrypt.hashpw(b"sesame", bcrypt.gensalt(4)).decode()
    with serving(settings(write(tmp_path / "web.yml", {"basic_auth_users": {"me": hashed}})), load=load) as server:
        for route in ("/", "/metrics", "/-/healthy", "/-/ready", "/nowhere"):
            refused = ask(server, route)
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Basic")
            assert b"ctctl_" not in refused.body
            assert ask(server, route, headers=basic("me", "sesame")).status != 401
        assert ask(server, "/metrics", headers=basic("me", "wrong")).status == 401


def test_headers_of_the_configuration_are_on_every_answer(tmp_path: Path) -> None:
    headers = {"Strict-Transport-Security": "max-age=60", "X-Frame-Options": "deny", "X-XSS-Protection": ""}
    path = write(tmp_path / "web.yml", {"http_server_config": {"headers": headers}})
    with serving(settings(path), load=load) as server:
        for route in ("/metrics", "/nowhere"):
            answer = ask(server, route)
            assert answer.headers["strict-transport-security"] == "max-age=60"
            assert answer.headers["x-frame-options"] == "deny"
            assert "x-xss-protection" not in answer.headers


def test_requests_over_the_rate_are_429(tmp_path: Path) -> None:
    path = write(tmp_path / "web.yml", {"rate_limit": {"interval": "1h", "burst": 3}})
    with serving(settings(path), load=load) as server:
        assert [ask(server, "/-/healthy").status for _ in range(5)] == [200, 200, 200, 429, 429]


def test_users_change_without_a_restart_and_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    old, new = (bcrypt.hashpw(password, bcrypt.gensalt(4)).decode() for password in (b"old", b"new"))
    path = tmp_path / "web.yml"
    with serving(settings(write(path, {"basic_auth_users": {"me": old}})), load=load) as server:
        assert ask(server, "/metrics", headers=basic("me", "old")).status == 200
        write(path, {"basic_auth_users": {"me": new}})
        eventually(lambda: ask(server, "/metrics", headers=basic("me", "new")).status == 200)
        assert ask(server, "/metrics", headers=basic("me", "old")).status == 401
        write(path, {"basic_auth_user": {}})
        good = "ctctl_web_config_last_read_good"
        eventually(lambda: f"{good} 0.0" in ask(server, "/metrics", headers=basic("me", "new")).text)
        assert ask(server, "/metrics").status == 401
        write(path, {})
        eventually(lambda: ask(server, "/metrics").status == 200)
        assert f"{good} 1.0" in ask(server, "/metrics").text


def test_a_certificate_rotated_through_a_symlink_is_served_without_a_restart(ca: Authority, tmp_path: Path) -> None:
    for generation in ("first", "second"):
        (tmp_path / generation).mkdir()
        for made, name in zip(ca.issue(generation), ("tls.crt", "tls.key"), strict=True):
            shutil.copy(made, tmp_path / generation / name)
    link = tmp_path / "current"
    link.symlink_to("first")
    tls = {"cert_file": "current/tls.crt", "key_file": "current/tls.key"}
    with serving(settings(write(tmp_path / "web.yml", {"tls_server_config": tls})), load=load) as server:
        assert subject(server, ca) == "first"
        with client(ca).wrap_socket(connect(server), server_hostname="localhost") as kept:
            kept.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in kept.recv(4096)
            fresh = tmp_path / "fresh"
            fresh.symlink_to("second")
            fresh.rename(link)
            eventually(lambda: subject(server, ca) == "second")
            assert until_closed(kept) in (b"", b"healthy\n"), "no connection outlives the rules it was made under"


def subject(server: WebServer, ca: Authority) -> str:
    with client(ca).wrap_socket(connect(server), server_hostname="localhost") as peer:
        certificate = peer.getpeercert()
        assert certificate is not None
        return dict(pair for names in certificate["subject"] for pair in names)["commonName"]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (
            {"tls_server_config": {"cert_file": "none.crt", "key_file": "none.key"}},
            "certificate .*none.crt with key .*none.key",
        ),
        ({"unknown": 1}, "unknown field `unknown`"),
    ],
)
def test_a_bad_file_is_a_start_up_error(tmp_path: Path, content: object, named: str) -> None:
    path = write(tmp_path / "web.yml", content)
    server = WebServer(settings(path), busy_snapshot, table_stats, lambda: NOW, load_web_config=load)
    with pytest.raises(ConfigError, match=named):
        server.start()


def test_a_missing_file_and_one_that_nobody_reads_are_start_up_errors(tmp_path: Path) -> None:
    path = str(tmp_path / "absent.yml")
    for loader, said in ((load, "cannot read web configuration .*absent.yml"), (None, "nothing here reads")):
        server = WebServer(settings(path), busy_snapshot, table_stats, lambda: NOW, load_web_config=loader)
        with pytest.raises(ConfigError, match=said):
            server.start()


def test_a_file_that_is_no_text_is_a_start_up_error_and_later_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "web.yml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        WebConfigFile(str(path), load)
    write(path, {})
    file = WebConfigFile(str(path), load)
    path.write_bytes(b"\xff\xfe\x00")
    assert not file.refresh()
    assert not file.is_last_read_good


def test_a_key_that_is_not_the_certificates_is_named(ca: Authority, tmp_path: Path) -> None:
    (cert, _), (_, other_key) = ca.issue("one"), ca.issue("other")
    tls = {"cert_file": str(cert), "key_file": str(other_key)}
    with pytest.raises(ConfigError, match=r"one\.crt with key .*other\.key.*the certificate's own"):
        WebConfigFile(write(tmp_path / "web.yml", {"tls_server_config": tls}), load)


def test_an_encrypted_key_is_an_error_and_no_question_on_the_terminal(ca: Authority, tmp_path: Path) -> None:
    cert, key = ca.issue("server")
    ca._openssl("ec", "-in", key.name, "-aes256", "-passout", "pass:secret", "-out", "locked.key")
    tls = {"cert_file": str(cert), "key_file": "locked.key"}
    with pytest.raises(ConfigError, match="the key unencrypted"):
        WebConfigFile(write(tmp_path / "web.yml", {"tls_server_config": tls}), load)


def test_a_garbled_client_ca_is_named(ca: Authority, tmp_path: Path) -> None:
    cert, key = ca.issue("server")
    (tmp_path / "garbled.crt").write_text("not PEM")
    tls = {
        "cert_file": str(cert),
        "key_file": str(key),
        "client_ca_file": "garbled.crt",
        "client_auth_type": "RequireAndVerifyClientCert",
    }
    with pytest.raises(ConfigError, match=r"client CA .*garbled\.crt"):
        WebConfigFile(write(tmp_path / "web.yml", {"tls_server_config": tls}), load)


def test_a_client_that_says_nothing_in_its_handshake_is_ended_in_time(ca: Authority, tmp_path: Path) -> None:
    cert, key = ca.issue("server")
    path = write(tmp_path / "web.yml", {"tls_server_config": {"cert_file": str(cert), "key_file": str(key)}})
    quick = WebSettings(LOOPBACK, config_file=path, header_timeout_s=0.2)
    with serving(quick, load=load) as server, socket.create_connection(server.addresses[0], timeout=20) as silent:
        assert until_closed(silent) == b""
        assert 'dropped_total{reason="deadline"} 1.0' in ask(server, "/metrics", tls=client(ca)).text
