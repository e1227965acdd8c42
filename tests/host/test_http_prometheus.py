"""A real Prometheus scrapes the server, over TLS with a client certificate and a password."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import bcrypt
import pytest

from ctctl.metrics.web_settings import WebSettings
from tests.metrics.certificates import Authority
from tests.metrics.prometheus_tree import prometheus
from tests.metrics.serving import LOOPBACK, serving

pytestmark = pytest.mark.host


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as spare:
        return int(spare.getsockname()[1])


def query(port: int, expression: str) -> list[dict[str, object]]:
    """The result of an instant query; nothing while Prometheus is not up yet."""
    arguments = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{arguments}", timeout=5) as answer:
            return json.load(answer)["data"]["result"]
    except OSError:
        return []


def test_prometheus_takes_every_family_it_is_given(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path)
    cert, key = authority.issue("server")
    own_cert, own_key = authority.issue("prometheus")
    web = {
        "tls_server_config": {
            "cert_file": str(cert),
            "key_file": str(key),
            "client_ca_file": str(authority.certificate),
            "client_auth_type": "RequireAndVerifyClientCert",
        },
        "basic_auth_users": {"prometheus": bcrypt.hashpw(b"sesame", bcrypt.gensalt(4)).decode()},
    }
    (tmp_path / "web.json").write_text(json.dumps(web))
    settings = WebSettings(LOOPBACK, config_file=str(tmp_path / "web.json"))
    with serving(settings, load=lambda path: json.loads(Path(path).read_text())) as server:
        job = {
            "job_name": "ctctl",
            "scheme": "https",
            "scrape_interval": "500ms",
            "scrape_timeout": "500ms",
            "basic_auth": {"username": "prometheus", "password": "sesame"},
            "tls_config": {
                "ca_file": str(authority.certificate), "cert_file": str(own_cert), "key_file": str(own_key),
            },
            "static_configs": [{"targets": [f"127.0.0.1:{server.addresses[0][1]}"]}],
        }  # fmt: skip
        (tmp_path / "prometheus.json").write_text(json.dumps({"scrape_configs": [job]}))
        port = free_port()
        command = [
            prometheus(), f"--config.file={tmp_path}/prometheus.json", f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
        ]  # fmt: skip
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            try:
                deadline = time.monotonic() + 60
                while not (found := query(port, "up == 1 and scrape_samples_scraped > 500")):
                    assert process.poll() is None, process.stderr and process.stderr.read()
                    assert time.monotonic() < deadline, query(port, "up")
                    time.sleep(0.1)
                assert found
                named = 'ctctl_ct_zone_entries * on (ct_zone) group_left (owner) ctctl_ct_zone_info{ct_zone="12"}'
                (owner,) = query(port, named)
                assert owner["metric"]["owner"] == "r1"  # type: ignore[index]
                assert query(port, "histogram_quantile(0.99, ctctl_flush_duration_seconds_bucket)")
                assert query(port, "ctctl_http_connections == 1"), "one connection serves all its scrapes"
            finally:
                process.terminate()
