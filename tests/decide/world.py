"""A small world to write playbooks in: facts are said in one line each, and the planner's answers are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ctctl.decide.planner import Planner
from ctctl.model.actions import Action, FlushZone, GiveVerdict, HoldZone, ReportRouter
from ctctl.model.capability import Capability, Probe
from ctctl.model.counts import CountMethod, CountPass
from ctctl.model.daemon import Daemon, DaemonView
from ctctl.model.events import (
    CountFinished,
    DaemonSeen,
    DatabaseConfirmed,
    Event,
    FlusherLockChanged,
    FlushFinished,
    LocalViewRead,
    ManualFlushAsked,
    OvnViewRead,
    Probed,
    TimePassed,
)
from ctctl.model.flush import FlushOrder, FlushOutcome, FlushResult, Mode, Strategy, Trigger
from ctctl.model.ids import RouterId, ZoneId, flushable_zone_id
from ctctl.model.instant import Instant
from ctctl.model.ovn import Datapath, DatapathKind, LogicalRouter, OvnDatabase, OvnView
from ctctl.model.ovs import BridgeView, DatapathType, LocalView
from ctctl.model.policy import DEFAULT_MODES, FlushPolicy


def policy(**modes: Mode) -> FlushPolicy:
    return FlushPolicy(modes={**DEFAULT_MODES, **{Trigger(name): mode for name, mode in modes.items()}})


def router_datapath(name: str, nb_uuid: str | None = None, uuid: str | None = None, **extra: object) -> Datapath:
    nb = nb_uuid or f"nb-{name}"
    return Datapath(uuid or f"dp-{nb}", DatapathKind.ROUTER, name, nb, **extra)  # type: ignore[arg-type]


def switch_datapath(name: str) -> Datapath:
    return Datapath(f"dp-ls-{name}", DatapathKind.SWITCH, name, f"nb-ls-{name}")


@dataclass
class World:
    """`routers` and `keys` are the databases; `show_ovn` and `show_map` let the planner see them."""

    policy: FlushPolicy = field(default_factory=FlushPolicy)
    time_s: float = 1000.0
    routers: dict[str, Datapath] = field(default_factory=dict)
    switches: dict[str, Datapath] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    datapath_type: DatapathType = DatapathType.KERNEL
    ovn_session: int = 1
    local_session: int = 1
    zone_ranges: tuple[tuple[int, int], ...] = ()
    actions: list[Action] = field(default_factory=list)
    keys_shown: dict[str, str] = field(default_factory=dict)
    routers_shown: dict[str, Datapath] = field(default_factory=dict)
    switches_shown: dict[str, Datapath] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.planner = Planner(self.policy)

    @property
    def now(self) -> Instant:
        return Instant(self.time_s, 1_700_000_000.0 + self.time_s)

    def tell(self, event: Event) -> list[Action]:
        new = self.planner.handle(event, self.now)
        self.actions += new
        return new

    def start(self) -> World:
        """A healthy host: everything connected, up and permitted."""
        self.tell(FlusherLockChanged(is_held=True))
        self.tell(
            Probed(
                (
                    Probe(Capability.CONNTRACK, is_supported=True, why=""),
                    Probe(Capability.SAME_NETWORK_NAMESPACE, is_supported=True, why=""),
                )
            )
        )
        for daemon in Daemon:
            self.tell(DaemonSeen(DaemonView(daemon, is_up=True)))
        self.show_map()
        self.show_ovn()
        return self

    def show_map(self) -> list[Action]:
        self.keys_shown = dict(self.keys)
        bridge = BridgeView("br-int", self.datapath_type, dict(self.keys))
        view = LocalView(self.now, self.local_session, (bridge,), zone_ranges=self.zone_ranges)
        return self.tell(LocalViewRead(view))

    def show_ovn(self) -> list[Action]:
        self.routers_shown, self.switches_shown = dict(self.routers), dict(self.switches)
        datapaths = (*self.routers.values(), *self.switches.values())
        routers = tuple(LogicalRouter(RouterId(d.nb_uuid), d.name) for d in datapaths if d.kind is DatapathKind.ROUTER)
        view = OvnView(OvnDatabase.SOUTHBOUND, self.now, self.ovn_session, routers, datapaths)
        return self.tell(OvnViewRead(view))

    def create_router(self, name: str, dnat: int, snat: int, nb_uuid: str | None = None) -> list[Action]:
        """What OVN does: the Southbound row first, then both keys in one transaction."""
        self.routers[name] = router_datapath(name, nb_uuid)
        seen = self.show_ovn()
        self.pass_time(0.1)
        self.keys |= {f"{name}_dnat": str(dnat), f"{name}_snat": str(snat)}
        return seen + self.show_map()

    def delete_router(self, name: str) -> list[Action]:
        del self.routers[name]
        seen = self.show_ovn()
        for suffix in ("_dnat", "_snat"):
            self.keys.pop(name + suffix, None)
        return seen + self.show_map()

    def pass_time(self, seconds: float) -> list[Action]:
        """Time passes while the local connection stays confirmed."""
        self.time_s += seconds
        self.tell(DatabaseConfirmed(OvnDatabase.LOCAL, self.now))
        return self.tell(TimePassed())

    def count(
        self, entries: Mapping[int, int] | None = None, *, started_s: float | None = None, **kw: object
    ) -> list[Action]:
        """A pass that starts and ends now (or started at `started_s`)."""
        started = self.now if started_s is None else replace(self.now, boot_s=started_s)
        by_zone = {ZoneId(z): n for z, n in (entries or {}).items()}
        kept = self.planner.keep().zones
        done = CountPass(started, self.now, CountMethod.FULL_DUMP, by_zone, sum(by_zone.values()), kept=kept)
        return self.tell(CountFinished(replace(done, **kw) if kw else done))  # type: ignore[arg-type]

    def finish_flush(self, outcome: FlushOutcome | None = None) -> list[Action]:
        """The flush that is out comes back, by default as done."""
        order = self.planner.in_flight
        assert order is not None, "no flush is out"
        sent = self.now
        self.time_s += 0.001
        result = outcome or FlushResult(order.zone, Strategy.KERNEL_FILTER, 0.001, None)
        return self.tell(FlushFinished(order, result, sent, self.now))

    def finish_all_flushes(self) -> int:
        done = 0
        while self.planner.in_flight is not None:
            self.finish_flush()
            done += 1
        return done

    def ask_flush(self, *zones: int, routers: tuple[str, ...] = (), dry_run: bool = False) -> list[Action]:
        wanted = tuple(flushable_zone_id(zone) for zone in zones)
        return self.tell(ManualFlushAsked(7, wanted, routers, at=self.now, is_dry_run=dry_run))

    @property
    def flushed(self) -> list[int]:
        return [int(order.zone) for order in self.orders]

    @property
    def orders(self) -> list[FlushOrder]:
        return [a.order for a in self.actions if isinstance(a, FlushZone)]

    @property
    def holds(self) -> list[tuple[int | None, str]]:
        return [(a.zone, a.reason.value) for a in self.actions if isinstance(a, HoldZone)]

    @property
    def verdicts(self) -> list[tuple[str, int, str, str]]:
        given = [v for a in self.actions if isinstance(a, GiveVerdict) for v in a.verdicts]
        return [(v.owner, int(v.zone), v.verdict.value, v.flush.value) for v in given]

    @property
    def changes(self) -> list[tuple[str, str]]:
        return [(a.name, a.change.value) for a in self.actions if isinstance(a, ReportRouter)]
