"""The local source fed by hand: what it reports of what it is told. Real servers: tests/ovn/test_sources_local.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import LogCapture

from ctctl.clients.clock import now
from ctctl.clients.ovsdb_session import Content
from ctctl.model.events import DatabaseConfirmed, DatabaseLost, Event, LocalViewRead
from ctctl.model.instant import Instant
from ctctl.model.ovn import OvnDatabase
from ctctl.sources.local_ovsdb import LocalOvsdbSource, OvsSettings


def at(seconds: float) -> Instant:
    return Instant(boot_s=seconds, wall_s=seconds)


def content(seconds: float, session: int = 1, **keys: str) -> Content:
    ids = {f"ct-zone-{owner}": zone for owner, zone in keys.items()} | {"ovn-nb-cfg": str(seconds)}
    return Content({"Bridge": [{"name": "br-int", "datapath_type": "", "external_ids": ids}]}, at(seconds), session)


class Scene:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.source = LocalOvsdbSource(OvsSettings(db="unix:/nowhere"), self.events.append, now)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def log() -> Iterator[LogCapture]:
    capture = LogCapture()
    before = structlog.get_config()["processors"]
    structlog.configure(processors=[capture])
    yield capture
    structlog.configure(processors=before)


def test_only_a_difference_is_reported(scene: Scene) -> None:
    scene.source.content_read(content(1.0, a="1"))
    scene.source.content_read(content(2.0, a="1"))
    scene.source.content_read(content(3.0, a="2"))
    views = [event.view for event in scene.events if isinstance(event, LocalViewRead)]
    assert [(view.confirmed.boot_s, view.bridges[0].zone_keys) for view in views] == [
        (1.0, {"a": "1"}),
        (3.0, {"a": "2"}),
    ]


def test_a_new_session_is_reported_even_without_a_difference(scene: Scene) -> None:
    scene.source.content_read(content(1.0, session=1, a="1"))
    scene.source.content_read(content(2.0, session=2, a="1"))
    assert [event.view.session for event in scene.events if isinstance(event, LocalViewRead)] == [1, 2]


def test_what_the_follower_says_is_passed_on(scene: Scene) -> None:
    scene.source.content_confirmed(at(5.0))
    scene.source.connection_lost("why", is_configured=True)
    assert scene.events == [DatabaseConfirmed(OvnDatabase.LOCAL, at(5.0)), DatabaseLost(OvnDatabase.LOCAL, "why")]


def test_an_address_that_is_none_is_told_with_the_settings_name() -> None:
    source = LocalOvsdbSource(OvsSettings(db="db.sock"), lambda event: None, now)
    found = source._find_remotes()
    assert found.remotes == ()
    assert found.why.startswith("ovs.db: 'db.sock' is no OVSDB address")


def test_trouble_is_logged_when_it_starts_changes_and_is_over(scene: Scene, log: LogCapture) -> None:
    scene.source.content_read(content(1.0))
    scene.source.connection_lost("refused", is_configured=True)
    scene.source.connection_lost("no such file", is_configured=True)
    scene.source.content_read(content(10.0, session=2))
    scene.source.content_confirmed(at(39.0))
    scene.source.content_confirmed(at(40.0))
    scene.source.content_confirmed(at(41.0))
    assert [(line["event"], line.get("why")) for line in log.entries] == [
        ("database followed", None),
        ("database lost", "refused"),
        ("database still lost", "no such file"),
        ("database followed without trouble again", None),
    ]
    assert {line["database"] for line in log.entries} == {"Open_vSwitch"}


def test_a_connection_that_comes_and_goes_for_ten_minutes_fills_no_log(scene: Scene, log: LogCapture) -> None:
    for second in range(0, 600, 2):
        scene.source.connection_lost("refused", is_configured=True)
        scene.source.content_read(content(float(second), session=second))
        scene.source.content_confirmed(at(second + 1.0))
    assert len(log.entries) == 2
    assert sum(isinstance(event, DatabaseLost) for event in scene.events) == 300


def test_reasons_that_differ_each_time_fill_no_log(scene: Scene, log: LogCapture) -> None:
    for number in range(1000):
        scene.source.connection_lost(f"fault {number}", is_configured=True)
    assert len(log.entries) == 8


def test_stop_before_run_makes_run_return(scene: Scene) -> None:
    scene.source.stop()
    scene.source.run()
    assert scene.source.faults == 0
    assert scene.source.name == "local-ovsdb"
