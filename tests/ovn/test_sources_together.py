"""All OVSDB sources on a running OVN of each generation: what they say about one router's life fits together."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

import pytest

from ctctl.clients.clock import now
from ctctl.clients.ovsdb_reader import LocalOvsdbReader
from ctctl.model.ovn import OvnDatabase, OvnView
from ctctl.model.ovs import DatapathType, LocalView
from ctctl.sources.local_ovsdb import LocalOvsdbSource, OvsSettings
from ctctl.sources.ovn import OvnSettings, OvnSource
from tests.lab.marks import each_generation
from tests.lab.ovn import Ovn
from tests.sources.recorder import Recorder

pytestmark = [pytest.mark.ovn, pytest.mark.host]


class Watch:
    """The three sources, each with its recorder; the Southbound one gets its address from the local one."""

    def __init__(self, ovn: Ovn) -> None:
        self.local, self.southbound, self.northbound = Recorder(), Recorder(), Recorder()
        settings = OvnSettings(rundir=str(ovn.ovn_rundir))
        self._stack = ExitStack()
        self._sources = (
            (self.local, LocalOvsdbSource(OvsSettings(db=ovn.ovs_db), self.local.report, now)),
            (self.southbound, OvnSource(OvnDatabase.SOUTHBOUND, settings, self.southbound.report, now)),
            (self.northbound, OvnSource(OvnDatabase.NORTHBOUND, settings, self.northbound.report, now)),
        )

    def __enter__(self) -> Self:
        for recorder, source in self._sources:
            self._stack.enter_context(recorder.running(source))
        southbound = self._sources[1][1]
        assert isinstance(southbound, OvnSource)
        southbound.set_remote(self.local.local_view(lambda view: view.ovn_remote is not None).ovn_remote)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def stem_of(name: str, southbound: OvnView, keys_are_names: bool) -> str:
    """What the router's zone keys begin with, as the Southbound view says."""
    (datapath,) = [dp for dp in southbound.datapaths if dp.name == name]
    return datapath.name if keys_are_names else datapath.uuid


def keys_of(view: LocalView) -> dict[str, str]:
    return {owner: zone for bridge in view.bridges for owner, zone in bridge.zone_keys.items()}


def names(view: OvnView) -> set[str]:
    return {router.name for router in view.routers}


@each_generation
def test_a_routers_life_is_seen_by_every_source(ovn: Ovn) -> None:
    ovn.add_switch()
    with Watch(ovn) as watch:
        ovn.add_router("r1")
        southbound = watch.southbound.ovn_view(lambda view: "r1" in names(view))
        northbound = watch.northbound.ovn_view(lambda view: "r1" in names(view))
        identity = {router.router for router in southbound.routers if router.name == "r1"}
        assert identity == {router.router for router in northbound.routers if router.name == "r1"}
        stem = stem_of("r1", southbound, ovn.has_name_keys)
        local = watch.local.local_view(lambda view: {f"{stem}_dnat", f"{stem}_snat"} <= keys_of(view).keys())
        zones = {owner: int(zone) for owner, zone in keys_of(local).items()}
        assert (zones[f"{stem}_dnat"], zones[f"{stem}_snat"]) == ovn.router_zones("r1")
        assert local.bridges[0].datapath_type is DatapathType.KERNEL
        assert local.chassis == "chassis-1"
        reader = LocalOvsdbReader(ovn.ovs_db, None, now)
        assert keys_of(reader.read(2.0)) == keys_of(local)
        reader.close()
        ovn.rename_router("r1", "r2")
        renamed = watch.southbound.ovn_view(lambda view: "r2" in names(view))
        assert {router.router for router in renamed.routers if router.name == "r2"} == identity
        marks = [recorder.mark() for recorder in (watch.local, watch.southbound, watch.northbound)]
        ovn.delete_router("r2")
        watch.southbound.ovn_view(lambda view: not names(view), after=marks[1])
        watch.northbound.ovn_view(lambda view: not names(view), after=marks[2])
        stems = {stem, stem_of("r2", renamed, ovn.has_name_keys)}
        gone = {f"{stem}_{kind}" for stem in stems for kind in ("dnat", "snat")}
        watch.local.local_view(lambda view: not gone & keys_of(view).keys(), after=marks[0])


@each_generation
def test_a_rebuilt_southbound_database_has_the_same_routers_in_a_new_session(ovn: Ovn) -> None:
    ovn.add_switch()
    ovn.add_router("r1")
    with Watch(ovn) as watch:
        before = watch.southbound.ovn_view(lambda view: names(view) == {"r1"})
        mark = watch.southbound.mark()
        ovn.rebuild_southbound()
        after = watch.southbound.ovn_view(
            lambda view: names(view) == {"r1"} and view.datapaths != before.datapaths, after=mark, timeout_s=20.0
        )
        assert after.session > before.session
        assert after.routers == before.routers
