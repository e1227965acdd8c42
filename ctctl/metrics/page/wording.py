"""Numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from ctctl.model.instant import Instant

_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 86400


def number(value: int) -> str:
    """12345 as 12,345."""
    return f"{value:,}"


def share(part: int, whole: int) -> str:
    """A part in per cent: 4 %, 0.3 %, < 0.1 %."""
    if whole <= 0 or part <= 0:
        return "0 %"
    percent = 100 * part / whole
    if percent < 0.1:  # noqa: PLR2004 below what one decimal shows
        return "< 0.1 %"
    return f"{percent:.1f} %" if percent < 10 else f"{percent:.0f} %"  # noqa: PLR2004 two digits are enough


def seconds(value: float) -> str:
    """A duration with about two significant digits: 0.4 ms, 12 ms, 0.85 s, 12 s, 3 min, 2 h, 4 d."""
    if value < 0.001:  # noqa: PLR2004 the unit's own bound
        return f"{value * 1000:.1f} ms"
    if value < 0.1:  # noqa: PLR2004 the unit's own bound
        return f"{value * 1000:.0f} ms"
    if value < 10:  # noqa: PLR2004 two digits are enough
        return f"{value:.2g} s"
    if value < 2 * _MINUTE_S:
        return f"{value:.0f} s"
    if value < 2 * _HOUR_S:
        return f"{value / _MINUTE_S:.0f} min"
    if value < 2 * _DAY_S:
        return f"{value / _HOUR_S:.0f} h"
    return f"{value / _DAY_S:.0f} d"


def clock_time(at: Instant) -> str:
    """Time of day, UTC."""
    return datetime.fromtimestamp(at.wall_s, UTC).strftime("%H:%M:%S")


def iso_time(at: Instant) -> str:
    """Date and time, UTC, ISO 8601."""
    return datetime.fromtimestamp(at.wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
