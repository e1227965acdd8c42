"""The agent on a real OVN and a real table: what it flushes, what it leaves alone, and what it says about it."""

from __future__ import annotations

import signal

import pytest

from tests.lab.agent import LabAgent
from tests.lab.entries import fill
from tests.lab.live import LiveConnections
from tests.lab.marks import each_generation
from tests.lab.namespace import Namespace
from tests.lab.ovn import Ovn
from tests.lab.table import zone_counts
from tests.ovn.agents import ALWAYS, VERIFY, fill_free_zones, flushes_sent, refused, verdict_of

pytestmark = pytest.mark.ovn


@each_generation
def test_a_start_with_fifty_routers_flushes_nothing(namespace: Namespace, ovn: Ovn) -> None:
    names = [f"r{number}" for number in range(50)]
    ovn.add_routers(names)
    ovn.router_zones(names[-1])
    fill(namespace, dict.fromkeys(ovn.zones().values(), 3))
    before = zone_counts(namespace)
    with LabAgent(namespace, ovn, ALWAYS) as agent:
        samples = agent.wait_for_metric(
            lambda s: s.get("ctctl_logical_routers", scope="local") == 50, "fifty local routers"
        )
        assert flushes_sent(samples) == 0
        assert agent.events("verdict") == []
        assert agent.events("hold") == []
        code, zones = agent.ctl("zones")
        assert code == 0
        assert {z["ct_zone"]: z["entries"] for z in zones} == before
        kinds = [z["kind"] for z in zones]
        assert (kinds.count("router_dnat"), kinds.count("router_snat")) == (50, 50)
        assert not {"conflict", "ownerless"} & set(kinds)
    assert zone_counts(namespace) == before


@each_generation
def test_a_new_router_in_always_is_flushed_once_per_zone_and_nothing_else_is_touched(
    namespace: Namespace, ovn: Ovn
) -> None:
    ovn.add_router("old")
    old = set(ovn.router_zones("old"))
    with (
        LiveConnections(namespace, zone=min(old)) as live,
        LiveConnections(namespace, zone=0) as hosts,
        LabAgent(namespace, ovn, ALWAYS) as agent,
    ):
        filled = fill_free_zones(namespace, set(ovn.zones().values()))
        ovn.add_router("r1")
        zones = set(ovn.router_zones("r1"))
        assert zones <= filled
        verdict = verdict_of(agent, "r1")
        assert (set(verdict["zones"]), verdict["verdict"], verdict["flush"]) == (zones, "empty", "done")
        counts = zone_counts(namespace)
        assert {zone: counts[zone] for zone in filled} == {zone: 0 if zone in zones else 20 for zone in filled}
        live.assert_all_alive()
        hosts.assert_all_alive()
        samples = agent.metrics()
        flushes = samples.all("ctctl_flushes_total", trigger="router_created", strategy="kernel_filter")
        assert list(flushes.values()) == [2]
        assert flushes_sent(samples) == 2
        assert samples.get("ctctl_flush_reaction_seconds_count", trigger="router_created") == 2
        assert {event["zone"] for event in agent.events("flush")} == zones
        journal = agent.journal()
        assert sorted(line["zone"] for line in journal if "intent" in line) == sorted(zones)
        assert [line["kind"] for line in journal if "outcome" in line] == ["FlushResult"] * 2


@each_generation
def test_a_new_router_in_verify_has_one_verdict_per_zone_counted_timed_and_logged(
    namespace: Namespace, ovn: Ovn
) -> None:
    ovn.add_switch()
    with LabAgent(namespace, ovn, VERIFY) as agent:
        ovn.add_router("r1")
        zones = ovn.router_zones("r1")
        verdict = verdict_of(agent, "r1")
        assert set(verdict["zones"]) == set(zones)
        samples = agent.metrics()
        assert samples.get("ctctl_zone_verdicts_total", trigger="router_created", verdict="empty") == 2
        assert samples.sum("ctctl_zone_verdicts_total") == 2
        assert samples.get("ctctl_zone_verdict_seconds_count", trigger="router_created") == 2
        assert flushes_sent(samples) == 0
        (line,) = agent.log_lines("router r1 ready in ")
        numbers = ",".join(str(zone) for zone in sorted(zones))
        assert f"zones={numbers} verdict=empty flush=not-needed" in line
        assert verdict["text"] in line


@each_generation
def test_a_manual_flush_empties_the_named_zones_and_no_other(namespace: Namespace, ovn: Ovn) -> None:
    ovn.add_routers(["r1", "r2"])
    r1, r2 = ovn.router_zones("r1"), ovn.router_zones("r2")
    with LabAgent(namespace, ovn) as agent:
        fill(namespace, dict.fromkeys((*r1, *r2, 0, 777), 10))
        code, reports = agent.ctl("flush", "--router", "r1", "--yes")
        assert (code, {r["ct_zone"] for r in reports}, {r["outcome"] for r in reports}) == (0, set(r1), {"flushed"})
        counts = zone_counts(namespace)
        assert [counts[zone] for zone in (*r1, *r2, 0, 777)] == [0, 0, 10, 10, 10, 10]
        code, (dry,) = agent.ctl("flush", "--zone", str(r2[0]), "--dry-run")
        assert (code, dry["outcome"], dry["reason"]) == (0, "refused", "dry_run")
        code, (unowned,) = agent.ctl("flush", "--zone", "777", "--yes")
        assert (code, unowned["reason"]) == (4, "unowned_zone")
        assert zone_counts(namespace)[777] == 10
        code, reports = agent.ctl("flush", "--router", "nobody", "--zone", str(r2[1]), "--yes")
        assert (code, len(reports)) == (4, 2)
        assert zone_counts(namespace)[r2[1]] == 0


