"""Requests and single addresses on a real OVN and the real kernel table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab import table
from tests.lab.agent import LabAgent
from tests.lab.daemon import wait_until
from tests.lab.entries import Entry, fill, insert
from tests.lab.ovn import Ovn

pytestmark = pytest.mark.ovn


def test_a_request_is_carried_out_once_also_across_restarts(ovn: Ovn, tmp_path: Path) -> None:
    ovn.add_router("r1")
    ovn.add_router("r2")
    mine, others = ovn.router_zones("r1"), ovn.router_zones("r2")
    requests = tmp_path / "requests.yaml"
    agent = LabAgent(ovn.namespace, ovn, {"flush": {"requests_file": str(requests)}})
    fill(ovn.namespace, dict.fromkeys((*mine, *others), 20))
    with agent:
        printed = agent.run("flush", "--router", "r1", "--everywhere")
        assert printed.returncode == 0, printed.stderr
        requests.write_text(printed.stdout)
        agent.wait_for_event("flush", count=2)
        counts = table.zone_counts(ovn.namespace)
        assert [counts[zone] for zone in (*mine, *others)] == [0, 0, 20, 20]
        assert {event["request"][:6] for event in agent.events("flush")} == {"flush-"}
        fill(ovn.namespace, dict.fromkeys(mine, 5), first=900)
    with agent:
        wait_until(lambda: len(agent.log_lines("flush requests read")) == 2, "the requests to be read again", 5)
        agent.wait_for_metric(lambda m: m.sum("ctctl_count_duration_seconds_count") >= 3, "some passes")
        counts = table.zone_counts(ovn.namespace)
        assert [counts[zone] for zone in mine] == [5, 5]
        assert agent.events("flush") == []


def test_one_address_in_a_routers_zones_goes_and_every_other_entry_stays(ovn: Ovn) -> None:
    ovn.add_router("r1")
    dnat, snat = ovn.router_zones("r1")
    gone = [
        Entry(zone=dnat, proto="tcp", src="10.9.9.9", dst="10.0.0.1", sport=1000, dport=80),
        Entry(zone=snat, proto="udp", src="10.0.0.1", dst="10.9.9.9", sport=53, dport=53),
    ]
    stays = [
        Entry(zone=dnat, proto="tcp", src="10.9.9.8", dst="10.0.0.1", sport=1000, dport=80),
        Entry(zone=4000, proto="tcp", src="10.9.9.9", dst="10.0.0.1", sport=1000, dport=80),
        Entry(zone=0, proto="tcp", src="10.9.9.9", dst="10.0.0.1", sport=1000, dport=80),
    ]
    insert(ovn.namespace, [*gone, *stays])
    with LabAgent(ovn.namespace, ovn) as agent:
        code, reports = agent.ctl("flush", "--router", "r1", "--address", "10.9.9.9", "--yes")
    assert code == 0
    assert [report["deleted"] for report in reports] == [1, 1]
    assert [table.look_up(ovn.namespace, entry) is None for entry in (*gone, *stays)] == [True] * 2 + [False] * 3


def test_two_agents_may_share_a_state_directory_while_one_replaces_the_other(ovn: Ovn, tmp_path: Path) -> None:
    shared = {"state": {"dir": str(tmp_path / "state")}}
    first = LabAgent(ovn.namespace, ovn, shared)
    with first:
        with LabAgent(ovn.namespace, ovn, shared, name="second", port=10780) as second:
            ovn.add_router("r1")
            assert first.ctl("flush", "--router", "r1", "--yes")[0] == 0
            assert second.ctl("flush", "--router", "r1", "--yes")[0] == 4
            first.stop()
            second.wait_for_event("agent", "this is the flusher")
            assert second.ctl("flush", "--router", "r1", "--yes")[0] == 0
            assert [event for event in second.events("agent") if "under way" in event["text"]] == []
        lines = (tmp_path / "state/journal.jsonl").read_text().splitlines()
    assert sum('"intent"' in line for line in lines) == 4
    assert sum('"outcome"' in line for line in lines) == 4
