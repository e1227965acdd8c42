"""The `flush:` section, and the policy that it makes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from ctctl.model.flush import Mode, Switch, Trigger
from ctctl.model.policy import DEFAULT_MODES, FlushPolicy


@dataclass(frozen=True, slots=True)
class TriggerModes:
    """What each trigger leads to: off, verify or always.

    `router_created`: the zones of a router that was just created. `router_removed`: zones that lost their router.
    `router_arrived`: zones of a router that became local without being created. `renumbered`: a router's new zone
    after OVN gave it another number. `gateway_moved`: a gateway that came to this chassis. `zone_assigned`: zones of
    any other owner. `requested`: zones named in the requests file.
    """

    router_created: Mode = DEFAULT_MODES[Trigger.ROUTER_CREATED]
    router_removed: Mode = DEFAULT_MODES[Trigger.ROUTER_REMOVED]
    router_arrived: Mode = DEFAULT_MODES[Trigger.ROUTER_ARRIVED]
    renumbered: Mode = DEFAULT_MODES[Trigger.RENUMBERED]
    gateway_moved: Mode = DEFAULT_MODES[Trigger.GATEWAY_MOVED]
    zone_assigned: Mode = DEFAULT_MODES[Trigger.ZONE_ASSIGNED]
    requested: Mode = DEFAULT_MODES[Trigger.REQUESTED]


@dataclass(frozen=True, slots=True)
class FlushSettings:
    """What may be deleted, when, and within which bounds. Re-read without restart.

    `switch`: enforce (act), dry_run (everything but send) or observe (no delete can be built). `triggers`: what each
    trigger leads to. `grace_s`: how long a zone must have been without owner before it is cleaned. `max_lateness_s`:
    an automatic flush later than this after its key became visible is given up, because traffic may flow.
    `budget_per_minute`: flushes in any 60 seconds. `mass_change`: router zone assignments within 60 seconds from
    which on automatic flushes wait for five stable minutes. `exclude_routers`: names of routers never flushed by
    policy. `requests_file`: file with flush requests for this node.
    """

    switch: Switch = Switch.ENFORCE
    triggers: TriggerModes = field(default_factory=TriggerModes)
    grace_s: float = 30.0
    max_lateness_s: float = 5.0
    budget_per_minute: int = 60
    mass_change: int = 200
    exclude_routers: tuple[str, ...] = ()
    requests_file: str | None = None

    def __post_init__(self) -> None:
        for name in ("budget_per_minute", "mass_change"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")

    def policy(self) -> FlushPolicy:
        """The policy that the planner decides by. Flushing by hand is always on; `switch` governs it too."""
        modes = {Trigger(f.name): getattr(self.triggers, f.name) for f in fields(TriggerModes)}
        return FlushPolicy(
            switch=self.switch,
            modes={**modes, Trigger.MANUAL: Mode.ALWAYS},
            grace_s=self.grace_s,
            max_lateness_s=self.max_lateness_s,
            budget_per_minute=self.budget_per_minute,
            mass_change=self.mass_change,
            exclude_routers=frozenset(self.exclude_routers),
        )
