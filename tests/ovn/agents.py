"""What the agent's tests on a real OVN have in common."""

from __future__ import annotations

from typing import Any

from tests.lab.agent import LabAgent, Samples
from tests.lab.entries import fill
from tests.lab.namespace import Namespace

ALWAYS = {"flush": {"triggers": {"router_created": "always"}}}
VERIFY = {"flush": {"triggers": {"router_created": "verify"}}}

SIGTERM_LIMIT_S = 5.0


def flushes_sent(samples: Samples) -> float:
    """Flushes of every trigger and strategy."""
    return samples.sum("ctctl_flushes_total")


def verdict_of(agent: LabAgent, router: str) -> dict[str, Any]:
    """The one verdict of a router, waited for."""
    events = agent.wait_for_event("verdict", f"router {router} ")
    assert len(events) == 1, [event["text"] for event in events]
    return events[0]


def fill_free_zones(namespace: Namespace, taken: set[int], count: int = 40, entries: int = 20) -> set[int]:
    """Entries in the lowest zones that nobody has: OVN takes the next from there. Returns their numbers."""
    free = {zone for zone in range(1, count + len(taken) + 1) if zone not in taken}
    fill(namespace, dict.fromkeys(sorted(free), entries))
    return free


def refused(events: list[dict[str, Any]]) -> set[str]:
    """The reasons of holds."""
    return {str(event["reason"]) for event in events if event["kind"] == "hold"}
