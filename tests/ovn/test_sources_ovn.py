"""The OVN sources on real ovsdb-servers: both generations, several remotes, clusters, relays, TLS, conversions."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctctl.clients.clock import now
from ctctl.model.events import DatabaseConfirmed, DatabaseLost, OvnViewRead
from ctctl.model.ovn import DatapathKind, OvnDatabase, OvnView
from ctctl.sources.ovn import DatabaseChoice, OvnSettings, OvnSource, TlsSettings
from tests.lab.debian import SUITES, ovn_tree
from tests.lab.namespace import Namespace
from tests.lab.ovsdb_server import OvsdbServer, Pki, free_port, ovs_map
from tests.sources.recorder import Recorder

pytestmark = pytest.mark.ovn


@pytest.fixture(params=SUITES)
def southbound(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OvsdbServer]:
    with OvsdbServer(ovn_tree(request.param), tmp_path, "OVN_Southbound", name="ovnsb_db").create().start() as server:
        yield server


@pytest.fixture
def one_southbound(tmp_path: Path) -> Iterator[OvsdbServer]:
    with OvsdbServer(ovn_tree("trixie"), tmp_path, "OVN_Southbound", name="ovnsb_db").create().start() as server:
        yield server


def add_router(server: OvsdbServer, name: str, **more: str) -> None:
    ids = {
        "logical-router": str(uuid.uuid4()),
        "name": name,
        **{key.replace("_", "-"): text for key, text in more.items()},
    }
    tunnel_key = uuid.uuid4().int % 16_000_000 + 1
    row = {"tunnel_key": tunnel_key, "external_ids": ovs_map(ids)}
    server.transact({"op": "insert", "table": "Datapath_Binding", "row": row})


def remove_router(server: OvsdbServer, name: str) -> None:
    where = [["external_ids", "includes", ovs_map({"name": name})]]
    server.transact({"op": "delete", "table": "Datapath_Binding", "where": where})


def source_for(recorder: Recorder, *addresses: str, tls: TlsSettings | None = None) -> OvnSource:
    settings = OvnSettings(remote=",".join(addresses), tls=tls or TlsSettings())
    return OvnSource(OvnDatabase.SOUTHBOUND, settings, recorder.report, now)


def names(view: OvnView) -> set[str]:
    return {router.name for router in view.routers}


def shows(*routers: str):  # noqa: ANN201 - a predicate over views
    return lambda view: names(view) == set(routers)


def test_routers_that_come_and_go_are_reported_whole(southbound: OvsdbServer) -> None:
    recorder = Recorder()
    with recorder.running(source_for(recorder, southbound.address)):
        assert recorder.ovn_view().datapaths == ()
        add_router(southbound, "lr1", name2="pretty", snat_ct_zone="0")
        view = recorder.ovn_view(shows("lr1"))
        assert view.datapaths[0].kind is DatapathKind.ROUTER
        assert view.datapaths[0].snat_ct_zone == 0
        assert view.routers[0].alias == "pretty"
        add_router(southbound, "lr2")
        recorder.ovn_view(shows("lr1", "lr2"))
        remove_router(southbound, "lr1")
        recorder.ovn_view(shows("lr2"))


def test_a_router_recreated_in_one_transaction_is_another_one(southbound: OvsdbServer) -> None:
    recorder = Recorder()
    add_router(southbound, "lr1")
    with recorder.running(source_for(recorder, southbound.address)):
        before = recorder.ovn_view(shows("lr1"))
        mark = recorder.mark()
        row = {"tunnel_key": 77, "external_ids": ovs_map({"logical-router": str(uuid.uuid4()), "name": "lr1"})}
        southbound.transact(
            {"op": "delete", "table": "Datapath_Binding", "where": []},
            {"op": "insert", "table": "Datapath_Binding", "row": row},
        )
        after = recorder.ovn_view(shows("lr1"), after=mark)
        assert after.routers[0].router != before.routers[0].router
        assert after.session == before.session


def test_an_address_from_the_local_database_is_followed_and_a_change_of_it_too(tmp_path: Path) -> None:
    tree, recorder = ovn_tree("trixie"), Recorder()
    servers = [OvsdbServer(tree, tmp_path, "OVN_Southbound", name=name).create() for name in ("a", "b")]
    source = OvnSource(OvnDatabase.SOUTHBOUND, OvnSettings(rundir=str(tmp_path)), recorder.report, now)
    with servers[0].start() as first, servers[1].start() as second, recorder.running(source):
        assert "ovn-remote" in recorder.lost().why
        add_router(first, "in-a")
        add_router(second, "in-b")
        source.set_remote(first.address)
        recorder.ovn_view(shows("in-a"), timeout_s=2.0)
        source.set_remote(second.address)
        recorder.ovn_view(shows("in-b"), timeout_s=2.0)
        mark = recorder.mark()
        source.set_remote(None)
        recorder.lost("ovn-remote", after=mark, timeout_s=2.0)


def test_a_configured_address_wins_over_the_found_one(one_southbound: OvsdbServer) -> None:
    recorder = Recorder()
    source = source_for(recorder, one_southbound.address)
    source.set_remote("unix:/nowhere")
    with recorder.running(source):
        recorder.ovn_view()


def test_an_address_that_is_none_is_told_and_not_tried(tmp_path: Path) -> None:
    recorder = Recorder()
    source = OvnSource(OvnDatabase.SOUTHBOUND, OvnSettings(rundir=str(tmp_path)), recorder.report, now)
    source.set_remote("5000")
    with recorder.running(source):
        assert "'5000' is no OVSDB address" in recorder.lost().why


@pytest.mark.parametrize("choice", [DatabaseChoice.NONE, DatabaseChoice.NORTHBOUND])
def test_a_database_that_is_not_wanted_is_no_fault(one_southbound: OvsdbServer, choice: DatabaseChoice) -> None:
    recorder = Recorder()
    settings = OvnSettings(database=choice, remote=one_southbound.address)
    with recorder.running(OvnSource(OvnDatabase.SOUTHBOUND, settings, recorder.report, now)):
        assert recorder.lost().is_configured is False
        time.sleep(1.5)
        assert recorder.of(OvnViewRead) == []


@pytest.mark.parametrize("suite", SUITES)
def test_a_local_northbound_socket_is_followed_once_it_appears_and_lost_when_it_goes(
    tmp_path: Path, suite: str
) -> None:
    server = OvsdbServer(ovn_tree(suite), tmp_path, "OVN_Northbound", name="ovnnb_db").create()
    recorder = Recorder()
    settings = OvnSettings(rundir=str(tmp_path))
    with recorder.running(OvnSource(OvnDatabase.NORTHBOUND, settings, recorder.report, now)):
        assert recorder.lost().is_configured is False
        with server.start():
            recorder.ovn_view(timeout_s=3.0)
            server.transact(
                {"op": "insert", "table": "Logical_Router", "row": {}},
                {
                    "op": "insert",
                    "table": "Logical_Router",
                    "row": {
                        "name": "neutron-1",
                        "enabled": False,
                        "external_ids": ovs_map({"neutron:router_name": "edge"}),
                    },
                },
            )
            view = recorder.ovn_view(shows("", "neutron-1"))
            assert {router.alias for router in view.routers} == {"", "edge"}
            mark = recorder.mark()
        assert recorder.lost(after=mark).is_configured


def test_a_row_with_nothing_but_defaults_is_news(southbound: OvsdbServer) -> None:
    """The library sends no event for it."""
    recorder = Recorder()
    with recorder.running(source_for(recorder, southbound.address)):
        assert recorder.ovn_view().datapaths == ()
        southbound.transact({"op": "insert", "table": "Datapath_Binding", "row": {"tunnel_key": 1}})
        view = recorder.ovn_view(lambda view: bool(view.datapaths), timeout_s=7.0)
        assert view.datapaths[0].kind is DatapathKind.UNKNOWN


def test_of_several_remotes_one_that_works_is_found_and_another_when_it_ends(tmp_path: Path) -> None:
    tree, recorder, port = ovn_tree("trixie"), Recorder(), free_port()
    first = OvsdbServer(tree, tmp_path, "OVN_Southbound", name="a", remotes=[f"ptcp:{port}:127.0.0.1"]).create()
    second = OvsdbServer(tree, tmp_path, "OVN_Southbound", name="b").create()
    dead = f"tcp:127.0.0.1:{free_port()}"
    with first.start(), second.start():
        add_router(first, "lr1")
        add_router(second, "lr1")
        with recorder.running(source_for(recorder, dead, f"tcp:127.0.0.1:{port}", second.address)):
            view = recorder.ovn_view(shows("lr1"))
            for server in (first, second):
                mark = recorder.mark()
                server.stop()
                time.sleep(0.5)
                if recorder.of(DatabaseLost, after=mark):
                    again = recorder.ovn_view(shows("lr1"), after=mark)
                    assert again.session > view.session
                    break
                server.start()
            else:
                raise AssertionError("it followed neither server")


def test_a_name_is_looked_up(tmp_path: Path) -> None:
    try:
        socket.getaddrinfo("localhost", None)
    except OSError as error:
        pytest.skip(f"this machine resolves no name, not even localhost: {error}")
    port, recorder = free_port(), Recorder()
    server = OvsdbServer(ovn_tree("trixie"), tmp_path, "OVN_Southbound", remotes=[f"ptcp:{port}:127.0.0.1"]).create()
    with server.start(), recorder.running(source_for(recorder, f"tcp:localhost:{port}")):
        recorder.ovn_view()


@pytest.mark.parametrize("suite", SUITES)
def test_a_schema_conversion_is_survived_and_new_columns_are_used(tmp_path: Path, suite: str) -> None:
    server = OvsdbServer(ovn_tree(suite), tmp_path, "OVN_Southbound").create()
    schema = json.loads(server.schema.read_text())
    columns = schema["tables"]["Datapath_Binding"]["columns"]
    columns["type"] = {"type": {"key": {"type": "string"}, "min": 0, "max": 1}}
    columns["nb_uuid"] = {"type": {"key": {"type": "uuid"}, "min": 0, "max": 1}}
    schema["version"] = "99.0.0"
    schema.pop("cksum", None)
    newer = tmp_path / "newer.ovsschema"
    newer.write_text(json.dumps(schema))
    router, recorder = str(uuid.uuid4()), Recorder()
    with server.start(), recorder.running(source_for(recorder, server.address)):
        add_router(server, "lr1")
        before = recorder.ovn_view(shows("lr1"))
        mark = recorder.mark()
        server.convert(newer)
        after = recorder.ovn_view(shows("lr1"), after=mark)
        assert after.session > before.session
        row = {"type": "logical-router", "nb_uuid": ["uuid", router], "external_ids": ovs_map({"name": "lr9"})}
        server.transact({"op": "update", "table": "Datapath_Binding", "where": [], "row": row})
        newest = recorder.ovn_view(shows("lr9"), after=mark)
        assert newest.routers[0].router == router


def test_a_leader_that_dies_is_not_missed_for_long(tmp_path: Path) -> None:
    tree, recorder = ovn_tree("trixie"), Recorder()
    members = [OvsdbServer(tree, tmp_path, "OVN_Southbound", name=f"m{i}") for i in range(3)]
    raft = [f"unix:{tmp_path}/raft{i}" for i in range(3)]
    try:
        members[0].create_cluster(raft[0]).start()
        for i in (1, 2):
            members[i].create_cluster(raft[i], raft[0]).start()
            members[i].run("ovsdb-client", "wait", members[i].address, "OVN_Southbound", "connected")
        add_router(members[0], "lr1")
        with recorder.running(source_for(recorder, *(member.address for member in members))):
            recorder.ovn_view(shows("lr1"))
            leader = next(
                m for m in members if "leader" in m.appctl("cluster/status", "OVN_Southbound").split("Role: ")[1][:8]
            )
            leader.kill()
            others = [m for m in members if m is not leader]
            added = time.monotonic()
            while True:
                try:
                    add_router(others[0], "lr2")
                    break
                except (OSError, RuntimeError, AssertionError):
                    assert time.monotonic() - added < 10, "the cluster found no new leader"
                    time.sleep(0.2)
            recorder.ovn_view(shows("lr1", "lr2"), timeout_s=12.0)
    finally:
        for member in members:
            member.close()


def test_a_member_cut_off_from_its_cluster_is_left_for_another(tmp_path: Path) -> None:
    tree, recorder = ovn_tree("trixie"), Recorder()
    members = [OvsdbServer(tree, tmp_path, "OVN_Southbound", name=f"m{i}") for i in range(3)]
    raft = [f"unix:{tmp_path}/raft{i}" for i in range(3)]
    try:
        members[0].create_cluster(raft[0]).start()
        for i in (1, 2):
            members[i].create_cluster(raft[i], raft[0]).start()
            members[i].run("ovsdb-client", "wait", members[i].address, "OVN_Southbound", "connected")
        add_router(members[0], "lr1")
        with recorder.running(source_for(recorder, members[0].address)):
            recorder.ovn_view(shows("lr1"))
            mark = recorder.mark()
            for member in members[1:]:
                member.kill()
            recorder.lost("disconnected from cluster", after=mark, timeout_s=20.0)
            for member in members[1:]:
                member.start()
            recorder.ovn_view(shows("lr1"), after=mark, timeout_s=20.0)
    finally:
        for member in members:
            member.close()


def test_a_relay_is_followed(tmp_path: Path) -> None:
    tree, recorder = ovn_tree("trixie"), Recorder()
    source = OvsdbServer(tree, tmp_path, "OVN_Southbound", name="source").create()
    relay = OvsdbServer(tree, tmp_path, "OVN_Southbound", name="relay").relay_of(source.address)
    with source.start(), relay.start(), recorder.running(source_for(recorder, relay.address)):
        add_router(source, "lr1")
        recorder.ovn_view(shows("lr1"))


@pytest.mark.slow
def test_a_relay_that_lost_its_source_is_not_believed(tmp_path: Path) -> None:
    tree, recorder = ovn_tree("trixie"), Recorder()
    source = OvsdbServer(tree, tmp_path, "OVN_Southbound", name="source").create()
    relay = OvsdbServer(tree, tmp_path, "OVN_Southbound", name="relay").relay_of(source.address)
    with source.start(), relay.start(), recorder.running(source_for(recorder, relay.address)):
        add_router(source, "lr1")
        recorder.ovn_view(shows("lr1"))
        mark = recorder.mark()
        source.stop()
        # The relay itself calls its source connected for another 30 s.
        recorder.lost("disconnected from the relay source", after=mark, timeout_s=60.0)
        source.start()
        add_router(source, "lr2")
        recorder.ovn_view(shows("lr1", "lr2"), after=mark, timeout_s=20.0)


def test_a_half_open_connection_is_noticed_within_fifteen_seconds(one_southbound: OvsdbServer) -> None:
    recorder = Recorder()
    with recorder.running(source_for(recorder, one_southbound.address)):
        recorder.ovn_view()
        recorder.confirmed()
        mark, paused = recorder.mark(), time.monotonic()
        one_southbound.pause()
        recorder.lost(after=mark, timeout_s=16.0)
        assert time.monotonic() - paused < 15.0
        one_southbound.resume()
        recorder.ovn_view(after=recorder.mark(), timeout_s=12.0)


def test_a_network_that_swallows_everything_is_noticed_within_fifteen_seconds_without_asking(
    namespace: Namespace, tmp_path: Path
) -> None:
    recorder, port = Recorder(), free_port()
    server = OvsdbServer(ovn_tree("trixie"), tmp_path, "OVN_Southbound", remotes=[f"ptcp:{port}:127.0.0.1"]).create()
    settings = OvnSettings(remote=f"tcp:127.0.0.1:{port}", probe_interval_s=60.0)
    source = OvnSource(OvnDatabase.SOUTHBOUND, settings, recorder.report, now)
    namespace.call(server.start)
    # A thread belongs to the network namespace of the thread that starts it.
    namespace.call(recorder.running(source).__enter__)
    try:
        recorder.ovn_view()
        recorder.confirmed()
        mark, cut = recorder.mark(), time.monotonic()
        namespace.run(
            ["nft", "add table inet cut; add chain inet cut in { type filter hook input priority 0; policy drop; }"]
        )
        recorder.lost(after=mark, timeout_s=20.0)
        assert time.monotonic() - cut < 15.0
        namespace.run(["nft", "delete table inet cut"])
        recorder.ovn_view(after=recorder.mark(), timeout_s=20.0)
    finally:
        recorder.__exit__(None, None, None)
        server.close()


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl program")
    return Pki(tmp_path / "pki")


class TlsServer:
    """A Southbound server on TLS, and a client's files behind a symlink as Kubernetes mounts a secret."""

    def __init__(self, directory: Path, pki: Pki) -> None:
        self.pki = pki
        key, certificate = pki.issue("server")
        self.port = free_port()
        self.server = OvsdbServer(
            ovn_tree("trixie"), directory, "OVN_Southbound", remotes=[f"pssl:{self.port}:127.0.0.1"]
        ).create()
        self.server.options += [f"--private-key={key}", f"--certificate={certificate}", f"--ca-cert={pki.certificate}"]
        self.secret = directory / "secret"
        self.mount(pki.issue("client"), pki.certificate)
        self.tls = TlsSettings(*(str(self.secret / name) for name in ("tls.key", "tls.crt", "ca.crt")))

    def mount(self, pair: tuple[Path, Path], ca: Path) -> None:
        """Let the symlink point at a new directory, in one step."""
        version = self.secret.parent / f"..{uuid.uuid4()}"
        version.mkdir()
        for source, name in zip((*pair, ca), ("tls.key", "tls.crt", "ca.crt"), strict=True):
            shutil.copy(source, version / name)
        link = self.secret.parent / "..data"
        link.unlink(missing_ok=True)
        link.symlink_to(version)
        link.rename(self.secret)

    def source(self, recorder: Recorder) -> OvnSource:
        return source_for(recorder, f"ssl:127.0.0.1:{self.port}", tls=self.tls)


