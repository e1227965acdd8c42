"""OVSDB addresses, and sockets connected to them, with errors that say what to do.

Understands what ovsdb(7) calls active connection methods: `unix:PATH`, `tcp:HOST:PORT`, `ssl:HOST:PORT`, several of
them separated by commas. Speaks no protocol beyond TLS.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from select import POLLIN, POLLOUT
from typing import Final

from ctctl.clients.deadline import Deadline
from ctctl.errors import PermissionDeniedError, TimedOutError, UnavailableError


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of a TLS client. They are read anew for each connection, so that rotated ones take effect."""

    key: str
    certificate: str
    ca: str


@dataclass(frozen=True, slots=True)
class Remote:
    """One address of an OVSDB server. `method`: unix, tcp or ssl; `host` and `port` are empty for unix."""

    method: str
    path: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.method == "unix":
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.method}:{host}:{self.port}"


_INET: Final = re.compile(r"(tcp|ssl):(?:\[([^\]]+)\]|([^:\[\]]+)):(\d{1,5})")


def parse_remotes(text: str) -> tuple[Remote, ...]:
    """The addresses in `text`, in order, without repetition.

    A part without a colon belongs to the path before it, as in OVS: `unix:/run/a,b.sock` is one address.

    Raises:
        UnavailableError: one of them is no address.
    """
    parts: list[str] = []
    for part in text.split(","):
        if parts and ":" not in part:
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return tuple(dict.fromkeys(_parse(part.strip()) for part in parts))


def _parse(text: str) -> Remote:
    if text.startswith("unix:") and len(text) > len("unix:"):
        return Remote("unix", path=text.removeprefix("unix:"))
    match = _INET.fullmatch(text)
    if match is not None and 0 < int(match[4]) <= 0xFFFF:  # noqa: PLR2004 - a port is a u16
        return Remote(match[1], host=match[2] or match[3], port=int(match[4]))
    raise UnavailableError(
        f"{text!r} is no OVSDB address", remedy="write unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT, separated by commas"
    )


def socket_inode(remote: Remote) -> tuple[int, int] | None:
    """What tells one socket file from its successor under the same path; None where there is none."""
    if remote.method != "unix":
        return None
    try:
        status = os.stat(remote.path)  # noqa: PTH116 - Path.stat() costs several times as much
    except OSError:
        return None
    return status.st_dev, status.st_ino


def connect(remote: Remote, tls: TlsFiles | None, deadline: Deadline) -> socket.socket:
    """A connected, non-blocking stream to the server, its TLS handshake done.

    Raises:
        PermissionDeniedError: a socket's or a TLS file's mode refuses this process.
        TimedOutError: the server, or the name service, did not answer before the deadline.
        UnavailableError: everything else that keeps the connection from being made.
    """
    if remote.method == "unix":
        return _connect_unix(remote)
    context = _tls_context(remote, tls) if remote.method == "ssl" else None
    stream = _connect_inet(remote, deadline)
    if context is None:
        return stream
    try:
        return _handshake(context, stream, remote, tls, deadline)
    except BaseException:
        stream.close()
        raise


def _connect_unix(remote: Remote) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        stream.connect(remote.path)
    except BaseException as e:
        stream.close()
        if isinstance(e, OSError):
            raise _unix_refusal(remote, e) from e
        raise
    return stream


def _unix_refusal(remote: Remote, cause: OSError) -> UnavailableError:
    what = f"cannot connect to {remote}: {cause.strerror or cause}"
    match cause.errno:
        case errno.EACCES | errno.EPERM:
            return PermissionDeniedError(
                f"{what} (uid {os.geteuid()}, {_who_may_open(Path(remote.path))})",
                remedy="run with uid 0, with the group that owns the socket, or with CAP_DAC_OVERRIDE",
            )
        case errno.ENOENT | errno.ECONNREFUSED:
            return UnavailableError(what, remedy="start ovsdb-server, or give the path of its socket")
        case errno.EAGAIN:
            return UnavailableError(
                f"cannot connect to {remote}: its queue of connections is full",
                remedy="ovsdb-server is stopped or stuck; look at its process",
            )
    return UnavailableError(what)


def _who_may_open(path: Path) -> str:
    """Owner and mode of the first thing on the way to the socket that refuses this process, "…" if none tells."""
    for step in [*reversed(path.parents), path]:
        needed = os.R_OK | os.W_OK if step == path else os.X_OK
        try:
            if os.access(step, needed, effective_ids=True):
                continue
            status = step.stat()
        except OSError:
            break
        return f"{step} has mode {stat.filemode(status.st_mode)}, owner {status.st_uid}:{status.st_gid}"
    return f"{path}'s owner and mode cannot be read"


