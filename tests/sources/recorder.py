"""Runs a source in a thread and keeps what it reports, with the moment it arrived."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from ctctl.model.events import DatabaseConfirmed, DatabaseLost, Event, LocalViewRead, OvnViewRead
from ctctl.model.ovn import OvnView
from ctctl.model.ovs import LocalView
from ctctl.sources.source import Source

E = TypeVar("E")


class Recorder:
    """`report` is what a source under test is given; then `with recorder.running(source):`."""

    def __init__(self) -> None:
        self.events: list[tuple[float, Event]] = []
        self._news = threading.Condition()
        self._source: Source | None = None
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None

    def report(self, event: Event) -> None:
        with self._news:
            self.events.append((time.monotonic(), event))
            self._news.notify_all()

    def running(self, source: Source) -> Self:
        self._source = source
        return self

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="source under test")
        self._thread.start()
        return self

    def _run(self) -> None:
        assert self._source is not None
        try:
            self._source.run()
        except BaseException as e:
            self.failure = e
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._source is not None
        assert self._thread is not None
        started = time.monotonic()
        self._source.stop()
        self._thread.join(10)
        took = time.monotonic() - started
        if error is None:
            assert self.failure is None
            assert not self._thread.is_alive(), "the source did not stop"
            assert took < 1.0, f"the source took {took:.2f} s to stop"

    def mark(self) -> int:
        """A place in the record, to look only at what comes after it."""
        with self._news:
            return len(self.events)

    def wait(
        self, is_wanted: Callable[[Event], bool], *, after: int = 0, timeout_s: float = 10.0
    ) -> tuple[float, Event]:
        """The first wanted event after the mark, and when it arrived."""
        end = time.monotonic() + timeout_s
        seen = after
        with self._news:
            while True:
                for at, event in self.events[seen:]:
                    if is_wanted(event):
                        return at, event
                seen = len(self.events)
                left = end - time.monotonic()
                if left <= 0 or not self._news.wait(left):
                    raise AssertionError(f"not reported in {timeout_s} s; last: {[e for _, e in self.events[-5:]]}")

    def of(self, kind: type[E], *, after: int = 0) -> list[E]:
        """Every event of one class so far."""
        with self._news:
            return [event for _, event in self.events[after:] if isinstance(event, kind)]

    def local_view(
        self, is_wanted: Callable[[LocalView], bool] = bool, *, after: int = 0, timeout_s: float = 10.0
    ) -> LocalView:
        _, event = self.wait(
            lambda e: isinstance(e, LocalViewRead) and is_wanted(e.view), after=after, timeout_s=timeout_s
        )
        assert isinstance(event, LocalViewRead)
        return event.view

    def ovn_view(
        self, is_wanted: Callable[[OvnView], bool] = bool, *, after: int = 0, timeout_s: float = 10.0
    ) -> OvnView:
        _, event = self.wait(
            lambda e: isinstance(e, OvnViewRead) and is_wanted(e.view), after=after, timeout_s=timeout_s
        )
        assert isinstance(event, OvnViewRead)
        return event.view

    def lost(self, text: str = "", *, after: int = 0, timeout_s: float = 10.0) -> DatabaseLost:
        _, event = self.wait(lambda e: isinstance(e, DatabaseLost) and text in e.why, after=after, timeout_s=timeout_s)
        assert isinstance(event, DatabaseLost)
        return event

    def confirmed(self, *, after: int = 0, timeout_s: float = 10.0) -> DatabaseConfirmed:
        _, event = self.wait(lambda e: isinstance(e, DatabaseConfirmed), after=after, timeout_s=timeout_s)
        assert isinstance(event, DatabaseConfirmed)
        return event
