"""What was about to be flushed, and what came of it: one JSON line each, written before and after sending.

A process that is killed leaves its intent behind; the next start finds it and says so instead of repeating it. The
lines are not synced to disk: what survives a kill is in the page cache, and a host that lost power has lost its
conntrack table too.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ctctl.errors import UnavailableError
from ctctl.model.flush import FlushOrder, FlushOutcome
from ctctl.model.instant import Instant

KEPT_LINES: Final = 2000
"""Lines kept when the file is rewritten at start."""

MAX_LINES: Final = 20_000
"""Lines after which a running agent rewrites the file."""

_NAME: Final = "journal.jsonl"


class Journal:
    """Append-only while open; only the executor writes, only the start reads."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _NAME
        self._descriptor: int | None = None
        self._lines = 0
        self._is_torn = False

    def open(self, now: Instant) -> tuple[Mapping[str, object], ...]:
        """Open for appending, and return the intents that no outcome followed: flushes a killed agent was sending.

        Raises:
            UnavailableError: the directory cannot be created or written.
        """
        try:
            self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            lines = self._read()
            self._rewrite(lines[-KEPT_LINES:])
            self._append({"start": now.wall_s})
        except OSError as error:
            raise UnavailableError(
                f"cannot write the journal {self._path}: {error.strerror}",
                remedy="make state.dir writable for this user, or set another one",
            ) from error
        return _interrupted(lines)

    def intend(self, order: FlushOrder, now: Instant) -> None:
        """Write down that this order is about to be sent.

        Raises:
            UnavailableError: it could not be written; then nothing may be sent.
        """
        self._append({"intent": order.order_id, "at": now.wall_s, **_described(order)})

    def conclude(self, order: FlushOrder, outcome: FlushOutcome, now: Instant) -> None:
        """Write down what came of it.

        Raises:
            UnavailableError: it could not be written; a restart will report the flush as interrupted.
        """
        result = {"kind": type(outcome).__name__, "reason": getattr(outcome, "reason", None)}
        self._append({"outcome": order.order_id, "at": now.wall_s, **_described(order), **result})

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _append(self, line: Mapping[str, object]) -> None:
        if self._descriptor is None:
            raise UnavailableError(f"journal {self._path} is not open", remedy="make state.dir writable and restart")
        try:
            if self._lines >= MAX_LINES:
                self._rewrite(self._read()[-KEPT_LINES:])
            self._write(self._descriptor, json.dumps(line).encode() + b"\n")
        except OSError as error:
            raise UnavailableError(f"cannot write the journal {self._path}: {error.strerror}") from error
        self._lines += 1

    def _write(self, descriptor: int, line: bytes) -> None:
        """Write a whole line, or raise: a full disk takes part of one, and what follows must not be lost with it."""
        data = b"\n" + line if self._is_torn else line
        self._is_torn = True
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._is_torn = False

    def _read(self) -> list[Mapping[str, object]]:
        if not self._path.exists():
            return []
        found: list[Mapping[str, object]] = []
        for text in self._path.read_text(errors="replace").splitlines():
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                continue  # a killed writer, or a full disk, leaves a torn line
            if isinstance(line, dict):
                found.append(line)
        return found

    def _rewrite(self, lines: list[Mapping[str, object]]) -> None:
        draft = self._path.with_suffix(".new")
        draft.write_text("".join(json.dumps(line) + "\n" for line in lines))
        draft.replace(self._path)
        self.close()
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._lines = len(lines)
        self._is_torn = False


def _described(order: FlushOrder) -> dict[str, object]:
    return {
        "zone": order.zone,
        "trigger": order.trigger,
        "owner": order.owner,
        "router": order.router,
        "key": order.key,
        "request": order.request_id,
    }


def _interrupted(lines: list[Mapping[str, object]]) -> tuple[Mapping[str, object], ...]:
    """Intents of the last agent without an outcome. Order numbers start anew with each agent's `start` line."""
    waiting: dict[int, Mapping[str, object]] = {}
    for line in lines:
        intent, outcome = line.get("intent"), line.get("outcome")
        if isinstance(intent, int):
            waiting[intent] = line
        elif isinstance(outcome, int):
            waiting.pop(outcome, None)
        elif "start" in line:
            waiting.clear()
    return tuple(waiting.values())
