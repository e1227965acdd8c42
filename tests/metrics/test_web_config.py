"""The web configuration file: exporter-toolkit's keys, and an error that names the key for everything else."""

from __future__ import annotations

import pytest

from ctctl.errors import ConfigError
from ctctl.metrics.web_config import WebConfig, duration_s, parse_web_config

HASH = "$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
PATH = "/etc/ctctl/web.yml"
TLS: dict[str, object] = {"cert_file": "tls.crt", "key_file": "/keys/tls.key"}


def tls(**more: object) -> dict[str, object]:
    return {"tls_server_config": {**TLS, **more}}


def test_an_empty_file_asks_for_nothing() -> None:
    assert parse_web_config(None, PATH) == WebConfig() == parse_web_config({}, PATH)


def test_every_key_is_read() -> None:
    config = parse_web_config(
        {
            "tls_server_config": {
                **TLS,
                "client_ca_file": "ca.crt",
                "client_auth_type": "RequireAndVerifyClientCert",
                "client_allowed_sans": ["prometheus.example"],
                "min_version": "TLS13",
                "max_version": "TLS13",
                "cipher_suites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"],
                "prefer_server_cipher_suites": False,
                "curve_preferences": ["X25519"],
            },
            "http_server_config": {"http2": True, "headers": {"X-Frame-Options": "deny"}},
            "basic_auth_users": {"prometheus": HASH},
            "rate_limit": {"interval": "1s", "burst": 5},
        },
        PATH,
    )
    assert config.tls_server_config is not None
    assert config.tls_server_config.cert_file == "/etc/ctctl/tls.crt", "taken from the file's own directory"
    assert config.tls_server_config.files == ("/etc/ctctl/tls.crt", "/keys/tls.key", "/etc/ctctl/ca.crt")
    assert config.basic_auth_users == {"prometheus": HASH}
    assert config.rate_limit.interval_s == 1.0


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"tls_config": {}}, "tls_config"),
        ({"tls_server_config": {**TLS, "cert_fil": "x"}}, "unknown field `cert_fil` - at `tls_server_config`"),
        ({"http_server_config": {"header": {}}}, "unknown field `header` - at `http_server_config`"),
        ({"basic_auth_users": ["me"]}, "`basic_auth_users`"),
        ({"basic_auth_users": {"me": "secret"}}, "basic_auth_users.me: is no bcrypt hash"),
        ({"basic_auth_users": {"me": None}}, "`basic_auth_users"),
        (["tls_server_config"], "Expected `object`"),
        ("text", "Expected `object`"),
        ({"tls_server_config": {"key_file": "k"}}, "tls_server_config.cert_file: is missing"),
        ({"tls_server_config": {"cert_file": "c"}}, "tls_server_config.key_file: is missing"),
        (tls(cert="PEM"), "tls_server_config.cert: give it or cert_file, not both"),
        (tls(client_auth_type="Whoever"), "client_auth_type: must be one of"),
        (tls(client_auth_type="RequireAnyClientCert"), "client_auth_type: RequireAnyClientCert accepts certificates"),
        (tls(client_auth_type="RequireAndVerifyClientCert"), "needs client_ca_file"),
        (tls(client_ca_file="ca.crt"), "client_auth_type: a client CA is given"),
        (tls(client_allowed_sans=["x"]), "client_allowed_sans needs RequireAndVerifyClientCert"),
        (tls(min_version="SSL30"), "min_version: must be one of TLS10"),
        (tls(min_version="TLS13", max_version="TLS12"), "min_version: is above max_version"),
        (tls(cipher_suites=["TLS_RSA_WITH_RC4_128_SHA"]), "cipher_suites: TLS_RSA_WITH_RC4_128_SHA is not offered"),
        (tls(curve_preferences=["CurveP192"]), "curve_preferences: CurveP192 is not offered"),
        (tls(curve_preferences=["CurveP256", "X25519"]), "curve_preferences: takes one curve here"),
        ({"http_server_config": {"headers": {"X-Other": "1"}}}, "headers.X-Other: this header cannot be set"),
        ({"http_server_config": {"headers": {"X-Frame-Options": "maybe"}}}, "must be one of deny, sameorigin"),
        ({"http_server_config": {"headers": {"Content-Security-Policy": "a\r\nb: c"}}}, "must be one line"),
        ({"rate_limit": {"interval": "often"}}, "rate_limit: interval is a duration"),
        ({"rate_limit": {"burst": -1}}, "rate_limit: interval is a duration"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_file_and_key(content: object, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_web_config(content, PATH)
    assert f"web configuration {PATH}" in str(caught.value)
    assert named in str(caught.value)


def test_an_error_never_repeats_a_secret() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_web_config({"basic_auth_users": {"me": "open sesame"}}, PATH)
    assert "open sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(0, 0.0), ("0", 0.0), ("500ms", 0.5), ("1s", 1.0), ("1m30s", 90.0), ("1.5h", 5400.0)],
)
def test_durations_are_read(text: str | int, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "1", "1 s", "-1s", "1d", 5])
def test_other_durations_are_none(text: str | int) -> None:
    assert duration_s(text) is None