def test_a_database_on_tls_is_followed(tmp_path: Path, pki: Pki) -> None:
    tls, recorder = TlsServer(tmp_path, pki), Recorder()
    with tls.server.start(), recorder.running(tls.source(recorder)):
        for i in range(300):
            add_router(tls.server, f"lr{i}")
        recorder.ovn_view(lambda view: len(view.routers) == 300)
        recorder.confirmed(after=recorder.mark())


def test_rotated_certificates_are_used_without_a_restart(tmp_path: Path, pki: Pki) -> None:
    tls, recorder = TlsServer(tmp_path, pki), Recorder()
    with tls.server.start(), recorder.running(tls.source(recorder)):
        recorder.ovn_view()
        successor = Pki(tmp_path / "pki2", "ca2")
        key, certificate = successor.issue("server")
        tls.server.options[-3:] = [
            f"--private-key={key}",
            f"--certificate={certificate}",
            f"--ca-cert={successor.certificate}",
        ]
        mark = recorder.mark()
        tls.server.restart()
        recorder.lost("TLS", after=mark)
        tls.mount(successor.issue("client"), successor.certificate)
        recorder.ovn_view(after=mark, timeout_s=15.0)


@pytest.mark.parametrize("damage", ["missing", "expired", "unknown"])
def test_a_bad_certificate_is_named_and_retried(tmp_path: Path, pki: Pki, damage: str) -> None:
    tls, recorder = TlsServer(tmp_path, pki), Recorder()
    good = tls.pki.issue("good")
    if damage == "missing":
        (tls.secret / "tls.crt").unlink()
    elif damage == "expired":
        tls.mount(tls.pki.issue("late", days=-1), pki.certificate)
    else:
        stranger = Pki(tmp_path / "pki3", "stranger")
        tls.mount(stranger.issue("client"), pki.certificate)
    with tls.server.start(), recorder.running(tls.source(recorder)):
        why = recorder.lost().why
        assert str(tls.secret / "tls.crt") in why
        assert {"missing": "No such file", "expired": "certificate expired", "unknown": "unknown ca"}[damage] in why
        tls.mount(good, pki.certificate)
        recorder.ovn_view(timeout_s=15.0)


