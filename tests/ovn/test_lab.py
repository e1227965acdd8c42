"""The lab keeps its promises: a real OVN, private, quick, and gone without a trace."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid

import pytest

from tests.lab import table
from tests.lab.central import OvnError
from tests.lab.daemon import wait_until
from tests.lab.debian import SUITES, ovn_tree
from tests.lab.host import on_host
from tests.lab.live import LiveConnections
from tests.lab.marks import each_datapath, each_generation
from tests.lab.namespace import Namespace, NamespaceError
from tests.lab.ovn import Ovn

pytestmark = pytest.mark.ovn

SERVER = """
import socket, sys
listener = socket.create_server((sys.argv[1], 80))
print("listening", flush=True)
connection, _ = listener.accept()
connection.sendall(connection.recv(99))
"""
CLIENT = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 80), timeout=5)
connection.sendall(b"hello")
print(connection.recv(99).decode())
"""
DAEMONS = ("ovsdb-server", "ovs-vswitchd", "ovn-controller", "ovn-northd", "nb", "sb")


@each_datapath
@each_generation
def test_ovn_is_up_in_under_three_seconds(ovn: Ovn) -> None:
    assert ovn.start_seconds < 3.0
    assert all(ovn.daemon(name).is_running for name in DAEMONS)
    assert ovn.vsctl("get", "bridge", "br-int", "datapath_type").strip() == ovn.chassis.datapath


def test_the_two_generations_are_what_they_are_taken_for() -> None:
    versions = {suite: (ovn_tree(suite) / "packages").read_text() for suite in SUITES}
    assert "ovn-host_23.03" in versions["bookworm"]
    assert "openvswitch-switch_3.1" in versions["bookworm"]
    assert "ovn-host_25.03" in versions["trixie"]
    assert "openvswitch-switch_3.5" in versions["trixie"]


@each_generation
def test_a_router_gets_two_zones_of_its_own(ovn: Ovn) -> None:
    ovn.add_routers(["r1", "r2"])
    zones = {*ovn.router_zones("r1"), *ovn.router_zones("r2")}
    assert len(zones) == 4
    assert 0 not in zones
    assert ovn.zones() == ovn.ct_zone_list()


@each_generation
def test_keys_are_uuids_in_the_older_generation_and_names_in_the_newer(ovn: Ovn, suite: str) -> None:
    ovn.add_router("r1")
    ovn.router_zones("r1")
    owner = next(key.removesuffix("_snat") for key in ovn.zones() if key.endswith("_snat") and "ls0" not in key)
    if suite == "trixie":
        assert owner == "r1"
    else:
        assert str(uuid.UUID(owner)) == owner


@each_generation
def test_a_deleted_router_leaves_no_keys(ovn: Ovn) -> None:
    ovn.add_switch()
    before = set(ovn.zones())
    ovn.add_router("r1", ports=2)
    ovn.router_zones("r1")
    ovn.delete_router("r1")
    wait_until(lambda: {key for key in ovn.zones() if "ls0" not in key and "_" in key} <= before, "the keys to go")


@pytest.mark.parametrize("suite", ["bookworm"])
def test_a_rename_does_not_touch_uuid_keys(ovn: Ovn) -> None:
    ovn.add_router("r1")
    before = ovn.router_zones("r1")
    ovn.rename_router("r1", "edge")
    assert ovn.router_zones("edge") == before


def test_a_rename_reaches_name_keys_with_the_next_change_of_local_datapaths(ovn: Ovn) -> None:
    ovn.add_router("r1")
    ovn.router_zones("r1")
    ovn.rename_router("r1", "edge")
    assert {"r1_dnat", "r1_snat"} <= set(ovn.zones())
    ovn.add_router("r2")
    assert len(set(ovn.router_zones("edge"))) == 2
    assert not {"r1_dnat", "r1_snat"} & set(ovn.zones())


@each_generation
def test_a_distributed_router_with_a_gateway_port_is_local(ovn: Ovn) -> None:
    ovn.add_distributed_router("dr")
    assert len(set(ovn.router_zones("dr"))) == 2


@each_generation
def test_a_second_chassis_has_a_map_of_its_own(ovn: Ovn) -> None:
    with Namespace() as elsewhere:
        chassis = ovn.add_chassis(elsewhere, "chassis-2")
        ovn.add_router("r1", chassis="chassis-2")
        key = f"{ovn.router_key('r1')}_snat"
        wait_until(lambda: key in chassis.zones(), "the router's zone on the second chassis")
        assert key not in ovn.zones()


