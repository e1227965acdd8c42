"""One scene of the stall benchmark, inside a virtual machine whose kernel has the openvswitch module.

`python3 -m tests.bench.stall_scene SUITE ENTRIES ZONES PROMETHEUS` starts the OVN of a Debian release on the kernel
datapath, two hosts that talk to each other, a conntrack table of that size, the agent and a Prometheus that scrapes
it. Then it creates routers. What the agent foretold, what Prometheus saw rise, what vswitchd logged and what the hosts
noticed is printed as one line of JSON behind `RESULT`. Nothing is stopped by a signal: vswitchd is blocked by its own
flushes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.lab.agent import LabAgent, Samples
from tests.lab.daemon import wait_until
from tests.lab.debian import tree_path
from tests.lab.entries import fill
from tests.lab.host import add_host, on_host
from tests.lab.namespace import Namespace
from tests.lab.ovn import SWITCH, Ovn

ROUTERS = ("r1", "r2")
FIRST_ZONE = 1000
"""Far above what OVN assigns here."""

PATIENCE_S = 400.0
"""Everything takes five to fifteen times as long as on a real machine."""

LOOK_S = 5.0
SCRAPE_S = 2
"""A scrape costs a good part of a second in here, and vswitchd needs the processors too."""

TALK = Path(__file__).with_name("stall_talk.py")
LONG_POLL = re.compile(r"\|timeval\|WARN\|Unreasonably long (\d+)ms poll interval \((\d+)ms user, (\d+)ms system\)")
BLOCKED = re.compile(r"\|WARN\|blocked (\d+) ms waiting for main to quiesce")
STALL = 'ctctl_main_loop_stall_seconds{daemon="ovs-vswitchd"}'
COUNTED = "ctctl_count_duration_seconds_count"
PREDICTED = "ctctl_predicted_router_stall_seconds"
BEGUN = time.monotonic()


def say(text: str) -> None:
    """Progress, with the seconds since the scene began."""
    print(f"[{time.monotonic() - BEGUN:6.1f} s] {text}", flush=True)


@dataclass(frozen=True, slots=True)
class Setup:
    """What creating one router did.

    `logged_s`: all poll intervals that vswitchd itself called unreasonably long meanwhile, `user_s` and `system_s` of
    them; `blocked_ms`: the last lower bound it logged. `probed_s`: how long the agent's probes waited in all.
    `seen_s`: the highest value of the series that Prometheus scraped. `told`: the agent's lines about it.
    """

    router: str
    ready_s: float
    zones: int
    logged_s: float
    user_s: float
    system_s: float
    blocked_ms: int
    probed_s: float
    seen_s: float
    slowest_scrape_s: float
    told: tuple[str, ...]


class Prometheus:
    """A real one in the namespace, scraping the agent every two seconds."""

    def __init__(self, namespace: Namespace, program: Path, port: int) -> None:
        self.namespace = namespace
        directory = namespace.directory / "prometheus"
        directory.mkdir()
        config = directory / "prometheus.yml"
        config.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": f"{SCRAPE_S}s", "scrape_timeout": f"{SCRAPE_S}s"},
                    "scrape_configs": [
                        {"job_name": "ctctl", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]},
                    ],
                }
            )
        )
        namespace.popen(
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={directory}/data",
                "--web.listen-address=127.0.0.1:9090",
                "--log.level=warn",
            ]
        )

    def ask(self, path: str, **parameters: str) -> Any:
        """One question to its API."""
        url = f"http://127.0.0.1:9090/api/v1/{path}?{urllib.parse.urlencode(parameters)}"

        def get() -> Any:
            with urllib.request.urlopen(url, timeout=30) as reply:
                return json.load(reply)["data"]["result"]

        return self.namespace.call(get)

    def is_scraping(self) -> bool:
        """Claims that it has a sample of the agent."""
        try:
            return bool(self.ask("query", query="ctctl_build_info"))
        except OSError:
            return False

    def samples(self, series: str, begun_s: float, ended_s: float) -> list[tuple[float, float]]:
        """(Unix time, value) of every scrape between two Unix times, as stored."""
        window = f"{int(ended_s - begun_s) + 2}s"
        found = self.ask("query", query=f"{series}[{window}]", time=f"{ended_s:.3f}")
        return [(float(at), float(value)) for at, value in found[0]["values"]] if found else []


def start_ovn(namespace: Namespace, suite: str) -> Ovn:
    """OVN on the kernel's own datapath."""
    ovn = Ovn(namespace, tree_path(suite), "system")
    vswitchd = ovn.chassis.vswitchd
    ovn.chassis.vswitchd = replace(vswitchd, arguments=vswitchd.arguments[-1:])  # without the dummy datapath
    ovn.start()
    ovn.add_switch()
    for number in (1, 2):
        host, mac, address = f"h{number}", f"02:00:00:00:00:0{number}", f"10.0.0.{number}"
        add_host(namespace, host, mac, f"{address}/24")
        ovn.vsctl("add-port", "br-int", host, "--", "set", "interface", host, f"external_ids:iface-id={host}")
        ovn.nbctl("lsp-add", SWITCH, host, "--", "lsp-set-addresses", host, f"{mac} {address}", timeout_s=PATIENCE_S)
    return ovn


