"""The flush policy an operator chose: which trigger leads to what, and within which bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from ctctl.model.flush import Mode, Switch, Trigger

DEFAULT_MODES: Final[Mapping[Trigger, Mode]] = MappingProxyType(
    {
        Trigger.ROUTER_CREATED: Mode.VERIFY,
        Trigger.ROUTER_REMOVED: Mode.VERIFY,
        Trigger.ROUTER_ARRIVED: Mode.OFF,
        Trigger.RENUMBERED: Mode.OFF,
        Trigger.GATEWAY_MOVED: Mode.OFF,
        Trigger.ZONE_ASSIGNED: Mode.OFF,
        Trigger.REQUESTED: Mode.ALWAYS,
        Trigger.MANUAL: Mode.ALWAYS,
    }
)


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """Everything under `flush:` that decides.

    `modes`: one mode per trigger. `max_lateness_s`: an automatic flush later than this after its key became visible
    is given up, because traffic may flow. `budget_per_minute`: automatic flushes in any 60 s. `mass_change`: zones
    that routers may gain and lose within 60 s; more puts the brake on. `exclude_routers`: names never
    flushed by policy.
    """

    switch: Switch = Switch.ENFORCE
    modes: Mapping[Trigger, Mode] = field(default_factory=lambda: DEFAULT_MODES)
    grace_s: float = 30.0
    max_lateness_s: float = 5.0
    budget_per_minute: int = 60
    mass_change: int = 200
    exclude_routers: frozenset[str] = field(default_factory=frozenset)

    def mode(self, trigger: Trigger) -> Mode:
        """The mode of one trigger."""
        return self.modes[trigger]
