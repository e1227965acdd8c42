"""Orders, times and a map reader for the tests of the agent's parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ctctl.errors import CtctlError
from ctctl.model.flush import FlushOrder, FlushResult, Strategy, Trigger
from ctctl.model.ids import FlushableZoneId, RouterId, flushable_zone_id
from ctctl.model.instant import Instant
from ctctl.model.ovs import BridgeView, DatapathType, LocalView


@dataclass
class Clock:
    """Stands still unless told otherwise."""

    seconds: float = 1000.0

    def __call__(self) -> Instant:
        return Instant(self.seconds, 1_800_000_000.0 + self.seconds)

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds


def order(
    order_id: int = 1, zone: int = 12, key: str = "r1_dnat", at: Instant | None = None, **fields: object
) -> FlushOrder:
    visible = at or Clock()()
    whole = FlushOrder(
        order_id, flushable_zone_id(zone), Trigger.ROUTER_CREATED, "r1", RouterId("nb-r1"), key, visible=visible
    )
    return replace(whole, **fields)  # type: ignore[arg-type]


@dataclass
class Reader:
    """The local database: `keys` as they are now, read at `clock`, or `error`.

    `delays_s`: how long each reply takes from being read to being returned, one after the other, then none.
    `meanwhile`: called while a reply is on its way.
    """

    clock: Clock
    keys: dict[str, str] = field(default_factory=lambda: {"r1_dnat": "12", "r1_snat": "13"})
    error: CtctlError | None = None
    delays_s: list[float] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None
    reads: int = 0

    def read(self, timeout_s: float) -> LocalView:
        assert timeout_s > 0
        self.reads += 1
        self.meanwhile()
        if self.error is not None:
            raise self.error
        view = LocalView(self.clock(), 1, (BridgeView("br-int", DatapathType.KERNEL, dict(self.keys)),))
        if self.delays_s:
            self.clock.pass_time(self.delays_s.pop(0))
        return view


@dataclass
class Deleter:
    """A kernel that takes whole-zone flushes only, and remembers them."""

    flushed: list[int] = field(default_factory=list)
    before: Callable[[], None] = lambda: None

    def flush_zone(self, zone: FlushableZoneId, *, timeout_s: float) -> FlushResult:
        assert timeout_s > 0
        self.before()
        self.flushed.append(int(zone))
        return FlushResult(zone, Strategy.KERNEL_FILTER, 0.001, None)