def start_talk(namespace: Namespace) -> subprocess.Popen[bytes]:
    """A TCP conversation between the hosts, through the zones that OVN gave their ports."""
    pipe = subprocess.PIPE
    server = namespace.popen(on_host("h2", [sys.executable, "-I", str(TALK), "serve", "10.0.0.2"]), stdout=pipe)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    client = namespace.popen(
        on_host("h1", [sys.executable, "-I", str(TALK), "talk", "10.0.0.2"]), stdin=pipe, stdout=pipe
    )
    assert client.stdout is not None
    assert client.stdout.readline() == b"ready\n"
    return client


def end_talk(client: subprocess.Popen[bytes]) -> dict[str, float]:
    """What the hosts noticed.

    Raises:
        AssertionError: the connection broke.
    """
    output, _ = client.communicate(b"\n", timeout=PATIENCE_S)
    assert client.returncode == 0, "the hosts' connection broke"
    found: dict[str, float] = json.loads(output)
    return found


def predicted_s(samples: Samples) -> tuple[str, dict[str, float]]:
    """The path in use and the prediction for each path."""
    found = {dict(labels)["path"]: (dict(labels)["in_use"], value) for labels, value in samples.all(PREDICTED).items()}
    in_use = next(path for path, (is_in_use, _) in found.items() if is_in_use == "true")
    return in_use, {path: value for path, (_, value) in found.items()}


def metrics(agent: LabAgent) -> Samples:
    """One scrape; repeated while the machine is too slow to answer in the time a scrape has.

    Raises:
        TimeoutError: it stays too slow.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        reply = agent.get("/metrics", timeout_s=PATIENCE_S)
        if reply.status == HTTPStatus.OK:
            return Samples.parse(reply.body)
        time.sleep(LOOK_S)
    raise TimeoutError("the agent's /metrics was too slow")


def wait_for_counts(agent: LabAgent, counts: int) -> None:
    """Return when the agent has published so many counts; asks seldom, because asking slows them down.

    Raises:
        TimeoutError: it has not.
    """
    deadline = time.monotonic() + PATIENCE_S
    while metrics(agent).sum(COUNTED) < counts:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the agent did not count {counts} times")
        time.sleep(LOOK_S)


def probed_s(agent: LabAgent) -> float:
    """Seconds that answered probes of vswitchd have waited since the agent started."""
    return metrics(agent).get("ctctl_main_loop_probe_duration_seconds_sum", daemon="ovs-vswitchd") or 0.0


def stalls_told(agent: LabAgent) -> list[str]:
    """The agent's log lines about stalls that are over."""
    return agent.log_lines("ovs-vswitchd main stalled")


