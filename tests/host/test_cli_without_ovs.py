"""The command line on a host without OVS: real entries, exact counts, and a flush of exactly what was named."""

from __future__ import annotations

import json
import socket
import subprocess
from typing import Any

import pytest

from tests.lab.agent import PROGRAM, LabAgent
from tests.lab.daemon import wait_until
from tests.lab.entries import Entry, fill, insert
from tests.lab.live import LiveConnections
from tests.lab.namespace import Namespace
from tests.lab.table import entries, zone_counts

pytestmark = pytest.mark.host

EQUAL = [
    Entry(zone=zone, proto=proto, src=src, dst=dst)
    for zone in (0, 12, 13, 65535)
    for proto, src, dst in (
        ("tcp", "10.0.0.1", "10.0.0.2"),
        ("udp", "10.0.0.1", "10.0.0.2"),
        ("tcp", "fd00::1", "fd00::2"),
        ("udp", "fd00::1", "fd00::2"),
        ("icmp", "10.0.0.1", "10.0.0.2"),
        ("icmpv6", "fd00::1", "fd00::2"),
        ("sctp", "10.0.0.1", "10.0.0.2"),
    )
]


@pytest.fixture
def host(namespace: Namespace) -> LabAgent:
    """A host without OVS; its agent is not started."""
    return LabAgent(namespace)


def counted(host: LabAgent, *arguments: str) -> dict[int, int]:
    code, zones = host.ctl("zones", *arguments)
    assert code == 0
    return {zone["ct_zone"]: zone["entries"] for zone in zones}


def test_an_empty_table_is_an_empty_list(host: LabAgent) -> None:
    assert host.ctl("zones") == (0, [])
    assert host.ctl("zones", "--check") == (0, [])


def test_zones_count_exactly_and_name_kind_share_and_state(host: LabAgent) -> None:
    insert(host.namespace, EQUAL)
    fill(host.namespace, {77: 1000, 64001: 3})
    code, zones = host.ctl("zones")
    assert code == 0
    assert {z["ct_zone"]: z["entries"] for z in zones} == dict(zone_counts(host.namespace))
    assert [z["ct_zone"] for z in zones] == [0, 12, 13, 77, 64001, 65535]
    by_number: dict[int, dict[str, Any]] = {z["ct_zone"]: z for z in zones}
    total = sum(z["entries"] for z in zones)
    assert by_number[77] == {
        "ct_zone": 77,
        "kind": "ownerless",
        "owner": "",
        "alias": "",
        "entries": 1000,
        "share": round(1000 / total, 6),
        "limit": None,
        "state": "ownerless",
    }
    assert (by_number[0]["kind"], by_number[64001]["kind"]) == ("host", "foreign")


def test_check_and_orphans_see_entries_without_owner(host: LabAgent) -> None:
    fill(host.namespace, {0: 5, 64001: 5})
    assert host.ctl("zones", "--check")[0] == 0
    fill(host.namespace, {12: 5})
    assert host.ctl("zones", "--check")[0] == 3
    code, orphans = host.ctl("zones", "--orphans")
    assert (code, [z["ct_zone"] for z in orphans]) == (0, [12])


@pytest.mark.parametrize("has_agent", [False, True])
def test_a_flush_deletes_exactly_the_named_zone(host: LabAgent, has_agent: bool) -> None:
    insert(host.namespace, EQUAL)
    others = [e for e in entries(host.namespace) if e.zone != 12]
    if has_agent:
        # With an agent the rules are the agent's, and it knows no map: nobody can say whose the zone is.
        host.launch()
        host.wait_until_serving()
        host.wait_for_metric(lambda s: s.get("ctctl_flusher_lock_held") == 1, "the agent to be the flusher")
        code, (report,) = host.ctl("flush", "--zone", "12", "--yes")
        assert (code, report["outcome"], report["reason"]) == (4, "refused", "map_not_fresh")
        assert len(entries(host.namespace, 12)) == 7
        host.stop()
        return
    code, (report,) = host.ctl("flush", "--zone", "12", "--yes")
    assert (code, report["ct_zone"], report["outcome"]) == (0, 12, "flushed")
    assert entries(host.namespace, 12) == []
    left = entries(host.namespace)
    assert [(e.zone, e.proto, e.src, e.entry_id) for e in left] == [
        (e.zone, e.proto, e.src, e.entry_id) for e in others
    ]


def test_live_connections_in_other_zones_live_on(host: LabAgent) -> None:
    with LiveConnections(host.namespace, zone=13) as v4, LiveConnections(host.namespace, zone=0) as hosts:
        fill(host.namespace, {12: 500})
        assert host.ctl("flush", "--zone", "12", "--yes")[0] == 0
        assert zone_counts(host.namespace)[12] == 0
        v4.assert_all_alive()
        hosts.assert_all_alive()


def test_several_zones_are_flushed_each_for_itself(host: LabAgent) -> None:
    fill(host.namespace, dict.fromkeys((5, 6, 7, 8), 10))
    code, reports = host.ctl("flush", "--zone", "5", "--zone", "7", "--zone", "5", "--yes")
    assert (code, [r["ct_zone"] for r in reports]) == (0, [5, 7])
    assert dict(zone_counts(host.namespace)) == {6: 10, 8: 10}


def test_an_empty_zone_is_flushed_with_success(host: LabAgent) -> None:
    assert host.ctl("flush", "--zone", "5", "--yes")[0] == 0


def test_a_dry_run_deletes_nothing(host: LabAgent) -> None:
    fill(host.namespace, {5: 10})
    code, (report,) = host.ctl("flush", "--zone", "5", "--dry-run")
    assert (code, report["outcome"], report["reason"]) == (0, "refused", "dry_run")
    assert zone_counts(host.namespace)[5] == 10


