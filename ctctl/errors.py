"""Every deliberate error of ctctl: what was tried, on what, and what to do about it.

Layers raise these for what the caller cannot have wanted. What is normal (nothing to flush, an entry already
gone, a refusal for safety) is a returned value, never an exception.
"""

from __future__ import annotations


class CtctlError(Exception):
    """Base of all deliberate errors.

    `str()` of it is one line fit for a log or a terminal: what was tried and on what, the cause, and the remedy.
    """

    def __init__(self, what: str, *, remedy: str | None = None) -> None:
        super().__init__(what if remedy is None else f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


class ConfigError(CtctlError):
    """The configuration file or a flag is wrong. Names the key, the file and the line where there is one."""


class InvalidZoneError(CtctlError, ValueError):
    """A value that is not a conntrack zone number, or one that must never be flushed, was given as one."""


class UnavailableError(CtctlError):
    """Something this host should offer cannot be reached now: a socket, a database, a kernel module."""


class PermissionDeniedError(UnavailableError):
    """The kernel or a file's mode refused access. The remedy names the capability or the mode that is needed."""


class TimedOutError(UnavailableError):
    """The other side took the request and did not answer in time."""


class ProtocolError(CtctlError):
    """The other side answered with something its protocol does not allow; the connection is not to be used again."""
