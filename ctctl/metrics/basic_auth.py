"""Who may ask: HTTP basic authentication against bcrypt hashes.

Hashing is slow on purpose, so it happens in one worker thread with a short queue, and its answers are remembered: a
scraper that has once been let in never waits behind somebody who guesses passwords.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import bcrypt

_MAX_WAITING: Final = 16
_MAX_REMEMBERED: Final = 256
_MAX_PASSWORD_BYTES: Final = 72
"""bcrypt hashes no more than that; what lies behind was ignored when the hash was made, too."""

_NOBODYS_HASH: Final = "$2b$10$0OF/gy.mXgZyMyBXeeBsM.pYh9l7IS24oP1h7sDHv5P1OtXlf6p2q"
"""Checked for unknown users, so that they take as long as known ones. Nobody knows its password."""


class TooManyLoginsError(Exception):
    """More password checks are waiting than the server takes on; the client may try again."""


def credentials(header: str | None) -> tuple[str, str] | None:
    """User and password of an Authorization header; None when there is none, or not a well-formed Basic one."""
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (user, password) if colon else None


class PasswordChecker:
    """Checks passwords in a thread of its own. `is_allowed` belongs to one event loop."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ctctl-passwords")
        self._waiting = 0
        self._remembered: OrderedDict[bytes, bool] = OrderedDict()

    async def is_allowed(self, users: Mapping[str, str], authorization: str | None) -> bool:
        """Claims that the header names one of `users` (name → bcrypt hash) with its password.

        Raises:
            TooManyLoginsError: too many checks are waiting.
        """
        given = credentials(authorization)
        if given is None:
            return False
        user, password = given
        hashed = users.get(user, _NOBODYS_HASH)
        key = hashlib.sha256(b"\0".join(part.encode() for part in (hashed, user, password))).digest()
        if (known := self._remembered.get(key)) is not None:
            self._remembered.move_to_end(key)
            return known
        if self._waiting >= _MAX_WAITING:
            raise TooManyLoginsError
        self._waiting += 1
        try:
            is_right = await asyncio.get_running_loop().run_in_executor(self._worker, _matches, password, hashed)
        finally:
            self._waiting -= 1
        is_allowed = is_right and user in users
        self._remember(key, is_allowed)
        return is_allowed

    def close(self) -> None:
        """Check no more."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _remember(self, key: bytes, is_allowed: bool) -> None:
        """Keep the answer. Refusals are forgotten first, or guessing would push out those who were let in."""
        if len(self._remembered) >= _MAX_REMEMBERED:
            oldest_refusal = next((k for k, allowed in self._remembered.items() if not allowed), None)
            self._remembered.pop(oldest_refusal or next(iter(self._remembered)))
        self._remembered[key] = is_allowed


def _matches(password: str, hashed: str) -> bool:
    try:
        return bcrypt.checkpw(password.encode()[:_MAX_PASSWORD_BYTES], hashed.encode())
    except ValueError:
        # A NUL byte in the password, or a cost the library refuses: neither can be right.
        return False
