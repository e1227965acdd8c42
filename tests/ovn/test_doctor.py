"""`ctctl doctor` on a real OVN: what is right, and every broken set-up named with its remedy."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lab import table
from tests.lab.agent import LabAgent
from tests.lab.debian import ovn_tree
from tests.lab.entries import fill
from tests.lab.marks import each_generation
from tests.lab.namespace import Namespace
from tests.lab.ovn import Ovn

pytestmark = pytest.mark.ovn


def diagnose(agent: LabAgent) -> tuple[int, dict[str, dict[str, Any]]]:
    done = agent.run("doctor", "-o", "json")
    assert done.stdout, done.stderr
    return done.returncode, {check["name"]: check for check in json.loads(done.stdout)}


@each_generation
def test_a_healthy_node_has_nothing_bad_and_names_vswitchds_path(ovn: Ovn, suite: str) -> None:
    ovn.add_router("r1")
    with LabAgent(ovn.namespace, ovn) as agent:
        code, checks = diagnose(agent)
    assert code == 0
    assert {name for name, check in checks.items() if check["state"] == "bad"} == set()
    assert checks["agent"]["found"] == "ready, switch enforce"
    path = checks["router creation"]
    if suite == "bookworm":
        assert "reads the whole table" in path["found"]
        assert "Open vSwitch 3.4 or newer" in path["remedy"]
    else:
        assert "asks the kernel to flush one zone" in path["found"]


def test_the_wrong_network_namespace_is_bad(ovn: Ovn) -> None:
    ovn.add_router("r1")
    with Namespace() as elsewhere:
        code, checks = diagnose(LabAgent(elsewhere, ovn))
    assert code == 3
    assert checks["network namespace"]["state"] == "bad"
    assert "hostNetwork" in checks["network namespace"]["remedy"]


def test_missing_capabilities_and_a_socket_that_may_not_be_opened_are_named(ovn: Ovn) -> None:
    agent = LabAgent(ovn.namespace, ovn)
    socket = Path(ovn.ovs_db.removeprefix("unix:"))
    os.chown(socket, 65534, 65534)
    socket.chmod(0o700)
    argv = ["setpriv", "--bounding-set=-net_admin,-dac_override,-dac_read_search", sys.executable, "-m", "ctctl"]
    done = ovn.namespace.run([*argv, "doctor", "-o", "json", "--config", agent.config], check=False)
    assert done.stdout, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert done.returncode == 3
    assert checks["conntrack"]["state"] == "bad"
    assert "CAP_NET_ADMIN" in checks["conntrack"]["remedy"]
    assert checks["local database"]["state"] == "bad"
    assert str(socket) in checks["local database"]["found"]
    assert "65534" in checks["local database"]["found"]


def test_a_stopped_vswitchd_is_bad_and_doctor_still_ends(ovn: Ovn) -> None:
    vswitchd = ovn.daemon("ovs-vswitchd")
    vswitchd.signal(signal.SIGSTOP)
    try:
        code, checks = diagnose(LabAgent(ovn.namespace, ovn))
    finally:
        vswitchd.signal(signal.SIGCONT)
    assert code == 3
    assert checks["ovs-vswitchd"]["state"] == "bad"


def test_an_unreadable_log_and_a_userspace_datapath_are_notes(namespace: Namespace) -> None:
    with Ovn(namespace, ovn_tree("trixie"), "netdev") as ovn:
        ovn.add_router("r1")
        code, checks = diagnose(LabAgent(namespace, ovn, {"ovs": {"log": "/nowhere/vswitchd.log"}}))
    assert code == 0
    assert checks["ovs log"]["state"] == "note"
    assert checks["datapath"]["state"] == "note"
    assert checks["router creation"]["state"] == "unknown"


def test_a_second_flusher_is_found(ovn: Ovn) -> None:
    with LabAgent(ovn.namespace, ovn), LabAgent(ovn.namespace, ovn, name="second", port=10780) as second:
        code, checks = diagnose(second)
    assert code == 3
    assert checks["flusher lock"]["state"] == "bad"


def test_a_host_without_ovs_is_no_fault(namespace: Namespace) -> None:
    code, checks = diagnose(LabAgent(namespace))
    assert code == 0
    assert checks["local database"]["state"] == "note"


def test_measuring_flushes_a_free_zone_and_nothing_that_is_used(ovn: Ovn) -> None:
    ovn.add_router("r1")
    zones = ovn.router_zones("r1")
    fill(ovn.namespace, {**dict.fromkeys(zones, 10), 0: 10, 65535: 10})
    done = LabAgent(ovn.namespace, ovn).run("doctor", "--measure", "-o", "json")
    found = {check["name"]: check for check in json.loads(done.stdout)}["measured flush"]
    assert found["state"] == "good", found
    assert found["found"].startswith("flushing zone 65534, which is free and empty, took ")
    counts = table.zone_counts(ovn.namespace)
    assert [counts[zone] for zone in (*zones, 65535)] == [10, 10, 10]
    assert counts[0] >= 10


def test_beside_an_agent_nothing_is_flushed_to_measure(ovn: Ovn) -> None:
    with LabAgent(ovn.namespace, ovn) as agent:
        done = agent.run("doctor", "--measure", "-o", "json")
    found = {check["name"]: check for check in json.loads(done.stdout)}["measured flush"]
    assert found["state"] == "unknown"
    assert "an agent is the flusher here" in found["found"]
