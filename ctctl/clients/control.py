"""Asks a running agent through its control socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ctctl.errors import CtctlError, PermissionDeniedError, ProtocolError, TimedOutError, UnavailableError

_CHUNK: Final = 65_536
MAX_REPLY_BYTES: Final = 64 * 1024 * 1024


class NoAgentError(UnavailableError):
    """No agent runs behind the socket."""


class AgentRefusedError(CtctlError):
    """The agent answered that it cannot do what was asked."""


def ask(path: Path, request: Mapping[str, object], *, timeout_s: float) -> object:
    """Send one request, return its result.

    Raises:
        NoAgentError: there is no socket, or nobody listens on it.
        PermissionDeniedError: the socket is another user's.
        TimedOutError: no answer in time, or too many callers wait for one already.
        AgentRefusedError: the agent's own error, as its text.
        ProtocolError: the answer is no reply.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(timeout_s)
        connection.connect(str(path))
        connection.sendall(json.dumps(request).encode() + b"\n")
        reply = _line(connection)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoAgentError(f"no agent on {path}", remedy="start `ctctl agent`, or name its control.socket") from error
    except PermissionError as error:
        raise PermissionDeniedError(
            f"{path}: permission denied", remedy="run as root or as the agent's user"
        ) from error
    except TimeoutError as error:
        raise TimedOutError(f"the agent on {path} did not answer within {timeout_s:g}s") from error
    except BlockingIOError as error:
        raise TimedOutError(f"the agent on {path} takes no more requests", remedy="it is busy: try again") from error
    except OSError as error:
        raise UnavailableError(f"{path}: {error}") from error
    finally:
        connection.close()
    return _result(reply, path)


def _line(connection: socket.socket) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n"):
        chunk = connection.recv(_CHUNK)
        if not chunk or len(received) > MAX_REPLY_BYTES:
            break
        received += chunk
    return bytes(received)


def _result(reply: bytes, path: Path) -> object:
    if not reply:
        raise PermissionDeniedError(
            f"the agent on {path} hung up", remedy="run as root or as the agent's user; or it is busy: try again"
        )
    try:
        answer = json.loads(reply)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the agent on {path} answered with no JSON") from error
    if not isinstance(answer, dict) or not ({"result", "error"} & answer.keys()):
        raise ProtocolError(f"the agent on {path} answered with no result")
    if "error" in answer:
        raise AgentRefusedError(str(answer["error"]))
    return answer["result"]
