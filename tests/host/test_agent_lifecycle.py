"""The agent as a process, on a host without OVS: how it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.lab.agent import LabAgent
from tests.lab.daemon import wait_until
from tests.lab.namespace import Namespace

pytestmark = pytest.mark.host

# The agent's own main, with one source that dies a moment after its start.
DYING = """
import sys
from ctctl.sources.capabilities import CapabilitySource
def die(self):
    raise RuntimeError("planted")
CapabilitySource.run = die
from ctctl.cli.main import main
main()
"""


def test_a_thread_that_dies_takes_the_process_with_it_and_says_which(namespace: Namespace, tmp_path: Path) -> None:
    agent = LabAgent(namespace)
    log = tmp_path / "log"
    with log.open("wb") as file:
        argv = [sys.executable, "-c", DYING, "agent", "--config", agent.config]
        process = namespace.popen(argv, stdout=file, stderr=file)
        code = process.wait(20)
    assert code == 1
    assert "a thread died; the agent ends" in log.read_text()
    assert "thread=capabilities" in log.read_text()
    assert "planted" in log.read_text()


def test_without_ovs_it_serves_counts_and_says_what_is_missing(namespace: Namespace) -> None:
    agent = LabAgent(namespace)
    agent.launch()
    agent.wait_until_serving()
    wait_until(lambda: "no zone map yet" in agent.get("/-/ready").body, "the reason why it is not ready")
    assert agent.get("/-/ready").status == 503
    samples = agent.wait_for_metric(lambda m: m.get("ctctl_conntrack_entries") is not None, "the table's size")
    assert samples.get("ctctl_ovsdb_connected", database="Open_vSwitch") == 0
    code, seconds = agent.stop()
    assert (code, seconds < 5) == (0, True)


def test_a_listen_address_in_use_is_named_and_nothing_is_left_running(namespace: Namespace) -> None:
    agent = LabAgent(namespace)
    agent.launch()
    agent.wait_until_serving()
    second = LabAgent(namespace, name="second")
    settings = yaml.safe_load(second.config.read_text())
    assert settings["web"]["listen_addresses"] == ["127.0.0.1:10779"]
    process = second.launch()
    try:
        assert process.wait(20) == 1
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert "127.0.0.1:10779" in second.log()
    assert "Traceback" not in second.log()
    agent.stop()