@pytest.mark.parametrize(("zone", "word"), [("0", "host's own"), ("70000", "out of range"), ("-1", "out of range")])
def test_what_is_no_zone_to_flush_exits_with_two_and_deletes_nothing(host: LabAgent, zone: str, word: str) -> None:
    fill(host.namespace, {0: 10, 1: 10})
    done = host.run("flush", "--zone", zone, "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert word in done.stderr
    assert dict(zone_counts(host.namespace)) == {0: 10, 1: 10}


def test_zone_zero_among_others_stops_them_all(host: LabAgent) -> None:
    fill(host.namespace, {0: 10, 1: 10})
    assert host.run("flush", "--zone", "1", "--zone", "0", "--yes").returncode == 2
    assert dict(zone_counts(host.namespace)) == {0: 10, 1: 10}


def test_without_yes_and_without_a_terminal_nothing_is_deleted(host: LabAgent) -> None:
    fill(host.namespace, {5: 10})
    done = host.run("flush", "--zone", "5", stdin="y\n")
    assert done.returncode == 2
    assert "without a terminal" in done.stderr
    assert zone_counts(host.namespace)[5] == 10


@pytest.mark.parametrize("switch", ["observe", "dry_run"])
def test_the_switch_holds_without_an_agent_too(host: LabAgent, switch: str) -> None:
    host.configure({"flush": {"switch": switch}})
    fill(host.namespace, {5: 10})
    code, (report,) = host.ctl("flush", "--zone", "5", "--yes")
    assert (code, report["reason"]) == (4, switch)
    assert zone_counts(host.namespace)[5] == 10


def test_a_flush_beside_an_agent_with_another_socket_is_refused(host: LabAgent) -> None:
    fill(host.namespace, {5: 10})
    other = LabAgent(host.namespace, name="other", port=10781)
    host.launch()
    host.wait_until_serving()
    host.wait_for_metric(lambda s: s.get("ctctl_flusher_lock_held") == 1, "the agent to be the flusher")
    code, (report,) = other.ctl("flush", "--zone", "5", "--yes")
    assert (code, report["reason"]) == (4, "not_the_flusher")
    assert zone_counts(host.namespace)[5] == 10
    host.stop()


@pytest.mark.parametrize("arguments", [["zones"], ["zones", "--check"], ["flush", "--zone", "5", "--yes"]])
def test_without_the_capability_it_needs_a_command_says_which_in_one_line(host: LabAgent, arguments: list[str]) -> None:
    fill(host.namespace, {5: 10})
    unprivileged = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    done = host.namespace.run([*unprivileged, *PROGRAM, *arguments, "--config", str(host.config)], check=False)
    assert done.returncode == 1
    assert "CAP_NET_ADMIN" in done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("Traceback") == 0
    if arguments[0] == "zones":
        assert (done.stdout, done.stderr.count("\n")) == ("", 1)
        assert done.stderr.startswith("ctctl: ")
    assert zone_counts(host.namespace)[5] == 10


def test_every_answer_is_json_or_one_line(host: LabAgent) -> None:
    for arguments in (["zones"], ["flush", "--zone", "5", "--yes"], ["status"], ["events"]):
        done: subprocess.CompletedProcess[str] = host.run(*arguments, "-o", "json")
        if done.returncode == 0:
            json.loads(done.stdout)
        else:
            assert done.stdout == ""
            assert done.stderr.count("\n") == 1


def test_a_pause_acts_although_it_cannot_be_remembered(host: LabAgent) -> None:
    host.launch()
    host.wait_until_serving()
    # The flusher makes the directory, as soon as it is one.
    wait_until(host.state_dir.exists, "the state directory")
    host.namespace.run(["rm", "-r", str(host.state_dir)])
    done = host.run("pause")
    assert (done.returncode, "cannot remember the pause" in done.stderr) == (1, True)
    host.wait_for_metric(lambda s: s.get("ctctl_flush_paused") == 1, "the pause")
    assert host.run("resume").returncode == 0
    host.wait_for_metric(lambda s: s.get("ctctl_flush_paused") == 0, "the end of the pause")
    host.stop()


def test_an_agent_that_is_told_to_stop_while_it_starts_stops(host: LabAgent) -> None:
    process = host.launch()
    process.terminate()
    process.wait(5)
    assert "Traceback" not in host.log()


def test_a_pause_outlives_the_agent_also_for_a_flush_without_one(host: LabAgent) -> None:
    fill(host.namespace, {5: 10})
    host.state_dir.mkdir(parents=True)
    (host.state_dir / "paused").touch()
    code, reports = host.ctl("flush", "--zone", "5", "--yes")
    assert (code, reports[0]["reason"]) == (4, "paused")
    assert zone_counts(host.namespace)[5] == 10


def test_where_vswitchd_runs_without_its_database_no_zone_is_nobodys(host: LabAgent) -> None:
    fill(host.namespace, {5: 10})
    rundir = host.namespace.directory / "no-ovs"
    rundir.mkdir()
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(rundir / "ovs-vswitchd.77.ctl"))
        daemon.listen()
        code, reports = host.ctl("flush", "--zone", "5", "--yes")
    assert (code, reports[0]["reason"]) == (4, "map_not_fresh")
    assert zone_counts(host.namespace)[5] == 10


def test_an_empty_router_name_is_a_mistake_and_not_every_router(host: LabAgent) -> None:
    done = host.run("flush", "--router", "", "--yes")
    assert done.returncode == 2
    assert "empty" in done.stderr
