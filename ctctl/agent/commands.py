"""What the control socket answers: the snapshot in parts, and manual flushes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Final, Protocol

from ctctl.agent.control import Handler, Request
from ctctl.agent.loop import ManualOutcome
from ctctl.agent.reports import Report, event_reports, flush_report, refusal_report, status_report, zone_reports
from ctctl.errors import CtctlError, UnavailableError
from ctctl.model.flush import Address
from ctctl.model.ids import FlushableZoneId, flushable_zone_id
from ctctl.model.snapshot import Snapshot

FLUSH_TIMEOUT_S: Final = 60.0
"""How long a manual request may take in all; what is still under way then goes on and is found in the events."""


class AskFlush(Protocol):
    """Flushes by hand through the control loop."""

    def __call__(
        self,
        zones: tuple[FlushableZoneId, ...],
        routers: tuple[str, ...],
        *,
        is_dry_run: bool,
        timeout_s: float,
        address: Address | None = None,
    ) -> tuple[ManualOutcome, ...] | None:
        """None when it was not over in time."""
        ...


class SetPaused(Protocol):
    """Pauses or resumes all flushes."""

    def __call__(self, *, is_paused: bool) -> None:
        """Remembered across restarts."""
        ...


class Commands:
    """One method per command; each answers with plain data."""

    def __init__(self, snapshot: Callable[[], Snapshot | None], ask_flush: AskFlush, set_paused: SetPaused) -> None:
        self._snapshot = snapshot
        self._ask_flush = ask_flush
        self._set_paused = set_paused

    def handlers(self) -> Mapping[str, Handler]:
        """By command name."""
        return {
            "zones": self.zones,
            "status": self.status,
            "events": self.events,
            "flush": self.flush,
            "pause": self.pause,
            "resume": self.resume,
        }

    def zones(self, request: Request) -> list[Report]:
        """Every zone worth a row."""
        del request
        return zone_reports(self._require().zones, self._require().count)

    def status(self, request: Request) -> Report:
        """Health in a few words."""
        del request
        return status_report(self._require())

    def events(self, request: Request) -> list[Report]:
        """Records after the number `after` (all without it), oldest first."""
        after = request.get("after")
        return event_reports(self._require(), after if isinstance(after, int) else 0)

    def flush(self, request: Request) -> list[Report]:
        """Flush `zones` (numbers) and `routers` (names); `address`: only entries that have it, `dry_run`: look only."""
        zones = tuple(flushable_zone_id(zone) for zone in _list(request, "zones"))
        routers = tuple(str(name) for name in _list(request, "routers"))
        if "" in routers:
            raise CtctlError("a router's name is empty")
        is_dry_run = request.get("dry_run") is True
        outcomes = self._ask_flush(
            zones, routers, is_dry_run=is_dry_run, timeout_s=FLUSH_TIMEOUT_S, address=_address(request)
        )
        if outcomes is None:
            raise UnavailableError(
                f"not over after {FLUSH_TIMEOUT_S:.0f}s; it goes on", remedy="follow it with `ctctl events --follow`"
            )
        return [_flush_report(outcome) for outcome in outcomes]

    def pause(self, request: Request) -> Report:
        """Hold every flush until resumed, across restarts."""
        del request
        self._set_paused(is_paused=True)
        return {"paused": True}

    def resume(self, request: Request) -> Report:
        """Take a pause back."""
        del request
        self._set_paused(is_paused=False)
        return {"paused": False}

    def _require(self) -> Snapshot:
        snapshot = self._snapshot()
        if snapshot is None:
            raise UnavailableError("the agent is starting", remedy="try again in a second")
        return snapshot


def _list(request: Request, key: str) -> list[object]:
    found = request.get(key, [])
    if not isinstance(found, list):
        raise CtctlError(f"{key} must be a list")
    return found


def _address(request: Request) -> Address | None:
    text = request.get("address")
    if text is None:
        return None
    try:
        return ip_address(str(text))
    except ValueError as error:
        raise CtctlError(f"{text} is no IP address") from error


def _flush_report(outcome: ManualOutcome) -> Report:
    if outcome.finished is not None:
        return flush_report(outcome.finished.outcome, outcome.finished.order.owner)
    held = outcome.held
    if held is None:
        raise CtctlError("the agent lost an outcome; see its log")
    return refusal_report(held.zone, held.owner, held.reason, held.why)