@each_generation
def test_a_rebuilt_southbound_gives_the_router_another_datapath(ovn: Ovn) -> None:
    ovn.add_router("r1")
    ovn.router_zones("r1")
    columns = ("--bare", "--columns=_uuid", "find", "datapath_binding", "external_ids:name=r1")
    before = ovn.sbctl(*columns)
    ovn.rebuild_southbound()
    ovn.router_zones("r1")
    after = ovn.sbctl(*columns)
    assert before
    assert after
    assert before != after


@each_generation
def test_ovn_controller_survives_a_southbound_that_ovn_northd_has_not_filled(ovn: Ovn) -> None:
    ovn.daemon("ovn-northd").stop()
    ovn.central.rebuild_southbound()
    wait_until(lambda: "chassis-1" in ovn.sbctl("show"), "the chassis to register again")
    assert ovn.daemon("ovn-controller").is_running
    ovn.daemon("ovn-northd").start()
    ovn.add_router("r1")
    ovn.router_zones("r1")


@each_generation
def test_a_restarted_ovn_controller_keeps_its_chassis(ovn: Ovn) -> None:
    ovn.daemon("ovn-controller").restart()
    assert "chassis-1" in ovn.sbctl("show")


@each_generation
def test_a_stopped_ovn_controller_takes_its_chassis_away(ovn: Ovn) -> None:
    controller = ovn.daemon("ovn-controller")
    controller.stop()
    assert not controller.is_running
    assert "chassis-1" not in ovn.sbctl("show")
    controller.start()
    ovn.central.wait_for_chassis("chassis-1")


@each_generation
def test_a_daemon_can_be_stopped_continued_killed_and_restarted(ovn: Ovn) -> None:
    vswitchd = ovn.daemon("ovs-vswitchd")
    vswitchd.signal(signal.SIGSTOP)
    with pytest.raises(Exception, match="appctl"):
        vswitchd.appctl("version", timeout_s=1)
    vswitchd.signal(signal.SIGCONT)
    assert "Open vSwitch" in vswitchd.appctl("version")
    vswitchd.kill()
    assert not vswitchd.is_running
    vswitchd.start()
    ovn.daemon("ovn-controller").restart()
    ovn.add_router("r1")
    assert ovn.router_zones("r1")


@pytest.mark.parametrize("datapath", ["netdev"])
@each_generation
def test_packets_between_hosts_are_tracked_by_the_userspace_datapath(ovn: Ovn, namespace: Namespace) -> None:
    ovn.add_switch()
    ovn.add_host_port("vm1")
    address = ovn.add_host_port("vm2")
    server = namespace.popen(on_host("vm2", [sys.executable, "-c", SERVER, address]), stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline() == b"listening\n"
    assert namespace.run(on_host("vm1", [sys.executable, "-c", CLIENT, address])).stdout == "hello\n"
    server.stdout.close()
    assert int(ovn.appctl("ovs-vswitchd", "dpctl/ct-get-nconns")) >= 2
    assert table.entries(namespace) == []


@each_generation
def test_real_connections_live_in_the_zone_ovn_chose(ovn: Ovn, namespace: Namespace) -> None:
    ovn.add_router("r1")
    _, snat = ovn.router_zones("r1")
    with LiveConnections(namespace, snat) as live:
        # OVN's own flush goes to the dummy datapath and so cannot reach them.
        ovn.appctl("ovs-vswitchd", "dpctl/flush-conntrack", f"zone={snat}")
        ovn.daemon("ovn-controller").restart()
        live.assert_all_alive()
        table.delete_zone(namespace, snat)
        assert len(live.broken()) == len(live.connections)


def test_standard_paths_lead_to_this_ovn_from_inside(ovn: Ovn, namespace: Namespace) -> None:
    ovn.mount_standard_paths()
    shown = namespace.run([ovn.tree / "bin/ovs-vsctl", "--db=unix:/var/run/openvswitch/db.sock", "br-exists", "br-int"])
    assert shown.returncode == 0
    assert namespace.run(["ls", "/var/log/openvswitch", "/run/ovn"]).stdout.count("ovn-controller") > 0


def test_a_change_that_is_not_followed_fails_with_the_daemons_logs(ovn: Ovn) -> None:
    ovn.daemon("ovn-controller").signal(signal.SIGSTOP)
    with pytest.raises(OvnError, match=r"(?s)not followed within 1 s.*--- ovn-controller\.log"):
        ovn.nbctl("ls-add", "ls1", timeout_s=1)


def test_a_refused_command_says_what_ovn_said(ovn: Ovn) -> None:
    with pytest.raises(NamespaceError, match="no-such-command"):
        ovn.nbctl("no-such-command")