def create_router(name: str, ovn: Ovn, agent: LabAgent, prometheus: Prometheus) -> tuple[Setup, list[Any]]:
    """Create one router with one port, and gather what everybody says about it; also the scraped series."""
    log_before, zones_before, told_before = len(ovn.ovs_log.read_text()), set(ovn.zones()), len(stalls_told(agent))
    probed_before_s = probed_s(agent)
    begun_s, begun = time.time(), time.monotonic()
    ovn.add_router(name)
    ovn.router_zones(name, timeout_s=PATIENCE_S)
    ready_s = time.monotonic() - begun
    wait_until(lambda: bool(agent.log_lines(f"router {name} ", "verdict=")), f"the verdict on {name}", PATIENCE_S)
    time.sleep(6)  # a stall is told two seconds after its end
    ended_s = time.time()
    logged = ovn.ovs_log.read_text()[log_before:]
    polls = [[int(ms) / 1000 for ms in found] for found in LONG_POLL.findall(logged)]
    series = prometheus.samples(STALL, begun_s, ended_s)
    scrapes = prometheus.samples('scrape_duration_seconds{job="ctctl"}', begun_s, ended_s)
    setup = Setup(
        router=name,
        ready_s=round(ready_s, 2),
        zones=len(set(ovn.zones()) - zones_before),
        logged_s=round(sum(poll[0] for poll in polls), 3),
        user_s=round(sum(poll[1] for poll in polls), 3),
        system_s=round(sum(poll[2] for poll in polls), 3),
        blocked_ms=max((int(ms) for ms in BLOCKED.findall(logged)), default=0),
        probed_s=round(probed_s(agent) - probed_before_s, 2),
        seen_s=round(max((value for _, value in series), default=0.0), 2),
        slowest_scrape_s=round(max((value for _, value in scrapes), default=0.0), 3),
        told=tuple(stalls_told(agent)[told_before:]),
    )
    say(f"{setup}")
    return setup, series


def main(suite: str, entries: int, zones: int, prometheus_program: Path) -> None:
    """The whole scene."""
    subprocess.run(["modprobe", "openvswitch"], check=True)
    Path("/proc/sys/net/netfilter/nf_conntrack_max").write_text(f"{4 * entries}\n")
    with Namespace() as namespace:
        ovn = start_ovn(namespace, suite)
        say(f"OVN is up after {ovn.start_seconds:.1f} s, zones {ovn.zones()}")
        talk = start_talk(namespace)
        made = fill(namespace, {FIRST_ZONE + n: entries // zones for n in range(zones)})
        say(f"{made} entries in {zones} zones")
        agent = LabAgent(namespace, ovn, {"count": {"interval": "10s", "max_cpu_ratio": 0.3}})
        agent.start(timeout_s=PATIENCE_S)
        # The first pass competes with the agent's own start.
        wait_for_counts(agent, 2)
        path, predictions = predicted_s(metrics(agent))
        say(f"predicted for the next router: {predictions[path]:.2f} s by {path}")
        prometheus = Prometheus(namespace, prometheus_program, agent.port)
        wait_until(prometheus.is_scraping, "Prometheus to scrape", PATIENCE_S)
        say("Prometheus is at work")
        setups, artefact = [], {}
        for name in ROUTERS:
            setup, artefact[name] = create_router(name, ovn, agent, prometheus)
            setups.append(setup)
        begun = time.monotonic()
        ovn.appctl("ovs-vswitchd", "dpctl/flush-conntrack", f"zone={FIRST_ZONE}")
        flush_s = time.monotonic() - begun
        heard = end_talk(talk)
        result = {
            "suite": suite,
            "kernel": os.uname().release,
            "entries": made,
            "zones": zones,
            "path": path,
            "predicted_s": {name: round(value, 2) for name, value in predictions.items()},
            "setups": [asdict(setup) for setup in setups],
            "vswitchd_flush_s": round(flush_s, 3),
            "talk": heard,
            "series": artefact,
        }
        print("RESULT " + json.dumps(result), flush=True)
        agent.stop()


if __name__ == "__main__":
    tempfile.tempdir = "/dev/shm"  # noqa: S108 (sockets do not work on the machine's overlay)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
