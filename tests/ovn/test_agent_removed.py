"""What a removed router leaves behind, on a real OVN and the real kernel table."""

from __future__ import annotations

import pytest

from tests.lab import table
from tests.lab.agent import LabAgent
from tests.lab.entries import fill
from tests.lab.live import LiveConnections
from tests.lab.marks import each_generation
from tests.lab.ovn import Ovn

pytestmark = pytest.mark.ovn

QUICK = {"flush": {"grace": "2s"}, "count": {"interval": "500ms", "max_cpu_ratio": 0.5}}


@each_generation
def test_what_a_removed_router_left_is_flushed_and_every_other_zone_stays(ovn: Ovn) -> None:
    ovn.add_router("gone")
    ovn.add_router("stays")
    left, kept = ovn.router_zones("gone"), ovn.router_zones("stays")
    unseen = 4000  # without owner since before the agent started: nobody saw whose it was
    fill(ovn.namespace, {**dict.fromkeys((*left, *kept), 30), unseen: 30})
    with LiveConnections(ovn.namespace, kept[0]) as live, LabAgent(ovn.namespace, ovn, QUICK) as agent:
        ovn.delete_router("gone")
        flushes = agent.wait_for_event("flush", count=2, timeout_s=30)
        assert sorted(flush["zone"] for flush in flushes) == sorted(left)
        assert {(flush["trigger"], flush["owner"]) for flush in flushes} == {("router_removed", "gone")}
        live.assert_all_alive()
        counts = table.zone_counts(ovn.namespace)
        assert [counts[zone] for zone in left] == [0, 0]
        assert [counts[zone] for zone in (*kept, unseen)] == [36, 30, 30]


def test_a_number_that_ovn_gives_to_the_next_router_is_not_cleaned_as_an_orphan(ovn: Ovn) -> None:
    ovn.add_router("gone")
    left = ovn.router_zones("gone")
    with LabAgent(ovn.namespace, ovn, QUICK) as agent:
        ovn.delete_router("gone")
        ovn.add_router("heir")
        zones = ovn.router_zones("heir")
        assert set(left) & set(zones), "OVN gave no number again"
        with LiveConnections(ovn.namespace, zones[0]) as live:
            passes = agent.metrics().sum("ctctl_count_duration_seconds_count")
            agent.wait_for_metric(
                lambda m: m.sum("ctctl_count_duration_seconds_count") > passes + 10, "ten passes", timeout_s=40
            )
            assert [flush for flush in agent.events("flush") if flush["zone"] in zones] == []
            live.assert_all_alive()
