"""A token bucket over all requests, as exporter-toolkit's `rate_limit` asks for. The time is an argument."""

from __future__ import annotations


class RateLimit:
    """One request per `interval_s`, `burst` of them at once. An interval of 0 lets everything pass."""

    def __init__(self, interval_s: float, burst: int) -> None:
        self._interval_s = interval_s
        self._burst = burst
        self._tokens = float(burst)
        self._at_s: float | None = None

    def is_admitted(self, now_s: float) -> bool:
        """Claims that a request at `now_s` may pass, and counts it. Times must not go back."""
        if self._interval_s <= 0:
            return True
        if self._at_s is not None:
            self._tokens = min(float(self._burst), self._tokens + (now_s - self._at_s) / self._interval_s)
        self._at_s = now_s
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