@each_generation
def test_a_router_that_ovn_renames_is_flushed_once(namespace: Namespace, ovn: Ovn) -> None:
    ovn.add_switch()
    with LabAgent(namespace, ovn, ALWAYS) as agent:
        ovn.add_router("r1")
        verdict_of(agent, "r1")
        ovn.rename_router("r1", "edge")
        ovn.add_router("r2")
        verdict_of(agent, "r2")
        assert [e["owner"] for e in agent.events("flush")].count("r1") == 2
        assert [e["owner"] for e in agent.events("flush")].count("edge") == 0


@each_generation
def test_a_second_agent_serves_metrics_does_not_flush_and_takes_over_when_the_first_is_killed(
    namespace: Namespace, ovn: Ovn
) -> None:
    ovn.add_switch()
    with (
        LabAgent(namespace, ovn, ALWAYS) as first,
        LabAgent(namespace, ovn, ALWAYS, name="second", port=10780) as second,
    ):
        assert [a.metrics().get("ctctl_flusher_lock_held") for a in (first, second)] == [1, 0]
        ovn.add_router("r1")
        verdict_of(first, "r1")
        assert len(first.events("flush")) == 2
        assert verdict_of(second, "r1")["flush"] == "held(not_the_flusher)"
        assert second.events("flush") == []
        assert second.ctl("flush", "--router", "r1", "--yes")[0] == 4
        first.kill9()
        second.wait_for_metric(lambda s: s.get("ctctl_flusher_lock_held") == 1, "the second agent to take over")
        ovn.add_router("r2")
        verdict_of(second, "r2")
        assert len(second.events("flush")) == 2


@each_generation
def test_a_policy_that_is_tightened_acts_within_two_seconds(namespace: Namespace, ovn: Ovn) -> None:
    ovn.add_router("r1")
    zones = ovn.router_zones("r1")
    with LabAgent(namespace, ovn, ALWAYS) as agent:
        fill(namespace, dict.fromkeys(zones, 5))
        agent.configure({"flush": {"switch": "observe", "triggers": {"router_created": "always"}}})
        agent.wait_for_metric(
            lambda s: s.get("ctctl_flush_switch", switch="observe") == 1, "the switch to be read", timeout_s=2.0
        )
        assert agent.ctl("flush", "--router", "r1", "--yes")[0] == 4
        ovn.add_router("r2")
        assert verdict_of(agent, "r2")["flush"] == "held(observe)"
        assert flushes_sent(agent.metrics()) == 0
        assert [zone_counts(namespace)[zone] for zone in zones] == [5, 5]
        agent.config.write_text("flush: {switch: enforc}\n")
        agent.wait_for_metric(lambda s: bool(agent.log_lines("did you mean enforce?")), "the complaint")
        assert agent.metrics().get("ctctl_flush_switch", switch="observe") == 1


@each_generation
def test_a_pause_holds_across_a_restart(namespace: Namespace, ovn: Ovn) -> None:
    ovn.add_switch()
    with LabAgent(namespace, ovn, ALWAYS) as agent:
        assert agent.run("pause").returncode == 0
        ovn.add_router("r1")
        agent.wait_for_event("hold", "paused")
        agent.kill9()
        agent.start()
        assert agent.metrics().get("ctctl_flush_paused") == 1
        assert refused([{"kind": "hold", **r} for r in agent.ctl("flush", "--router", "r1", "--yes")[1]]) == {"paused"}
        assert agent.run("resume").returncode == 0
        assert agent.ctl("flush", "--router", "r1", "--yes")[0] == 0


@each_generation
def test_an_agent_stopped_across_a_renumbering_does_not_act_on_the_old_map(namespace: Namespace, ovn: Ovn) -> None:
    """Pauses the agent with a flush decided and not sent, gives the number to another router, and lets it go on."""
    settings = {"flush": {"triggers": {"router_created": "always"}, "max_lateness": "10m"}}
    ovn.add_switch()
    with LabAgent(namespace, ovn, settings) as agent:
        agent.run("pause")
        ovn.add_router("r1")
        ovn.router_zones("r1")
        agent.wait_for_event("hold", "paused", count=2)
        agent.signal(signal.SIGSTOP)
        ovn.delete_router("r1")
        ovn.add_routers(["r2", "r3"])
        for name in ("r2", "r3"):
            ovn.router_zones(name)
        agent.signal(signal.SIGCONT)
        for name in ("r1", "r2", "r3"):
            agent.wait_for_event("router", name)
        agent.run("resume")
        verdict_of(agent, "r1")
        for name in ("r2", "r3"):
            verdict_of(agent, name)
        # r1's flushes are void; r2's and r3's own are theirs to have, each once per zone.
        flushed = [(event["owner"], event["zone"]) for event in agent.events("flush")]
        assert "r1" not in {owner for owner, _ in flushed}
        assert len(flushed) == len(set(flushed)) == 4


@each_generation
def test_a_router_deleted_and_created_again_has_a_verdict_each_time(namespace: Namespace, ovn: Ovn) -> None:
    ovn.add_switch()
    with LabAgent(namespace, ovn, ALWAYS) as agent:
        for turn in range(1, 4):
            ovn.add_router("r1")
            agent.wait_for_event("verdict", "router r1 ready", count=turn)
            ovn.delete_router("r1")
            agent.wait_for_event("router", "router r1 removed", count=turn)
        assert len(agent.events("flush")) == 6
        assert agent.metrics().get("ctctl_router_events_total", event="removed") == 3
