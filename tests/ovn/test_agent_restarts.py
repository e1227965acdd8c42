"""What ends and comes back: the agent itself, and each daemon under it. Nothing is flushed twice, nothing is lost."""

from __future__ import annotations

import signal
import time

import pytest

from tests.lab.agent import LabAgent
from tests.lab.daemon import wait_until
from tests.lab.entries import fill
from tests.lab.marks import each_generation
from tests.lab.namespace import Namespace
from tests.lab.ovn import Ovn
from tests.lab.table import zone_counts
from tests.ovn.agents import ALWAYS, SIGTERM_LIMIT_S, VERIFY, flushes_sent, verdict_of

pytestmark = pytest.mark.ovn

DAEMONS = ("ovsdb-server", "ovs-vswitchd", "ovn-controller", "sb", "nb", "ovn-northd")


@each_generation
@pytest.mark.parametrize("end", ["stop", "kill9"])
def test_a_restarted_agent_flushes_nothing_that_is_there(namespace: Namespace, ovn: Ovn, end: str) -> None:
    ovn.add_switch()
    with LabAgent(namespace, ovn, ALWAYS) as agent:
        ovn.add_router("r1")
        verdict_of(agent, "r1")
        fill(namespace, dict.fromkeys(ovn.zones().values(), 4))
        before = zone_counts(namespace)
        getattr(agent, end)()
        agent.start()
        assert agent.events("flush") == []
        assert agent.events("verdict") == []
        assert zone_counts(namespace) == before
        ovn.add_router("r2")
        verdict_of(agent, "r2")
        assert {event["owner"] for event in agent.events("flush")} == {"r2"}


@each_generation
@pytest.mark.parametrize("name", DAEMONS)
def test_a_restarted_daemon_is_reported_and_leads_to_no_flush(namespace: Namespace, ovn: Ovn, name: str) -> None:
    ovn.add_switch()
    with LabAgent(namespace, ovn, ALWAYS) as agent:
        ovn.add_router("r1")
        verdict_of(agent, "r1")
        ovn.daemon(name).restart()
        ovn.add_router("r2")
        verdict_of(agent, "r2")
        flushed = [(event["owner"], event["zone"]) for event in agent.events("flush")]
        assert len(flushed) == len(set(flushed))
        assert {owner for owner, _ in flushed} <= {"r1", "r2"}
        assert agent.get("/-/ready").status == 200
        assert agent.is_running


@each_generation
def test_a_killed_vswitchd_is_down_and_then_up(namespace: Namespace, ovn: Ovn) -> None:
    with LabAgent(namespace, ovn, VERIFY) as agent:
        vswitchd = ovn.daemon("ovs-vswitchd")
        vswitchd.kill()
        agent.wait_for_metric(lambda s: s.get("ctctl_daemon_up", daemon="ovs-vswitchd") == 0, "vswitchd down")
        assert agent.get("/-/ready").status == 200
        vswitchd.start()
        agent.wait_for_metric(lambda s: s.get("ctctl_daemon_up", daemon="ovs-vswitchd") == 1, "vswitchd up")
        assert agent.wait_for_event("agent", "ovs-vswitchd is down")


@each_generation
def test_metrics_answer_while_vswitchd_is_stopped_and_show_the_stall_while_it_lasts(
    namespace: Namespace, ovn: Ovn
) -> None:
    with LabAgent(namespace, ovn, VERIFY) as agent:
        vswitchd = ovn.daemon("ovs-vswitchd")
        vswitchd.signal(signal.SIGSTOP)

        def stalled_s() -> float:
            reply = agent.get("/metrics", timeout_s=5)
            assert reply.seconds < 1.0
            return agent.metrics().get("ctctl_main_loop_stall_seconds", daemon="ovs-vswitchd") or 0.0

        wait_until(lambda: stalled_s() > 1.0, "a stall of a second", 20)
        first = stalled_s()
        wait_until(lambda: stalled_s() > first + 0.5, "the stall to grow", 20)
        assert agent.metrics().get("ctctl_daemon_up", daemon="ovs-vswitchd") == 1
        assert agent.get("/-/ready").status == 200
        vswitchd.signal(signal.SIGCONT)
        wait_until(lambda: stalled_s() < 0.5, "the stall to end", 20)


@each_generation
def test_a_stop_ends_within_five_seconds_whatever_is_stopped_below(namespace: Namespace, ovn: Ovn) -> None:
    for stopped in (("ovs-vswitchd",), ("ovsdb-server",), ("ovs-vswitchd", "ovsdb-server", "ovn-controller", "sb")):
        with LabAgent(namespace, ovn, ALWAYS, name=f"agent-{len(stopped)}-{stopped[0]}") as agent:
            for name in stopped:
                ovn.daemon(name).signal(signal.SIGSTOP)
            if "ovsdb-server" in stopped:
                wait_until(lambda: agent.metrics().get("ctctl_flusher_lock_held") == 1, "the agent to answer", 10)
            code, seconds = agent.stop()
            for name in stopped:
                ovn.daemon(name).signal(signal.SIGCONT)
            assert code == 0, agent.log()
            assert seconds < SIGTERM_LIMIT_S
            assert "Traceback" not in agent.log()


@each_generation
def test_while_the_local_database_does_not_answer_nothing_is_flushed_and_everything_is_served(
    namespace: Namespace, ovn: Ovn
) -> None:
    ovn.add_router("r1")
    zones = ovn.router_zones("r1")
    with LabAgent(namespace, ovn, ALWAYS) as agent:
        fill(namespace, dict.fromkeys(zones, 5))
        server = ovn.daemon("ovsdb-server")
        server.signal(signal.SIGSTOP)
        begun = time.monotonic()
        code, reports = agent.ctl("flush", "--router", "r1", "--yes")
        assert time.monotonic() - begun < 30
        assert (code, {r["reason"] for r in reports}) == (4, {"map_not_fresh"})
        assert [zone_counts(namespace)[zone] for zone in zones] == [5, 5]
        assert agent.get("/metrics").status == 200
        assert agent.ctl("zones")[0] == 0
        server.signal(signal.SIGCONT)
        agent.wait_for_metric(
            lambda s: s.get("ctctl_ovsdb_connected", database="Open_vSwitch") == 1, "the database to be back"
        )
        wait_until(lambda: agent.ctl("flush", "--router", "r1", "--yes")[0] == 0, "a flush to be allowed again", 30)
        assert [zone_counts(namespace)[zone] for zone in zones] == [0, 0]


@each_generation
def test_a_rebuilt_southbound_database_leads_to_no_flush(namespace: Namespace, ovn: Ovn) -> None:
    names = [f"r{number}" for number in range(5)]
    ovn.add_routers(names)
    ovn.router_zones(names[-1])
    with LabAgent(namespace, ovn, ALWAYS) as agent:
        southbound = ovn.daemon("sb")
        ovn.daemon("ovn-northd").stop()
        southbound.stop()
        (ovn.chassis.libdir / "sb.db").unlink()
        ovn.chassis.create_database("sb.db", "ovn-sb.ovsschema")
        southbound.start()
        ovn.daemon("ovn-northd").start()
        agent.wait_for_metric(
            lambda s: (
                s.get("ctctl_ovsdb_connected", database="OVN_Southbound") == 1
                and s.get("ctctl_logical_routers", scope="local") == 5
                and (s.get("ctctl_ovsdb_reconnects_total", database="OVN_Southbound") or 0) > 0
            ),
            "five local routers again",
            timeout_s=40,
        )
        assert flushes_sent(agent.metrics()) == 0
