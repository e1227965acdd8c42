"""Listen addresses as exporters write them (`:10779`, `127.0.0.1:10779`, `[::1]:10779`), and sockets bound to them."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass
from typing import Final

from ctctl.errors import ConfigError, UnavailableError

BACKLOG: Final = 4096
"""Connections the kernel may hold for us; a flood shorter than this costs nobody a retransmission."""

_MAX_PORT: Final = 0xFFFF
_FORMS: Final = "write it as :10779, 127.0.0.1:10779, name:10779 or [::1]:10779"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """One address to listen on. `host`: "" for every address of this host, IPv6 and IPv4. `port`: 0 for any free."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """`text` as a listen address.

        Raises:
            ConfigError: not of the form HOST:PORT.
        """
        host, colon, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host or "[" in host or "]" in host:
            raise ConfigError(f"listen address {text!r} is not HOST:PORT", remedy=_FORMS)
        if not colon or not (port.isascii() and port.isdigit()) or int(port) > _MAX_PORT:
            raise ConfigError(f"listen address {text!r} has no port from 0 to 65535", remedy=_FORMS)
        return cls(host, int(port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def open(self) -> socket.socket:
        """A non-blocking socket that listens on this address; "" listens on both families where the host has IPv6.

        Raises:
            UnavailableError: the address is in use, not this host's, not permitted, or its name does not resolve.
        """
        try:
            return self._listen()
        except OSError as error:
            raise UnavailableError(
                f"cannot listen on {self}: {os.strerror(error.errno) if error.errno and error.errno > 0 else error}",
                remedy=self._remedy(error),
            ) from error

    def _listen(self) -> socket.socket:
        if not self.host:
            try:
                return _bound(socket.AF_INET6, ("::", self.port), is_dual=True)
            except OSError as error:
                # Without IPv6 the same address means IPv4 alone.
                if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    raise
            return _bound(socket.AF_INET, ("0.0.0.0", self.port), is_dual=False)  # noqa: S104 what `:PORT` means
        found = socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
        family, _, _, _, address = found[0]
        return _bound(family, address, is_dual=False)

    def _remedy(self, error: OSError) -> str:
        if error.errno == errno.EADDRINUSE:
            return (
                f"see who has it with: ss -ltnp 'sport = :{self.port}'; or choose another with "
                "--web.listen-address or web.listen_addresses"
            )
        if error.errno in (errno.EACCES, errno.EPERM):
            return "ports below 1024 need CAP_NET_BIND_SERVICE; choose one from 1024 on"
        return "name an address of this host in --web.listen-address or web.listen_addresses"


def _bound(family: int, address: tuple[object, ...], *, is_dual: bool) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        # Restarting must not fail because old connections linger in TIME_WAIT; a live listener still makes it fail.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if is_dual else 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
