"""The control sockets of ovs-vswitchd and ovn-controller: which commands may be sent, and what their replies say.

A unixctl command runs on the daemon's main thread, the very thread whose stalls ctctl reports. So no request can be
encoded here that walks a table, changes a setting or stops a daemon: `ALLOWED_COMMANDS` is all there is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from ctctl.errors import CtctlError, ProtocolError
from ctctl.model.ids import HOST_ZONE, MAX_ZONE, ZoneId
from ctctl.wire.jsonrpc import Reply, encode_request


class CommandRefusedError(CtctlError, ValueError):
    """ctctl does not send this command, or not with these arguments."""


class CommandFailedError(CtctlError):
    """The daemon answered that it does not know the command, or could not carry it out. `answer` is its own text."""

    def __init__(self, answer: str) -> None:
        super().__init__(f"the daemon answered: {answer}")
        self.answer = answer


_DATAPATH: Final = re.compile(r"(?:netdev|system|dummy)@[A-Za-z0-9_.-]+")
_USERSPACE_DATAPATH: Final = re.compile(r"netdev@[A-Za-z0-9_.-]+")
_COUNTER: Final = re.compile(r"[a-z][a-z0-9_]*")
_ZONE: Final = re.compile(r"zone=([0-9]{1,5})")
_ZONES: Final = re.compile(r"zone=[0-9]{1,5}(?:,[0-9]{1,5})*")


def _no_arguments(params: Sequence[str]) -> bool:
    return not params


def _one_counter(params: Sequence[str]) -> bool:
    return len(params) == 1 and _COUNTER.fullmatch(params[0]) is not None


def _optional_datapath(params: Sequence[str]) -> bool:
    return len(params) <= 1 and all(_DATAPATH.fullmatch(p) for p in params)


def _named_zones(params: Sequence[str]) -> bool:
    """Without `zone=` the daemon looks up all 65,536 zones."""
    return bool(params) and _optional_datapath(params[:-1]) and _ZONES.fullmatch(params[-1]) is not None


def _one_zone_of_userspace(params: Sequence[str]) -> bool:
    """Without `zone=` the daemon flushes everything; on a kernel datapath even one zone may cost a whole dump."""
    if not params or len(params) > 2:  # noqa: PLR2004 - a datapath and a zone
        return False
    match = _ZONE.fullmatch(params[-1])
    return (
        all(_USERSPACE_DATAPATH.fullmatch(p) for p in params[:-1])
        and match is not None
        and HOST_ZONE < int(match[1]) <= MAX_ZONE
    )


ALLOWED_COMMANDS: Final[Mapping[str, Callable[[Sequence[str]], bool]]] = MappingProxyType(
    {
        "version": _no_arguments,
        "memory/show": _no_arguments,
        "connection-status": _no_arguments,
        "ct-zone-list": _no_arguments,
        "debug/dump-local-datapaths": _no_arguments,
        "coverage/read-counter": _one_counter,
        "dpctl/ct-get-nconns": _optional_datapath,
        "dpctl/ct-get-maxconns": _optional_datapath,
        "dpctl/ct-get-limits": _named_zones,
        "dpctl/flush-conntrack": _one_zone_of_userspace,
    }
)
"""Command → what its arguments must satisfy. Each costs the daemon microseconds to a few milliseconds.

`dpctl/flush-conntrack` is for the userspace datapath only, which its caller has made sure of.
"""


def encode_command(method: str, params: Sequence[str], request_id: int) -> bytes:
    """One request, ready to send.

    Raises:
        CommandRefusedError: not in `ALLOWED_COMMANDS`, or with arguments that it does not allow.
    """
    check = ALLOWED_COMMANDS.get(method)
    if check is None:
        raise CommandRefusedError(f"ctctl does not send the command {method!r} to a daemon")
    if not check(params):
        raise CommandRefusedError(f"ctctl does not send {method!r} with the arguments {list(params)!r}")
    return encode_request(method, list(params), request_id)


def reply_text(reply: Reply) -> str:
    """The text a command printed, as the daemon sent it (it ends with a line feed unless it is empty).

    Raises:
        CommandFailedError: the daemon reports an error.
        ProtocolError: neither result nor error is text.
    """
    if reply.error is not None:
        if not isinstance(reply.error, str):
            raise ProtocolError(f"a unixctl error is not text but {reply.error!r:.80}")
        raise CommandFailedError(reply.error.strip())
    if not isinstance(reply.result, str):
        raise ProtocolError(f"a unixctl result is not text but {reply.result!r:.80}")
    return reply.result


_VERSION: Final = re.compile(r"[\w.-]+(?: \([^)]*\))? ([0-9]+(?:\.[0-9]+)+\S*)")


def parse_version(text: str) -> str | None:
    """The daemon's own version out of its answer to `version`, None when it does not say one.

    "ovs-vswitchd (Open vSwitch) 3.1.0" → "3.1.0"; "ovn-controller 23.03.1", with the Open vSwitch library it was
    built with on a second line, → "23.03.1".
    """
    match = _VERSION.match(text)
    return None if match is None else match[1]


def parse_ct_zone_list(text: str) -> dict[str, ZoneId]:
    """Owner → zone out of ovn-controller's answer to `ct-zone-list`, one `owner zone` a line.

    An owner may contain spaces; the last word is the number. Allocations that are not flushed or committed yet are
    included, so this is more than the keys on the bridge.

    Raises:
        ProtocolError: a line that does not end with a zone number.
    """
    zones: dict[str, ZoneId] = {}
    for line in text.split("\n"):
        if not line:
            continue
        owner, _, number = line.rpartition(" ")
        is_number = number.isascii() and number.isdigit() and len(number) <= len(str(MAX_ZONE))
        if not owner or not is_number or int(number) > MAX_ZONE:
            raise ProtocolError(f"ct-zone-list has the line {line!r:.80}, which is not an owner and a zone number")
        zones[owner] = ZoneId(int(number))
    return zones


def parse_counter(text: str) -> int:
    """The value out of an answer to `coverage/read-counter`.

    Raises:
        ProtocolError: not a number.
    """
    number = text.strip()
    if not (number.isascii() and number.isdigit()):
        raise ProtocolError(f"coverage/read-counter answered {text!r:.80}, which is not a number")
    return int(number)
