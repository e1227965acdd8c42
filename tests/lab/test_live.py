"""The checker of live connections notices every way of harming one, and nothing else."""

from __future__ import annotations

import time
from typing import Literal

import pytest

from tests.lab import table
from tests.lab.live import ConversationsEndedError, LiveConnections
from tests.lab.namespace import Namespace

pytestmark = pytest.mark.host


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("zone", [0, 13, 65535])
def test_live_connections_have_their_entries_in_the_zone(
    namespace: Namespace, zone: int, family: Literal[4, 6]
) -> None:
    with LiveConnections(namespace, zone, tcp=3, udp=2, family=family) as live:
        live.assert_all_alive()
        ports = {(c.entry.proto, c.entry.sport) for c in live.connections}
        assert len(ports) == 5
        assert {(e.proto, e.sport) for e in table.entries(namespace, zone) if e.mark} >= ports


def test_data_flows_all_the_time(namespace: Namespace) -> None:
    with LiveConnections(namespace, 13) as live:
        before = live.echoes()
        live.assert_all_alive()
        assert all(now > then for then, now in zip(before, live.echoes(), strict=True))


@pytest.mark.parametrize("family", [4, 6])
def test_a_flush_of_the_zone_is_noticed_on_every_connection(namespace: Namespace, family: Literal[4, 6]) -> None:
    with LiveConnections(namespace, 13, tcp=2, udp=2, family=family) as live:
        live.assert_all_alive()
        table.delete_zone(namespace, 13)
        faults = live.broken()
        assert len(faults) == 4
        assert all("gone" in fault or "made anew" in fault for fault in faults)
        with pytest.raises(AssertionError, match=r"tcp (127\.0\.13\.1|fd00::d:1)"):
            live.assert_all_alive()


def test_a_flush_of_another_zone_harms_nobody(namespace: Namespace) -> None:
    with LiveConnections(namespace, 13) as live, LiveConnections(namespace, 12) as others:
        table.delete_zone(namespace, 12)
        live.assert_all_alive()
        assert len(others.broken()) == len(others.connections)


def test_a_single_deleted_entry_is_told_by_name(namespace: Namespace) -> None:
    with LiveConnections(namespace, 13, tcp=2, udp=0) as live:
        victim = live.connections[1]
        namespace.run(["conntrack", "-D", "-w", "13", "-p", "tcp", "--orig-port-src", str(victim.entry.sport)])
        assert [fault.partition(" →")[0] for fault in live.broken()] == [f"tcp 127.0.13.1:{victim.entry.sport}"]


def test_a_deleted_entry_really_cuts_a_tcp_connection(namespace: Namespace) -> None:
    with LiveConnections(namespace, 13, tcp=1, udp=0) as live:
        table.delete_zone(namespace, 13)
        last = -1
        # What was under way may still arrive; after that nothing does.
        while last != (last := live.echoes()[0]):
            time.sleep(0.5)
        time.sleep(0.5)
        assert live.echoes() == [last]


def test_silence_with_the_entry_intact_is_noticed(namespace: Namespace) -> None:
    with LiveConnections(namespace, 13, tcp=1, udp=1) as live:
        namespace.run(
            ["nft", "-f", "-"],
            stdin="table inet wall { chain o { type filter hook output priority 10; policy drop; }; }",
        )
        assert all("nothing echoed" in fault for fault in live.broken())
        assert len(live.broken()) == 2


def test_traffic_that_has_ended_is_noticed(namespace: Namespace) -> None:
    with LiveConnections(namespace, 13) as live:
        namespace.run(["pkill", "-9", "-f", "traffic.py"])
        with pytest.raises(ConversationsEndedError, match="ended with -9"):
            live.assert_all_alive()


def test_stopping_takes_the_rules_away_and_the_zone_can_be_used_again(namespace: Namespace) -> None:
    with LiveConnections(namespace, 13):
        pass
    assert namespace.run(["nft", "list", "ruleset"]).stdout == ""
    with LiveConnections(namespace, 13) as live:
        live.assert_all_alive()
