"""The scenes of the demo, each a function that reads from top to bottom and ends with its checks."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field

from tests.demo.narrative import Narrative
from tests.lab import table
from tests.lab.agent import LabAgent, Samples
from tests.lab.daemon import wait_until
from tests.lab.entries import fill
from tests.lab.live import LiveConnections
from tests.lab.namespace import Namespace
from tests.lab.ovn import Ovn

PRESENT = ("tenant-a", "tenant-b", "tenant-c")
LEFT_BEHIND = 400
HOST_ENTRIES = 150
HOST_PEER = "10.255.0.1"
BASELINE_S = 8.0
"""A pass is evidence when it ended well before the databases were last known not to have the router."""


@dataclass
class Stage:
    """What the scenes share."""

    namespace: Namespace
    ovn: Ovn
    agent: LabAgent
    tell: Narrative
    live: list[LiveConnections] = field(default_factory=list)

    def flushes(self) -> int:
        """Flushes and repairs since the agent started."""
        return int(self.agent.metrics().sum("ctctl_flushes_total"))

    def show_zones(self, *arguments: str) -> None:
        """`ctctl zones`, as a person would read it."""
        self.tell.act(" ".join(("ctctl zones", *arguments)))
        self.tell.quote(self.agent.run("zones", *arguments).stdout.splitlines())

    def show_events(self, *words: str) -> list[dict[str, object]]:
        """The events whose text has all of `words`."""
        found = [event for event in self.agent.events() if all(word in event["text"] for word in words)]
        self.tell.quote((str(event["text"]) for event in found), style="yellow")
        return found


def opening(stage: Stage) -> None:
    """Routers are there before the agent is: a start is no reason to flush."""
    stage.tell.scene(
        "1  An agent on a node that has been running for a while",
        "Three routers with their conntrack zones, live connections in one of them, and entries of the host itself.",
    )
    for name in PRESENT:
        stage.ovn.add_router(name)
    dnat, _ = stage.ovn.router_zones("tenant-a")
    stage.live.append(LiveConnections(stage.namespace, dnat, tcp=6, udp=3))
    fill(stage.namespace, {0: HOST_ENTRIES}, first=50_000)
    stage.tell.say(f"tenant-a: 9 live connections in zone {dnat}, data flowing; the host: {HOST_ENTRIES} entries")
    stage.tell.act("ctctl agent")
    stage.agent.start()
    stage.tell.say(f"ready after {stage.agent.ready_seconds:.2f} s")
    stage.show_zones()
    stage.tell.check("starting with routers present flushes nothing", stage.flushes() == 0)


def clean_creation(stage: Stage) -> None:
    """Mode verify, nothing old in the zones: a verdict and no delete."""
    stage.tell.scene(
        "2  A router is created, and OVN did its job",
        "OVN itself flushes a zone before its key appears. In the default mode ctctl checks the result, and says so.",
    )
    stage.tell.act("ovn-nbctl lr-add blue …")
    stage.ovn.add_router("blue")
    verdict = stage.agent.wait_for_event("verdict", "blue")[0]
    stage.show_events("blue")
    stage.tell.check(
        "one verdict per zone, no delete", verdict["verdict"] == "empty" and stage.flushes() == 0, verdict["text"]
    )


def stale_state(stage: Stage) -> None:
    """Mode verify, old entries in the zones: exactly those go, live connections beside them stay."""
    tell, ovn, agent = stage.tell, stage.ovn, stage.agent
    tell.scene(
        "3  A router is created into zones that still hold a dead router's connections",
        "vswitchd ignores the errors of its own flushes, so this happens unseen. Here the entries are real and OVN's\n"
        "flush does not reach them. ctctl proves which entries are older than the assignment and deletes only those.",
    )
    zones = _haunt(stage)
    tell.say(f"router ghost is gone; {LEFT_BEHIND} entries are left in each of its zones {', '.join(map(str, zones))}")
    wait_until(lambda: _orphans(agent) == len(zones) * LEFT_BEHIND, "the agent to count what is left", 10)
    stage.show_zones("--orphans")
    time.sleep(BASELINE_S)
    tell.act("ctctl pause   # only to have time to open connections in the new router's zones")
    agent.run("pause")
    tell.act("ovn-nbctl lr-add heir …")
    ovn.add_router("heir")
    dnat, snat = ovn.router_zones("heir")
    tell.say(f"OVN gave heir the numbers {dnat} and {snat}, which ghost's network had")
    heirs = LiveConnections(stage.namespace, dnat, tcp=4, udp=2)
    stage.live.append(heirs)
    agent.wait_for_event("hold", "paused")
    before = table.zone_counts(stage.namespace)
    stage.show_zones("--router", "heir")
    tell.act("ctctl resume")
    agent.run("resume")
    verdict = agent.wait_for_event("verdict", "heir")[0]
    stage.show_events("heir")
    after = table.zone_counts(stage.namespace)
    stage.show_zones("--router", "heir")
    found = f"zone {dnat}: {before[dnat]} → {after[dnat]}, zone {snat}: {before[snat]} → {after[snat]}"
    tell.check("stale entries are found", verdict["verdict"] == "stale", verdict["text"])
    tell.check("exactly the stale ones are deleted", after[dnat] == 6 and after[snat] == 0, found)
    tell.check("live connections in the same zone are not touched", not heirs.broken(), "4 TCP, 2 UDP")


def always(stage: Stage) -> None:
    """Mode always: one kernel-filtered flush per zone."""
    tell, ovn, agent = stage.tell, stage.ovn, stage.agent
    tell.scene(
        "4  Mode always: every creation is flushed, at once and off vswitchd's main thread",
        "The policy is re-read without a restart. One kernel-filtered flush per zone, confirmed against the local\n"
        "database right before it is sent.",
    )
    _haunt(stage)
    agent.configure({"flush": {"triggers": {"router_created": "always"}}})
    wait_until(lambda: "flush policy re-read" in agent.log(), "the policy to be re-read", 5)
    before = table.entries(stage.namespace)
    tell.act("ovn-nbctl lr-add green …")
    ovn.add_router("green")
    green = ovn.router_zones("green")
    verdict = agent.wait_for_event("verdict", "green")[0]
    flushes = [e for e in stage.show_events("green") if e["kind"] == "flush"]
    after = table.zone_counts(stage.namespace)
    reactions = [float(str(e["reaction_s"])) for e in flushes]
    tell.check(
        "exactly one kernel-filtered flush per zone",
        sorted(int(str(e["zone"])) for e in flushes) == sorted(green)
        and {e["strategy"] for e in flushes} == {"kernel_filter"},
        verdict["text"],
    )
    shown = ", ".join(f"{r * 1000:.1f} ms" for r in reactions)
    tell.check("each sent within a second of the key being visible", bool(reactions) and max(reactions) < 1, shown)
    tell.check("the zones are empty", after[green[0]] == after[green[1]] == 0)
    others, still = _others(before, green), _others(table.entries(stage.namespace), green)
    tell.check("entries of all other zones are the same, one by one", others <= still, f"{len(others)} entries")
    agent.configure({})


def lifecycle(stage: Stage) -> None:
    """Rename, recreate, delete, restart, kill: nothing of it is a reason to delete."""
    tell, ovn, agent = stage.tell, stage.ovn, stage.agent
    tell.scene(
        "5  Renamed, re-created, deleted; and the agent restarted and killed",
        "Names and numbers change, identities do not. A restart, a replayed database, a reconnect: nothing to delete.",
    )
    wait_until(lambda: len(agent.log_lines("flush policy re-read")) == 2, "the policy to be re-read", 5)
    before = stage.flushes()
    tell.act("ovn-nbctl set logical_router blue name=azure")
    ovn.rename_router("blue", "azure")
    renamed = agent.wait_for_event("router", "azure", "new name")
    tell.act("ovn-nbctl lr-del green; ovn-nbctl lr-add green …")
    ovn.delete_router("green")
    ovn.add_router("green")
    agent.wait_for_event("verdict", "green", count=2)
    tell.act("ovn-nbctl lr-del tenant-c")
    ovn.delete_router("tenant-c")
    agent.wait_for_event("router", "tenant-c", "removed")
    stage.show_events("azure")
    stage.show_events("green", "verdict")
    tell.check("a rename is recognised as the same router", len(renamed) == 1)
    tell.check("nothing was flushed for it", stage.flushes() == before)
    tell.act("systemctl restart ctctl   # SIGTERM, then a new agent")
    code, seconds = agent.stop()
    agent.start()
    tell.check("SIGTERM ends it in under 5 s, with exit code 0", code == 0 and seconds < 5, f"{seconds:.2f} s")
    tell.act("kill -9, then a new agent")
    agent.kill9()
    agent.start()
    tell.check("neither start flushed anything", stage.flushes() == 0)


def by_hand(stage: Stage) -> None:
    """One router, on demand; and what is refused."""
    tell = stage.tell
    tell.scene("6  By hand", "A floating IP was detached and its sessions live on: flush one router, and nothing else.")
    fill(stage.namespace, dict.fromkeys(stage.ovn.router_zones("tenant-b"), 50))
    tell.act("ctctl flush --router tenant-b --yes")
    done = stage.agent.run("flush", "--router", "tenant-b", "--yes")
    tell.quote((done.stdout + done.stderr).splitlines())
    tell.act("ctctl flush --zone 0 --yes; ctctl flush --zone 4242 --yes")
    zero = stage.agent.run("flush", "--zone", "0", "--yes")
    foreign = stage.agent.run("flush", "--zone", "4242", "--yes")
    tell.quote((zero.stderr + foreign.stdout).splitlines())
    counts = table.zone_counts(stage.namespace)
    of_host = [e for e in table.entries(stage.namespace, 0) if e.dst == HOST_PEER]
    tell.check("the router's zones are empty", not any(counts[z] for z in stage.ovn.router_zones("tenant-b")))
    tell.check(
        "zone 0 and a zone without owner are refused",
        (zero.returncode, foreign.returncode, len(of_host)) == (2, 4, HOST_ENTRIES),
        f"exit codes {zero.returncode} and {foreign.returncode}, {len(of_host)} host entries still there",
    )


def stall(stage: Stage) -> None:
    """A stopped vswitchd is a rising line in /metrics."""
    tell, agent = stage.tell, stage.agent
    tell.scene(
        "7  ovs-vswitchd stands still, and it shows while it lasts",
        "Its main thread is stopped for three seconds. The agent has one question outstanding and never a second.",
    )
    vswitchd = stage.ovn.daemon("ovs-vswitchd")
    tell.act("kill -STOP ovs-vswitchd")
    vswitchd.signal(signal.SIGSTOP)
    seen: list[tuple[float, float, float]] = []
    begun = time.monotonic()
    try:
        while (at := time.monotonic() - begun) < 3:
            reply = agent.get("/metrics")
            value = Samples.parse(reply.body).get("ctctl_main_loop_stall_seconds", daemon="ovs-vswitchd")
            seen.append((at, value or 0.0, reply.seconds))
            shown = f"ctctl_main_loop_stall_seconds {value or 0:.2f}"
            tell.quote([f"{at:4.1f} s   {shown}   answered in {reply.seconds * 1e3:.0f} ms"])
            time.sleep(0.5)
    finally:
        tell.act("kill -CONT ovs-vswitchd")
        vswitchd.signal(signal.SIGCONT)
    rising = [value for at, value, _ in seen if at >= 1]
    tell.check("the stall rises within a second", bool(rising) and rising == sorted(rising) and min(rising) > 0)
    tell.check("/metrics answers meanwhile", max(s for _, _, s in seen) < 1, f"{max(s for *_, s in seen) * 1e3:.0f} ms")
    agent.wait_for_metric(
        lambda m: m.get("ctctl_main_loop_stall_seconds", daemon="ovs-vswitchd") == 0, "the stall to be over"
    )
    tell.say("over: back at 0")


def closing(stage: Stage) -> None:
    """What Prometheus gets, and who is still alive."""
    tell = stage.tell
    tell.scene("8  What Prometheus sees", "The interesting part of a real scrape.")
    wanted = (
        "ctctl_ct_zone_entries{",
        "ctctl_flush_duration_seconds_",
        "ctctl_zone_verdicts_total",
        "ctctl_flushes_total",
    )
    lines = stage.agent.get("/metrics").body.splitlines()
    tell.quote(
        line for line in lines if line.startswith(wanted) and "_bucket" not in line and not line.endswith(" 0.0")
    )
    counts = table.zone_counts(stage.namespace)
    scrape = Samples.parse("\n".join(lines) + "\n")
    shown = {int(dict(labels)["ct_zone"]): int(n) for labels, n in scrape.all("ctctl_ct_zone_entries").items()}
    # Zone 0 changes with every connection that the demo itself makes.
    exported, real = ({z: n for z, n in of.items() if z and n} for of in (shown, counts))
    found = f"{len(real)} zones" if exported == real else f"exported {exported}, in the kernel {real}"
    tell.check("the exported counts are the kernel's", exported == real, found)
    broken = [fault for live in stage.live for fault in live.broken()]
    everyone = sum(len(live.connections) for live in stage.live)
    tell.check("every live connection came through all of it", not broken, f"{everyone} connections")
    tell.quote(broken, style="red")


ALL = (opening, clean_creation, stale_state, always, lifecycle, by_hand, stall, closing)


def _orphans(agent: LabAgent) -> int:
    return int(agent.metrics().get("ctctl_ct_ownerless_entries") or 0)


def _haunt(stage: Stage) -> list[int]:
    """Create and delete a router, and leave entries in every number that it gave back."""
    before = set(stage.ovn.zones().values())
    stage.ovn.add_router("ghost")
    stage.ovn.router_zones("ghost")
    numbers = sorted(set(stage.ovn.zones().values()) - before)
    stage.ovn.delete_router("ghost")
    wait_until(lambda: not set(numbers) & set(stage.ovn.zones().values()), "ghost's zones to be given back", 5)
    held = table.zone_counts(stage.namespace)
    fill(stage.namespace, {number: LEFT_BEHIND for number in numbers if not held[number]})
    return numbers


def _others(found: list[table.TableEntry], zones: tuple[int, int]) -> set[tuple[object, ...]]:
    return {(e.zone, e.proto, e.src, e.sport, e.dst, e.dport, e.entry_id) for e in found if e.zone not in zones}
