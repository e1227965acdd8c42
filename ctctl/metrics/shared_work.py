"""Slow answers made in one worker thread, each at most once at a time however many ask for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class SharedWork(Generic[Key, Result]):
    """`get` belongs to one event loop. Different keys wait for each other, equal ones share one result."""

    def __init__(self, name: str) -> None:
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._under_way: dict[Key, asyncio.Future[Result]] = {}

    async def get(self, key: Key, make: Callable[[], Result], timeout_s: float) -> Result:
        """What `make` returns, or what the call for `key` returns that is already under way.

        Raises:
            TimeoutError: not ready within `timeout_s`; the work goes on for the next one who asks.
        """
        future = self._under_way.get(key)
        if future is None:
            future = asyncio.get_running_loop().run_in_executor(self._worker, make)
            self._under_way[key] = future
            future.add_done_callback(lambda done: self._end(key, done))
        return await asyncio.wait_for(asyncio.shield(future), timeout_s)

    def close(self) -> None:
        """Begin no more; what is under way ends by itself."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _end(self, key: Key, done: asyncio.Future[Result]) -> None:
        del self._under_way[key]
        if not done.cancelled():
            # Marks an error as seen, also where everybody who asked has stopped waiting.
            done.exception()