def test_two_sources_in_one_process_do_not_disturb_each_other(tmp_path: Path) -> None:
    tree = ovn_tree("trixie")
    southbound = OvsdbServer(tree, tmp_path, "OVN_Southbound", name="ovnsb_db").create()
    northbound = OvsdbServer(tree, tmp_path, "OVN_Northbound", name="ovnnb_db").create()
    recorders = Recorder(), Recorder(), Recorder()
    settings = OvnSettings(rundir=str(tmp_path))
    databases = (OvnDatabase.SOUTHBOUND, OvnDatabase.NORTHBOUND, OvnDatabase.SOUTHBOUND)
    sources = [OvnSource(db, settings, recorder.report, now) for db, recorder in zip(databases, recorders, strict=True)]
    with southbound.start(), northbound.start(), recorders[0].running(sources[0]), recorders[1].running(sources[1]):
        add_router(southbound, "south")
        northbound.transact({"op": "insert", "table": "Logical_Router", "row": {"name": "north"}})
        recorders[0].ovn_view(shows("south"))
        recorders[1].ovn_view(shows("north"))
        with recorders[2].running(sources[2]):
            recorders[2].ovn_view(shows("south"))
        add_router(southbound, "more")
        recorders[0].ovn_view(shows("south", "more"))


def test_ten_thousand_datapaths_are_followed(one_southbound: OvsdbServer) -> None:
    ids = [{"logical-router": str(uuid.uuid4()), "name": f"lr{i}"} for i in range(10_000)]
    rows = [{"tunnel_key": i + 1, "external_ids": ovs_map(content)} for i, content in enumerate(ids)]
    one_southbound.transact(*({"op": "insert", "table": "Datapath_Binding", "row": row} for row in rows))
    recorder = Recorder()
    with recorder.running(source_for(recorder, one_southbound.address)):
        recorder.ovn_view(lambda view: len(view.routers) == 10_000, timeout_s=30.0)
        mark = recorder.mark()
        add_router(one_southbound, "late")
        before = time.monotonic()
        at, _ = recorder.wait(lambda e: isinstance(e, OvnViewRead) and len(e.view.routers) == 10_001, after=mark)
        assert at - before < 2.0


def test_confirmations_keep_coming_and_threads_end(one_southbound: OvsdbServer) -> None:
    threads = threading.active_count()
    recorder = Recorder()
    with recorder.running(source_for(recorder, one_southbound.address)):
        recorder.ovn_view()
        time.sleep(6.0)
        assert 2 <= len(recorder.of(DatabaseConfirmed)) <= 4
    assert threading.active_count() == threads
