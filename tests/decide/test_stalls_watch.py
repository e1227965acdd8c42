"""Promises of the stall watch: routers named, zones per router learned, the next stall predicted."""

from __future__ import annotations

import pytest

from ctctl.decide.stall_watch import SETUP_S, StallWatch
from ctctl.model.actions import ReportRouter, RouterChange
from ctctl.model.daemon import Daemon
from ctctl.model.events import LocalViewRead, TimePassed
from ctctl.model.ids import RouterId
from ctctl.model.instant import Instant
from ctctl.model.ovs import BridgeView, DatapathType, LocalView
from ctctl.model.record import Record, RecordKind
from ctctl.model.snapshot import TargetInfo
from ctctl.model.stalls import FlushPath, LongPoll

TARGET = TargetInfo(kernel_release="6.12.0", ovs_version="3.1.0", datapath_type=DatapathType.KERNEL)


def at(seconds: float) -> Instant:
    return Instant(1000.0 + seconds, 2000.0 + seconds)


class Script:
    def __init__(self) -> None:
        self.watch = StallWatch(1.0)
        self.records: list[Record] = []
        self.keys: dict[str, str] = {}

    def router(self, seconds: float, name: str, change: RouterChange) -> None:
        report = ReportRouter(RouterId(f"uuid of {name}"), name, change, (), at(seconds))
        self.records += self.watch.handle(TimePassed(), [report], at(seconds))

    def ready(self, seconds: float, *names: str, keys: int, session: int = 1) -> None:
        self.keys |= {f"{names[0]}-{n}": str(len(self.keys) + n + 1) for n in range(keys)}
        bridge = BridgeView("br-int", DatapathType.KERNEL, dict(self.keys))
        reports = [ReportRouter(RouterId(f"uuid of {n}"), n, RouterChange.READY, (), at(seconds)) for n in names]
        self.records += self.watch.handle(
            LocalViewRead(LocalView(confirmed=at(seconds), session=session, bridges=(bridge,))), reports, at(seconds)
        )

    def stall(self, end: float, length_s: float) -> None:
        self.records += self.watch.handle(
            LongPoll(Daemon.VSWITCHD, "main", length_s, 0.1, length_s * 0.9, at(end)), [], at(end + 0.2)
        )

    def pass_until(self, seconds: float) -> None:
        self.records += self.watch.handle(TimePassed(), [], at(seconds))

    def predicted(self, dump_s: float | None = 2.0, flush_s: float | None = 0.2) -> dict[FlushPath, float]:
        return dict(self.watch.tallies(dump_s, flush_s, TARGET).predicted_router_stall_s)


@pytest.fixture
def script() -> Script:
    return Script()


def test_a_stall_during_a_routers_setup_names_it(script: Script) -> None:
    script.router(0.0, "r1", RouterChange.CREATED)
    script.pass_until(0.1)
    script.stall(11.0, 10.6)
    script.ready(11.1, "r1", keys=4)
    script.pass_until(14.0)
    [record] = script.records
    assert record.kind is RecordKind.STALL
    assert record.fields["routers_in_setup"] == ["r1"]
    assert script.watch.tallies(None, None, TARGET).near_router_change == 1


def test_a_router_that_gets_no_zones_here_is_soon_not_blamed(script: Script) -> None:
    script.router(0.0, "elsewhere", RouterChange.CREATED)
    script.pass_until(SETUP_S + 1)
    script.pass_until(SETUP_S + 2)
    script.stall(SETUP_S + 10, 3.0)
    script.pass_until(SETUP_S + 20)
    assert script.records[0].fields["routers_in_setup"] == []


def test_a_router_that_is_ready_is_not_blamed_for_a_later_stall(script: Script) -> None:
    script.router(0.0, "r1", RouterChange.CREATED)
    script.ready(0.5, "r1", keys=4)
    script.pass_until(0.6)
    script.stall(5.0, 2.0)
    script.pass_until(9.0)
    assert script.records[0].fields["routers_in_setup"] == []


def test_a_removed_router_is_not_blamed(script: Script) -> None:
    script.router(0.0, "r1", RouterChange.CREATED)
    script.router(1.0, "r1", RouterChange.REMOVED)
    script.pass_until(1.1)
    script.stall(5.0, 2.0)
    script.pass_until(9.0)
    assert script.records[0].fields["routers_in_setup"] == []


def test_the_prediction_uses_the_zones_that_routers_bring_here(script: Script) -> None:
    assert script.predicted() == {FlushPath.TABLE_DUMP: 8.0, FlushPath.KERNEL_FILTER: pytest.approx(0.8)}
    script.ready(0.0, "base", keys=10)
    script.ready(1.0, "r1", "r2", keys=12)
    assert script.predicted()[FlushPath.TABLE_DUMP] == 12.0


def test_a_reconnect_teaches_nothing_about_zones(script: Script) -> None:
    script.ready(0.0, "base", keys=10)
    script.ready(1.0, "r1", keys=12, session=2)
    assert script.predicted()[FlushPath.TABLE_DUMP] == 8.0


def test_nothing_is_predicted_before_the_table_was_read(script: Script) -> None:
    assert script.predicted(dump_s=None) == {}
    assert script.predicted(flush_s=None) == {}


def test_the_path_in_use_is_that_of_this_vswitchd(script: Script) -> None:
    assert script.watch.tallies(1.0, 0.1, TARGET).path_in_use is FlushPath.TABLE_DUMP
    assert script.watch.tallies(1.0, 0.1, TargetInfo()).path_in_use is None
