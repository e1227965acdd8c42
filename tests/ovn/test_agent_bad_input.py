"""What is broken is named, with the remedy; nothing is lost, and the agent serves what it can."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.agent import PROGRAM, LabAgent
from tests.lab.daemon import wait_until
from tests.lab.entries import fill
from tests.lab.marks import each_generation
from tests.lab.namespace import Namespace
from tests.lab.ovn import Ovn
from tests.lab.table import zone_counts
from tests.ovn.agents import ALWAYS, SIGTERM_LIMIT_S, verdict_of

pytestmark = pytest.mark.ovn


def assert_stops(agent: LabAgent) -> None:
    """SIGTERM ends it in time, and it never showed its insides."""
    code, seconds = agent.stop()
    assert code == 0, agent.log()
    assert seconds < SIGTERM_LIMIT_S
    assert "Traceback" not in agent.log()


def serving(agent: LabAgent) -> LabAgent:
    agent.launch()
    agent.wait_until_serving()
    return agent


def test_without_a_local_database_it_serves_counts_and_becomes_ready_when_one_comes(
    namespace: Namespace, ovn: Ovn
) -> None:
    ovn.add_switch()
    ovn.daemon("ovsdb-server").stop()
    agent = serving(LabAgent(namespace, ovn, ALWAYS))
    agent.wait_for_metric(lambda s: bool(agent.log_lines("level=warning", "Open_vSwitch lost", "db.sock")), "a warning")
    assert "start ovsdb-server" in agent.log()
    reply = agent.get("/-/ready")
    assert (reply.status, "db.sock" in reply.body) == (503, True)
    assert agent.metrics().get("ctctl_conntrack_entries") is not None
    assert agent.ctl("zones")[0] == 0
    assert agent.ctl("status")[1]["databases"]["Open_vSwitch"] == "lost"
    ovn.daemon("ovsdb-server").start()
    agent.wait_until_ready(timeout_s=40)
    ovn.add_router("r1")
    verdict_of(agent, "r1")
    assert_stops(agent)


def test_without_a_southbound_database_it_is_ready_and_flushes_nothing(namespace: Namespace, ovn: Ovn) -> None:
    ovn.add_router("r1")
    zones = ovn.router_zones("r1")
    fill(namespace, dict.fromkeys(zones, 5))
    ovn.daemon("nb").signal(signal.SIGSTOP)
    ovn.daemon("sb").stop()
    with LabAgent(namespace, ovn, ALWAYS) as agent:
        assert agent.wait_for_event("agent", "OVN_Southbound lost", "ovnsb_db.sock")
        kinds = {z["ct_zone"]: z["kind"] for z in agent.ctl("zones")[1]}
        assert {kinds[zone] for zone in zones} == {"unknown_dnat", "unknown_snat"}
        assert agent.metrics().sum("ctctl_flushes_total") == 0
        assert agent.ctl("flush", "--router", "r1", "--yes")[0] == 4
        assert agent.ctl("flush", "--zone", str(zones[0]), "--yes")[0] == 0
        assert [zone_counts(namespace)[zone] for zone in zones] == [0, 5]
        assert_stops(agent)
    ovn.daemon("nb").signal(signal.SIGCONT)


@each_generation
def test_a_malformed_key_is_shown_and_changes_nothing_else(namespace: Namespace, ovn: Ovn) -> None:
    ovn.add_switch()
    with LabAgent(namespace, ovn, ALWAYS) as agent:
        for key, value in (("ct-zone-broken", "no-number"), ("ct-zone-r9_snat", "70000"), ("ct-zone-odd_dnat", "-1")):
            ovn.vsctl("set", "bridge", "br-int", f"external_ids:{key}={value}")
        agent.wait_for_metric(lambda s: (s.get("ctctl_zone_map_malformed_keys") or 0) >= 2, "the malformed keys")
        ovn.add_router("r1")
        verdict_of(agent, "r1")
        assert len(agent.events("flush")) == 2
        assert agent.get("/-/ready").status == 200
        assert_stops(agent)


@each_generation
def test_a_zone_that_a_second_key_claims_is_not_flushed(namespace: Namespace, ovn: Ovn) -> None:
    ovn.add_router("r1")
    dnat, snat = ovn.router_zones("r1")
    with LabAgent(namespace, ovn, ALWAYS) as agent:
        fill(namespace, dict.fromkeys((dnat, snat), 5))
        ovn.vsctl("set", "bridge", "br-int", f"external_ids:ct-zone-intruder={dnat}")
        agent.wait_for_metric(lambda s: s.get("ctctl_ct_zones", state="conflicting") == 1, "the conflict")
        code, (report,) = agent.ctl("flush", "--zone", str(dnat), "--yes")
        assert (code, report["reason"]) == (4, "shared_zone")
        assert "intruder" in report["why"]
        code, reports = agent.ctl("flush", "--router", "r1", "--yes")
        assert [r["ct_zone"] for r in reports if r["outcome"] == "flushed"] == [snat]
        assert [zone_counts(namespace)[zone] for zone in (dnat, snat)] == [5, 0]


def test_a_wrong_configuration_ends_the_start_with_its_place(namespace: Namespace, ovn: Ovn) -> None:
    agent = LabAgent(namespace, ovn)
    agent.config.write_text("flush:\n  trigers: {router_created: always}\n")
    assert agent.launch().wait(30) == 2
    message = f"ctctl: {agent.config}:2: flush.trigers: unknown key; did you mean triggers?\n"
    assert agent.log() == message
    done = agent.namespace.run([*PROGRAM, "check-config", str(agent.config)], check=False)
    assert (done.returncode, done.stderr) == (2, message)


def test_a_busy_port_ends_the_start_with_its_name(namespace: Namespace, ovn: Ovn) -> None:
    with LabAgent(namespace, ovn) as first:
        second = LabAgent(namespace, ovn, name="second")
        assert second.launch().wait(30) == 1
        assert second.log().count("\n") == 1
        assert "10779" in second.log()
        assert "in use" in second.log()
        assert not second.state_dir.exists()
        assert first.get("/-/ready").status == 200


def test_a_stale_control_socket_is_replaced_after_a_kill(namespace: Namespace, ovn: Ovn) -> None:
    with LabAgent(namespace, ovn) as agent:
        agent.kill9()
        assert agent.socket.is_socket()
        done = agent.run("status")
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "no agent on" in done.stderr
        agent.start()
        assert agent.ctl("status")[0] == 0
        assert_stops(agent)
        assert not agent.socket.exists()


def test_a_control_socket_that_cannot_be_had_leaves_metrics_and_flushes(namespace: Namespace, ovn: Ovn) -> None:
    ovn.add_switch()
    agent = LabAgent(namespace, ovn, ALWAYS)
    agent.socket.write_text("in the way")
    agent.start()
    assert "exists and is no socket" in agent.log()
    assert agent.socket.read_text() == "in the way"
    ovn.add_router("r1")
    agent.wait_for_metric(lambda s: s.sum("ctctl_flushes_total") == 2, "two flushes")
    assert_stops(agent)


def test_without_a_writable_state_directory_nothing_is_flushed_and_everything_is_served(
    namespace: Namespace, ovn: Ovn
) -> None:
    ovn.add_switch()
    agent = LabAgent(namespace, ovn, ALWAYS)
    agent.state_dir.write_text("in the way")
    with agent:
        assert agent.log_lines("nothing will be flushed", "make state.dir writable")
        ovn.add_router("r1")
        assert verdict_of(agent, "r1")["flush"] == "held(journal_unwritable)"
        assert agent.ctl("flush", "--router", "r1", "--yes")[0] == 4
        assert agent.metrics().sum("ctctl_flushes_total") == 0
        assert_stops(agent)


def test_a_flush_that_a_kill_interrupted_is_told_by_the_next_start_and_not_repeated(
    namespace: Namespace, ovn: Ovn
) -> None:
    ovn.add_router("r1")
    agent = LabAgent(namespace, ovn, ALWAYS)
    agent.state_dir.mkdir()
    (agent.state_dir / "journal.jsonl").write_text(
        '{"start": 1.0}\n{"intent": 1, "at": 2.0, "zone": 12, "owner": "r1"}\n{"outco'
    )
    with agent:
        assert len(agent.wait_for_event("agent", "zone 12 of r1: a flush was under way")) == 1
        assert agent.events("flush") == []
        agent.stop()
        agent.start()
        assert not [e for e in agent.events("agent") if "under way" in e["text"]]


def test_a_socket_that_may_not_be_opened_is_named_with_mode_and_remedy(namespace: Namespace, ovn: Ovn) -> None:
    """As root without the capability that overrides modes, which is how the agent runs in a pod."""
    path = Path(ovn.ovs_db.removeprefix("unix:"))
    user = 64321
    namespace.run(["chown", str(user), str(path)])
    path.chmod(0o700)
    agent = LabAgent(namespace, ovn, ALWAYS)
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    with agent.log_file.open("ab") as log:
        argv = [*drop, *PROGRAM, "agent", "--config", str(agent.config)]
        agent._process = namespace.popen(argv, stdout=log, stderr=log)
    agent.wait_until_serving()
    wait_until(lambda: bool(agent.log_lines("Open_vSwitch lost")), "the complaint", 20)
    (line,) = agent.log_lines("Open_vSwitch lost")
    assert str(path) in line
    assert str(user) in line
    assert agent.get("/-/ready").status == 503
    assert agent.get("/metrics").status == 200
    path.chmod(0o777)
    agent.wait_until_ready(timeout_s=40)
    assert_stops(agent)


Break = Callable[[Ovn], None]


def hang(*names: str) -> Break:
    def stop(ovn: Ovn) -> None:
        for name in names:
            ovn.daemon(name).signal(signal.SIGSTOP)

    return stop


def end(*names: str) -> Break:
    def kill(ovn: Ovn) -> None:
        for name in names:
            ovn.daemon(name).kill()

    return kill


@pytest.mark.parametrize(
    "broken",
    [
        hang("ovsdb-server"),
        hang("ovs-vswitchd", "ovsdb-server"),
        hang("sb", "nb"),
        end("ovsdb-server"),
        end("ovs-vswitchd", "ovn-controller", "sb", "nb"),
    ],
    ids=["local database hangs", "both hang", "OVN hangs", "local database killed", "the rest killed"],
)
def test_an_agent_started_amid_ruins_serves_and_ends_in_time(namespace: Namespace, ovn: Ovn, broken: Break) -> None:
    broken(ovn)
    agent = serving(LabAgent(namespace, ovn, ALWAYS))
    reply = agent.get("/metrics")
    assert (reply.status, reply.seconds < 1.0) == (200, True)
    assert agent.get("/-/healthy").status == 200
    assert agent.ctl("status")[0] == 0
    assert_stops(agent)


def test_a_peer_that_accepts_and_never_answers_is_told(namespace: Namespace, ovn: Ovn) -> None:
    path = namespace.directory / "silent.sock"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        agent = serving(LabAgent(namespace, ovn, {"ovs": {"db": f"unix:{path}"}}))
        wait_until(lambda: bool(agent.log_lines("Open_vSwitch lost", str(path))), "the complaint", 40)
        assert agent.get("/metrics").status == 200
        assert_stops(agent)


def test_rubbish_on_the_command_line_of_a_running_agent_harms_nothing(namespace: Namespace, ovn: Ovn) -> None:
    with LabAgent(namespace, ovn) as agent:
        for data in (
            b"\0" * 100,
            b"[" * 60_000 + b"\n",
            b"{}\n",
            b'{"command": "flush", "zones": [0]}\n',
            b"x" * 99_999,
        ):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(agent.socket))
                try:
                    connection.sendall(data)
                except BrokenPipeError:
                    continue
        assert agent.ctl("status")[0] == 0
        done: subprocess.CompletedProcess[str] = agent.run("flush", "--router", "x\n\x1b[31m", "--yes")
        assert done.returncode == 4
        assert "\x1b" not in done.stdout
        assert_stops(agent)
