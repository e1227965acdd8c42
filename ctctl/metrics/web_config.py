"""The web configuration file all Prometheus exporters share: its keys, checked, as a value.

Takes what a YAML parser made of the file; reads no file. Follows exporter-toolkit's keys and meanings; unknown keys
are refused. Three things differ, because Python's TLS library does: `RequireAnyClientCert` (a certificate nobody
verifies) is refused, `curve_preferences` takes one curve, and `http2` is accepted and has no effect (HTTP/1.1 only).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from ctctl.errors import ConfigError

CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
"""Go's names of TLS 1.2 suites, as the file has them, and OpenSSL's."""

TLS13_CIPHERS: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""Always on with TLS 1.3; naming them is allowed and changes nothing."""

CURVES: Final = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}
VERSIONS: Final = ("TLS10", "TLS11", "TLS12", "TLS13")
CLIENT_AUTH_TYPES: Final = (
    "NoClientCert",
    "RequestClientCert",
    "VerifyClientCertIfGiven",
    "RequireAndVerifyClientCert",
)
_UNVERIFIED_AUTH_TYPES: Final = ("RequireAnyClientCert", "RequireClientCert")

_HEADER_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "Content-Security-Policy": (),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-Content-Type-Options": ("nosniff",),
    "X-XSS-Protection": (),
    "Strict-Transport-Security": (),
}
_BCRYPT: Final = re.compile(r"\$2[abxy]\$\d{2}\$[./A-Za-z0-9]{53}")
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smh])")
_UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class TlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`tls_server_config`: certificates as files or inline PEM, and who may connect."""

    cert: str = ""
    key: str = ""
    client_ca: str = ""
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    client_auth_type: str = ""
    client_allowed_sans: list[str] = []
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: list[str] = []
    prefer_server_cipher_suites: bool = True
    curve_preferences: list[str] = []

    @property
    def is_client_verified(self) -> bool:
        """Claims that a certificate the client sends is checked against the CA."""
        return self.client_auth_type in ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")

    @property
    def files(self) -> tuple[str, ...]:
        """The files this configuration names."""
        return tuple(name for name in (self.cert_file, self.key_file, self.client_ca_file) if name)


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`http_server_config`: headers added to every answer."""

    http2: bool = True
    headers: dict[str, str] = {}


class RateLimitConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`rate_limit`: one request per `interval`, and `burst` of them at once; "0" or 0 is no limit."""

    interval: str | int = 0
    burst: int = 0

    @property
    def interval_s(self) -> float:
        """Seconds between two requests, 0 for no limit; a malformed interval was refused when parsing."""
        return duration_s(self.interval) or 0.0


class WebConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file. Paths in it are absolute: relative ones were taken from the file's own directory."""

    tls_server_config: TlsConfig | None = None
    http_server_config: HttpConfig = HttpConfig()
    basic_auth_users: dict[str, str] = {}
    rate_limit: RateLimitConfig = RateLimitConfig()


def duration_s(text: str | int) -> float | None:
    """Seconds of a duration like 500ms or 1m30s, or of a plain 0; None for anything else."""
    if text in (0, "0"):
        return 0.0
    if not isinstance(text, str) or not re.fullmatch(f"(?:{_DURATION.pattern})+", text):
        return None
    return sum(float(number) * _UNIT_S[unit] for number, unit in _DURATION.findall(text))


def parse_web_config(content: object, path: str) -> WebConfig:
    """The configuration in `content`, which a YAML parser read from the file `path` (None for an empty file).

    Raises:
        ConfigError: an unknown key, a wrong type or value; names the file and the key, never a secret.
    """
    try:
        config = msgspec.convert({} if content is None else content, WebConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"web configuration {path}: {str(error).replace('`$.', '`')}",
            remedy="the keys are those of exporter-toolkit's web configuration",
        ) from error
    _check_headers(config.http_server_config.headers, path)
    _check_users(config.basic_auth_users, path)
    if duration_s(config.rate_limit.interval) is None or config.rate_limit.burst < 0:
        raise _wrong(path, "rate_limit", "interval is a duration like 1s, burst a number from 0 on")
    if config.tls_server_config is None:
        return config
    tls = _with_absolute_paths(config.tls_server_config, Path(path).parent)
    _check_tls(tls, path)
    return msgspec.structs.replace(config, tls_server_config=tls)


