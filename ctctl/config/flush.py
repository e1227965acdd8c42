"""The `flush:` section, and the policy that it makes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from ctctl.model.flush import Mode, Switch, Trigger
from ctctl.model.policy import DEFAULT_MODES, FlushPolicy


@dataclass(frozen=True, slots=True)
class TriggerModes:
    """What each trigger leads to: off, verify or always."""

    router_created: Mode = DEFAULT_MODES[Trigger.ROUTER_CREATED]
    """The zones of a router that was just created."""

    router_removed: Mode = DEFAULT_MODES[Trigger.ROUTER_REMOVED]
    """Zones that this agent saw lose their router, once they are certainly nobody's and still hold entries."""

    router_arrived: Mode = DEFAULT_MODES[Trigger.ROUTER_ARRIVED]
    """Zones of a router that became local without being created."""

    renumbered: Mode = DEFAULT_MODES[Trigger.RENUMBERED]
    """A router's new zone after OVN gave it another number."""

    gateway_moved: Mode = DEFAULT_MODES[Trigger.GATEWAY_MOVED]
    """Zones of a gateway that came to this chassis. Not acted on in this version."""

    zone_assigned: Mode = DEFAULT_MODES[Trigger.ZONE_ASSIGNED]
    """Zones of any other owner: ports and switches. Not acted on in this version."""

    requested: Mode = DEFAULT_MODES[Trigger.REQUESTED]
    """Zones named in the requests file; only `always` acts on them."""


@dataclass(frozen=True, slots=True)
class FlushSettings:
    """What may be deleted, when, and within which bounds. Re-read without restart."""

    switch: Switch = Switch.ENFORCE
    """enforce: act. dry_run: everything but send. observe: no delete can even be built."""

    triggers: TriggerModes = field(default_factory=TriggerModes)
    """What each trigger leads to."""

    grace_s: float = 30.0
    """How long a zone must have been without owner before it is cleaned."""

    max_lateness_s: float = 5.0
    """An automatic flush later than this after its key became visible is given up: traffic may flow."""

    budget_per_minute: int = 60
    """Flushes in any 60 seconds, by hand included."""

    mass_change: int = 200
    """Zones that routers may gain and lose in 60 seconds; beyond it automatic flushes wait for five stable minutes."""

    exclude_routers: tuple[str, ...] = ()
    """Names of routers never flushed by policy."""

    requests_file: str | None = None
    """File with flush requests for all nodes, re-read without restart; see `ctctl flush --everywhere`."""

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