def _connect_inet(remote: Remote, deadline: Deadline) -> socket.socket:
    """Connect to the first of the host's addresses that answers; a silent one does not use up the others' time."""
    addresses = _resolve(remote, deadline)
    refusals: list[str] = []
    cause: Exception | None = None
    for tried, (family, address) in enumerate(addresses):
        stream = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            _finish_connect(stream, address, deadline.share(len(addresses) - tried), remote)
        except (OSError, TimedOutError) as e:
            stream.close()
            cause = e
            refusals.append(str(e.strerror or e) if isinstance(e, OSError) else f"no answer from {address[0]!s}")
        except BaseException:
            stream.close()
            raise
        else:
            return stream
    what = f"cannot connect to {remote}: {', '.join(dict.fromkeys(refusals))}"
    if isinstance(cause, TimedOutError):
        raise TimedOutError(what, remedy="check that the server is up and that no firewall is in between") from cause
    raise UnavailableError(what, remedy="check that the server listens there") from cause


def _finish_connect(stream: socket.socket, address: _Address, deadline: Deadline, remote: Remote) -> None:
    error = stream.connect_ex(address)
    if error == errno.EINPROGRESS:
        deadline.wait_for(stream, POLLOUT, f"connecting to {remote}")
        error = stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error != 0:
        raise OSError(error, os.strerror(error))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


_Address = tuple[str | int | bytes, ...]


def _resolve(remote: Remote, deadline: Deadline) -> list[tuple[int, _Address]]:
    """Addresses of the remote's host; names are looked up in a thread, because a lookup cannot be interrupted."""
    try:
        return _lookup(remote, socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass  # a name, then
    found: list[list[tuple[int, _Address]]] = []
    failed: list[OSError] = []
    done_here, done_there = socket.socketpair()

    def look_up() -> None:
        with done_there:
            try:
                found.append(_lookup(remote, 0))
            except OSError as e:
                failed.append(e)

    with done_here:
        threading.Thread(target=look_up, name="name-lookup", daemon=True).start()
        deadline.wait_for(done_here, POLLIN, f"looking up {remote.host!r}")
    if failed:
        raise UnavailableError(f"cannot look up {remote.host!r}: {failed[0].strerror}") from failed[0]
    return found[0]


def _lookup(remote: Remote, flags: int) -> list[tuple[int, _Address]]:
    answers = socket.getaddrinfo(remote.host, remote.port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in answers]


def _tls_context(remote: Remote, tls: TlsFiles | None) -> ssl.SSLContext:
    """What OVS' own clients use: TLS 1.2 or later, the peer's certificate checked against the CA, its name not."""
    if tls is None:
        raise UnavailableError(f"cannot connect to {remote}: no TLS files are configured", remedy="set ovn.tls")
    for name, path in (("key", tls.key), ("certificate", tls.certificate), ("ca", tls.ca)):
        if not path:
            raise UnavailableError(
                f"cannot connect to {remote}: no TLS {name} is configured", remedy=f"set ovn.tls.{name}"
            )
        try:
            with Path(path).open("rb"):
                pass
        except PermissionError as e:
            raise PermissionDeniedError(
                f"cannot read TLS file {path}: {e.strerror} (uid {os.geteuid()}, {_who_may_open(Path(path))})",
                remedy="let this user or group read it",
            ) from e
        except OSError as e:
            raise UnavailableError(f"cannot read TLS file {path}: {e.strerror}", remedy="check ovn.tls") from e
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    files = tls.ca
    try:
        context.load_verify_locations(tls.ca)
        files = f"{tls.certificate} with {tls.key}"
        context.load_cert_chain(tls.certificate, tls.key)
    except (OSError, ValueError) as e:  # ssl.SSLError is an OSError
        raise UnavailableError(f"cannot use TLS file {files}: {_tls_reason(e)}", remedy="check ovn.tls") from e
    return context


def _handshake(
    context: ssl.SSLContext, stream: socket.socket, remote: Remote, tls: TlsFiles | None, deadline: Deadline
) -> ssl.SSLSocket:
    secured = context.wrap_socket(stream, do_handshake_on_connect=False)
    what = f"TLS handshake with {remote}"
    try:
        while True:
            try:
                secured.do_handshake()
            except ssl.SSLWantReadError:
                deadline.wait_for(secured, POLLIN, what)
            except ssl.SSLWantWriteError:
                deadline.wait_for(secured, POLLOUT, what)
            else:
                return secured
    except TimedOutError:
        secured.close()
        raise
    except OSError as e:
        secured.close()
        raise tls_refusal(remote, tls, e) from e
    except BaseException:
        secured.close()
        raise


def tls_refusal(remote: Remote, tls: TlsFiles | None, cause: OSError) -> UnavailableError:
    """What to say when TLS fails: in the handshake, or right after when a TLS 1.3 peer refuses our certificate."""
    files = "" if tls is None else f" against {tls.ca}, and the server's view of {tls.certificate}"
    return UnavailableError(
        f"TLS with {remote} failed: {_tls_reason(cause)}", remedy=f"check the server's certificate{files}"
    )


def _tls_reason(cause: Exception) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the server's certificate was not accepted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return (cause.reason or str(cause)).lower().replace("_", " ")
    return str(cause.strerror or cause) if isinstance(cause, OSError) else str(cause)
