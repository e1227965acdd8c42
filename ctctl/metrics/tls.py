"""TLS for the HTTP server: a context made of the web configuration, and the check of a client's names."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from ctctl.errors import ConfigError
from ctctl.metrics.web_config import CIPHERS, CURVES, TlsConfig

_VERSIONS: Final = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}


def server_context(tls: TlsConfig) -> ssl.SSLContext:
    """A context for new connections, with the certificates as they are on disk now.

    Raises:
        ConfigError: a certificate, key or CA cannot be read or does not fit; names the file.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.maximum_version = _VERSIONS[tls.max_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    if tls.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    if tls12_names := [CIPHERS[name] for name in tls.cipher_suites if name in CIPHERS]:
        context.set_ciphers(":".join(tls12_names))
    for curve in tls.curve_preferences:
        context.set_ecdh_curve(CURVES[curve])
    _load_certificate(context, tls)
    if tls.is_client_verified:
        _load_client_ca(context, tls)
        is_required = tls.client_auth_type == "RequireAndVerifyClientCert"
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context


def _load_certificate(context: ssl.SSLContext, tls: TlsConfig) -> None:
    names = f"certificate {tls.cert_file or '(inline)'} with key {tls.key_file or '(inline)'}"
    try:
        with _as_file(tls.cert, tls.cert_file) as cert, _as_file(tls.key, tls.key_file) as key:
            # An encrypted key would make OpenSSL ask on the terminal; an empty passphrase makes it fail instead.
            context.load_cert_chain(cert, key, password="")
    except OSError as error:
        raise ConfigError(
            f"cannot use {names}: {error.strerror or error}",
            remedy="both must be readable PEM, the key unencrypted and the certificate's own",
        ) from error


def _load_client_ca(context: ssl.SSLContext, tls: TlsConfig) -> None:
    try:
        if tls.client_ca:
            context.load_verify_locations(cadata=tls.client_ca)
        else:
            context.load_verify_locations(cafile=tls.client_ca_file)
    except OSError as error:
        raise ConfigError(
            f"cannot use client CA {tls.client_ca_file or '(inline)'}: {error.strerror or error}",
            remedy="it must be a readable PEM file of CA certificates",
        ) from error


@contextmanager
def _as_file(inline: str, path: str) -> Iterator[str]:
    """A path OpenSSL can read: `path` itself, or a file in memory only that holds `inline`."""
    if not inline:
        yield path
        return
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, inline.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def has_allowed_name(certificate: Mapping[str, object] | None, allowed: list[str]) -> bool:
    """Claims that one of the certificate's subject alternative names is exactly one of `allowed`.

    `certificate`: as `SSLObject.getpeercert()` gives it.
    """
    names = (certificate or {}).get("subjectAltName", ())
    if not isinstance(names, tuple):
        return False
    return any(value in allowed for _, value in names)
