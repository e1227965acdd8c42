"""A stall as users of a real agent see it: while it lasts in /metrics, afterwards in the log and in `ctctl events`."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from tests.lab.agent import LabAgent
from tests.lab.ovn import SWITCH, Ovn

pytestmark = pytest.mark.ovn

STALL = "ctctl_main_loop_stall_seconds"


@pytest.fixture
def agent(ovn: Ovn) -> Iterator[LabAgent]:
    ovn.add_router("base")
    ovn.router_zones("base")
    with LabAgent(ovn.namespace, ovn) as running:
        yield running


def create_router_without_waiting(ovn: Ovn, name: str) -> None:
    router_port, switch_port = f"{name}-p", f"{SWITCH}-{name}"
    ovn.nbctl(
        *("lr-add", name, "--", "set", "logical_router", name, "options:chassis=chassis-1"),
        *("--", "lrp-add", name, router_port, "02:00:00:00:99:01", "10.99.0.1/24"),
        *("--", "lsp-add", SWITCH, switch_port, "--", "lsp-set-type", switch_port, "router"),
        *("--", "lsp-set-addresses", switch_port, "router"),
        *("--", "lsp-set-options", switch_port, f"router-port={router_port}"),
        wait_hv=False,
    )


def test_a_stall_rises_while_it_lasts_and_names_the_router_that_waited(agent: LabAgent, ovn: Ovn) -> None:
    vswitchd = ovn.daemon("ovs-vswitchd")
    vswitchd.signal(signal.SIGSTOP)
    create_router_without_waiting(ovn, "r1")
    seen: list[float] = []
    while not seen or seen[-1] < 4:
        reply = agent.get("/metrics")
        assert reply.status == 200
        samples = agent.metrics()
        assert samples.get("ctctl_daemon_up", daemon="ovs-vswitchd") == 1
        assert samples.get(STALL, daemon="ovn-controller") == 0
        seen.append(samples.get(STALL, daemon="ovs-vswitchd") or 0.0)
        time.sleep(0.3)
    assert seen == sorted(seen)
    vswitchd.signal(signal.SIGCONT)
    ovn.router_zones("r1")
    [event] = agent.wait_for_event("stall", "ovs-vswitchd main stalled")
    assert "doing=stopped" in event["text"]
    assert "routers_in_setup=r1" in event["text"]
    assert event["duration_s"] >= 4
    samples = agent.metrics()
    assert samples.get(STALL, daemon="ovs-vswitchd") == 0
    assert samples.get("ctctl_stall_episodes_total", daemon="ovs-vswitchd", thread="main") == 1
    assert samples.get("ctctl_stalls_near_router_change_total") == 1
    assert len(agent.log_lines("main stalled")) == 1


def test_what_a_router_would_cost_is_foretold_for_both_paths(agent: LabAgent) -> None:
    samples = agent.wait_for_metric(lambda s: len(s.all("ctctl_predicted_router_stall_seconds")) == 2, "the prediction")
    assert len(samples.all("ctctl_predicted_router_stall_seconds", in_use="true")) == 1
    assert samples.sum("ctctl_predicted_router_stall_seconds", path="table_dump") > samples.sum(
        "ctctl_predicted_router_stall_seconds", path="kernel_filter"
    )
