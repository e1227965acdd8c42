"""ovs-vswitchd and ovn-controller as seen from outside: up, answering, and for how long not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ctctl.model.instant import Instant


class Daemon(StrEnum):
    """Label values of `daemon`."""

    VSWITCHD = "ovs-vswitchd"
    OVN_CONTROLLER = "ovn-controller"


@dataclass(frozen=True, slots=True)
class DaemonView:
    """The probe's knowledge of one daemon.

    `unanswered_since`: when the probe now outstanding was sent, None while none is. `is_up`: its control socket
    accepts connections (a stalled daemon is up). `last_round_trip_s`: of the last answered probe. `version`: as the
    daemon itself says, e.g. "3.1.0". `why_down`: one line with path and remedy when it is not up.
    """

    daemon: Daemon
    is_up: bool
    unanswered_since: Instant | None = None
    last_round_trip_s: float | None = None
    version: str | None = None
    socket_path: str | None = None
    why_down: str = ""
