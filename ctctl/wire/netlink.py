"""Netlink framing: message headers and attributes ⇄ bytes. Knows nothing of conntrack and opens no socket.

Every reader here refuses what is cut short or contradicts its own lengths; nothing is skipped to "keep going".
Headers are in host byte order; what stands inside nfnetlink attributes is big-endian and belongs to the caller.
Source: the kernel's include/uapi/linux/netlink.h and nfnetlink.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ctctl.errors import ProtocolError

HEADER: Final = struct.Struct("=IHHII")
"""nlmsg_len, nlmsg_type, nlmsg_flags, nlmsg_seq, nlmsg_pid."""
ATTRIBUTE: Final = struct.Struct("=HH")
"""nla_len (header included, padding not), nla_type."""
GENERIC: Final = struct.Struct("!BBH")
"""struct nfgenmsg: nfgen_family, version, res_id (big-endian)."""
_LENGTH: Final = struct.Struct("=I")

NLMSG_NOOP: Final = 1
NLMSG_ERROR: Final = 2
NLMSG_DONE: Final = 3
NLMSG_OVERRUN: Final = 4

NLM_F_REQUEST: Final = 0x1
NLM_F_MULTI: Final = 0x2
NLM_F_ACK: Final = 0x4
NLM_F_DUMP_INTR: Final = 0x10
NLM_F_DUMP: Final = 0x300

NLA_F_NESTED: Final = 0x8000
NLA_TYPE_MASK: Final = 0x3FFF
"""Strips NLA_F_NESTED and NLA_F_NET_BYTEORDER."""

MAX_ATTRIBUTE_PAYLOAD: Final = 0xFFFF - ATTRIBUTE.size

Bytes = bytes | bytearray | memoryview

Block = bytes | bytearray
"""What one receive yields."""


class MalformedMessageError(ProtocolError):
    """Bytes that are no netlink message, or one that is cut short."""


@dataclass(frozen=True, slots=True)
class Message:
    """One netlink message; `payload` is what follows the 16-byte header, without padding."""

    type: int
    flags: int
    seq: int
    portid: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute; `type` without its flag bits, `value` without padding."""

    type: int
    value: bytes


def align(length: int) -> int:
    """`length` rounded up to netlink's 4 bytes."""
    return (length + 3) & ~3


def message(message_type: int, flags: int, seq: int, payload: bytes) -> bytes:
    """The bytes of one request. The sender's port id is left 0: the kernel knows it from the socket."""
    return HEADER.pack(HEADER.size + len(payload), message_type, flags, seq, 0) + payload


def attribute(attribute_type: int, value: bytes) -> bytes:
    """The bytes of one attribute, padded to 4.

    Raises:
        ValueError: `value` does not fit the 16-bit length, which would shift everything that follows.
    """
    if len(value) > MAX_ATTRIBUTE_PAYLOAD:
        raise ValueError(f"attribute {attribute_type} of {len(value)} bytes does not fit netlink's 16-bit length")
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(value), attribute_type) + value + bytes(-len(value) % 4)


def nested(attribute_type: int, *attributes: bytes) -> bytes:
    """An attribute that holds attributes; empty when none is given."""
    return attribute(attribute_type | NLA_F_NESTED, b"".join(attributes))


def message_end(buffer: Bytes, start: int, end: int) -> int:
    """The offset behind the message at `start` of `buffer[:end]`, padding not included.

    Raises:
        MalformedMessageError: no room for a header, or a length that is smaller than one or reaches past `end`.
    """
    if end - start < HEADER.size:
        raise MalformedMessageError(f"{end - start} bytes left where a netlink header needs {HEADER.size}")
    (length,) = _LENGTH.unpack_from(buffer, start)
    if length < HEADER.size or start + length > end:
        raise MalformedMessageError(f"netlink message claims {length} bytes where {end - start} are left")
    return start + int(length)


def messages(buffer: Bytes) -> Iterator[Message]:
    """Every message in `buffer`, copied out of it.

    Raises:
        MalformedMessageError: see `message_end`.
    """
    start = 0
    while start < len(buffer):
        end = message_end(buffer, start, len(buffer))
        _, message_type, flags, seq, portid = HEADER.unpack_from(buffer, start)
        yield Message(message_type, flags, seq, portid, bytes(buffer[start + HEADER.size : end]))
        start = align(end)


def attributes(buffer: Bytes, start: int = 0) -> Iterator[Attribute]:
    """Every attribute in `buffer[start:]`, copied out of it.

    Raises:
        MalformedMessageError: a length smaller than an attribute header or past the end of `buffer`.
    """
    end = len(buffer)
    while start < end:
        if end - start < ATTRIBUTE.size:
            raise MalformedMessageError(f"{end - start} bytes left where an attribute header needs {ATTRIBUTE.size}")
        length, attribute_type = ATTRIBUTE.unpack_from(buffer, start)
        if length < ATTRIBUTE.size or start + length > end:
            raise MalformedMessageError(
                f"attribute {attribute_type & NLA_TYPE_MASK} claims {length} bytes where {end - start} are left"
            )
        yield Attribute(attribute_type & NLA_TYPE_MASK, bytes(buffer[start + ATTRIBUTE.size : start + length]))
        start += align(length)


def by_type(buffer: Bytes, start: int = 0) -> dict[int, bytes]:
    """Attribute values by type. The last of equal types wins, as in the kernel's own nla_parse().

    Raises:
        MalformedMessageError: see `attributes`.
    """
    return {a.type: a.value for a in attributes(buffer, start)}


def error_number(payload: Bytes) -> int:
    """The positive errno of an NLMSG_ERROR or NLMSG_DONE payload, 0 for an acknowledgement or a clean end.

    Raises:
        MalformedMessageError: no room for the number, or one that is positive, which no kernel sends.
    """
    if len(payload) < 4:  # noqa: PLR2004 (an int)
        raise MalformedMessageError(f"netlink status of {len(payload)} bytes instead of 4 or more")
    (status,) = struct.unpack_from("=i", payload)
    if status > 0:
        raise MalformedMessageError(f"netlink status {status} is neither 0 nor a negative error number")
    return -int(status)