def _wrong(path: str, key: str, what: str) -> ConfigError:
    return ConfigError(f"web configuration {path}: {key}: {what}")


def _check_headers(headers: dict[str, str], path: str) -> None:
    for name, value in headers.items():
        key = f"http_server_config.headers.{name}"
        if name not in _HEADER_VALUES:
            raise _wrong(path, key, f"this header cannot be set; these can: {', '.join(_HEADER_VALUES)}")
        allowed = _HEADER_VALUES[name]
        if value and allowed and value.lower() not in allowed:
            raise _wrong(path, key, f"must be one of {', '.join(allowed)}")
        if not value.isprintable():
            raise _wrong(path, key, "must be one line of printable characters")


def _check_users(users: dict[str, str], path: str) -> None:
    for name, hashed in users.items():
        if not _BCRYPT.fullmatch(hashed):
            raise _wrong(
                path, f"basic_auth_users.{name}", 'is no bcrypt hash; make one with: htpasswd -nBC 10 "" | tr -d ":\\n"'
            )


def _with_absolute_paths(tls: TlsConfig, directory: Path) -> TlsConfig:
    def absolute(name: str) -> str:
        return str(directory / name) if name else ""

    return msgspec.structs.replace(
        tls,
        cert_file=absolute(tls.cert_file),
        key_file=absolute(tls.key_file),
        client_ca_file=absolute(tls.client_ca_file),
        client_auth_type=tls.client_auth_type or "NoClientCert",
    )


def _check_tls(tls: TlsConfig, path: str) -> None:
    def wrong(key: str, what: str) -> ConfigError:
        return _wrong(path, f"tls_server_config.{key}", what)

    for inline, file in (("cert", "cert_file"), ("key", "key_file"), ("client_ca", "client_ca_file")):
        if getattr(tls, inline) and getattr(tls, file):
            raise wrong(inline, f"give it or {file}, not both")
    if not (tls.cert or tls.cert_file):
        raise wrong("cert_file", "is missing; TLS needs a certificate")
    if not (tls.key or tls.key_file):
        raise wrong("key_file", "is missing; TLS needs the certificate's key")
    _check_client_auth(tls, wrong_key=lambda what: wrong("client_auth_type", what))
    for key in ("min_version", "max_version"):
        if getattr(tls, key) not in VERSIONS:
            raise wrong(key, f"must be one of {', '.join(VERSIONS)}")
    if VERSIONS.index(tls.min_version) > VERSIONS.index(tls.max_version):
        raise wrong("min_version", "is above max_version")
    if unknown := [name for name in tls.cipher_suites if name not in CIPHERS and name not in TLS13_CIPHERS]:
        raise wrong("cipher_suites", f"{unknown[0]} is not offered; these are: {', '.join((*CIPHERS, *TLS13_CIPHERS))}")
    if unknown := [name for name in tls.curve_preferences if name not in CURVES]:
        raise wrong("curve_preferences", f"{unknown[0]} is not offered; these are: {', '.join(CURVES)}")
    if len(tls.curve_preferences) > 1:
        raise wrong("curve_preferences", "takes one curve here; leave it out to offer all")


def _check_client_auth(tls: TlsConfig, wrong_key: Callable[[str], ConfigError]) -> None:
    has_ca = bool(tls.client_ca or tls.client_ca_file)
    if tls.client_auth_type in _UNVERIFIED_AUTH_TYPES:
        raise wrong_key(
            f"{tls.client_auth_type} accepts certificates that nobody verifies and is not offered; "
            "use RequireAndVerifyClientCert"
        )
    if tls.client_auth_type not in CLIENT_AUTH_TYPES:
        raise wrong_key(f"must be one of {', '.join(CLIENT_AUTH_TYPES)}")
    if has_ca and tls.client_auth_type == "NoClientCert":
        raise wrong_key("a client CA is given, but no client is asked for a certificate")
    if tls.is_client_verified and not has_ca:
        raise wrong_key(f"{tls.client_auth_type} needs client_ca_file")
    if tls.client_allowed_sans and tls.client_auth_type != "RequireAndVerifyClientCert":
        raise wrong_key("client_allowed_sans needs RequireAndVerifyClientCert")
