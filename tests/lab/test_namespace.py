"""A private namespace is private, behaves like a child process, and is gone with its owner however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.lab.daemon import wait_until
from tests.lab.namespace import Namespace, NamespaceError

pytestmark = pytest.mark.host

OWNER = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what was started in a shell's background
import os, sys, time
from tests.lab.namespace import Namespace
namespace = Namespace("ctctl-owned")
namespace.run(["ip", "netns", "add", "inner"])
namespace.run(["mount", "-t", "tmpfs", "tmpfs", "/mnt"])
namespace.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo"])
child = namespace.popen(["sleep", "1000"])
network = os.readlink(namespace.netns_path)
print(namespace.directory, namespace.pid, child.pid, network, flush=True)
time.sleep(1000)
"""


def _network_of(path: str | Path) -> str:
    return str(Path(path).readlink())


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _networks() -> set[str]:
    """Network namespaces that some process of the machine is in."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(_network_of(link))
        except OSError:
            continue
    return found


@pytest.fixture
def own_mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def test_network_mounts_and_processes_are_private(namespace: Namespace) -> None:
    assert namespace.run(["ip", "-brief", "link"]).stdout.split()[0] == "lo"
    assert len(namespace.run(["ip", "-brief", "link"]).stdout.splitlines()) == 1
    assert namespace.run(["sh", "-c", "ls -d /proc/[0-9]* | wc -l"]).stdout.strip() != ""
    assert "/proc/1 " in namespace.run(["sh", "-c", "echo /proc/[0-9]* ' '"]).stdout
    assert _network_of(namespace.netns_path) != _network_of("/proc/self/ns/net")
    assert namespace.run(["conntrack", "-C"]).stdout.strip() == "0"


def test_mounts_made_inside_are_not_seen_outside(namespace: Namespace, own_mounts: str) -> None:
    namespace.run(["mount", "-t", "tmpfs", "tmpfs", "/mnt"])
    assert " /mnt " in namespace.run(["cat", "/proc/self/mountinfo"]).stdout
    assert Path("/proc/self/mountinfo").read_text() == own_mounts


def test_a_failing_command_raises_with_what_it_said(namespace: Namespace) -> None:
    with pytest.raises(NamespaceError, match=r"answered 3: no such luck"):
        namespace.run(["sh", "-c", "echo no such luck >&2; exit 3"])
    assert namespace.run(["sh", "-c", "exit 3"], check=False).returncode == 3


def test_a_command_gets_input_environment_and_the_working_directory(namespace: Namespace) -> None:
    done = namespace.run(["sh", "-c", "cat; echo $GREETING; pwd"], stdin="in\n", env={"GREETING": "hello"})
    assert done.stdout.splitlines() == ["in", "hello", str(Path.cwd())]


def test_a_command_that_takes_too_long_is_killed(namespace: Namespace) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        namespace.run(["sleep", "1000"], timeout_s=0.1)
    assert namespace.run(["pgrep", "sleep"], check=False).stdout == ""


def test_a_started_program_is_a_child_like_any_other(namespace: Namespace) -> None:
    process = namespace.popen(["sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"], stdout=-1)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    assert process.wait(timeout=5) == 7
    process.stdout.close()


def test_pids_translate_from_inside_to_outside(namespace: Namespace) -> None:
    process = namespace.popen(["sleep", "1000"])
    inner = int(namespace.run(["pgrep", "sleep"]).stdout)
    assert inner != process.pid
    assert namespace.host_pid(inner) == process.pid
    with pytest.raises(ProcessLookupError):
        namespace.host_pid(4_000_000)


def test_a_function_called_inside_is_in_the_network_and_its_threads_too(namespace: Namespace) -> None:
    seen: list[str] = []

    def look() -> str:
        thread = threading.Thread(target=lambda: seen.append(_network_of("/proc/thread-self/ns/net")))
        thread.start()
        thread.join()
        return _network_of("/proc/thread-self/ns/net")

    inside = _network_of(namespace.netns_path)
    assert namespace.call(look) == inside
    assert seen == [inside]
    assert _network_of("/proc/thread-self/ns/net") != inside


def test_an_exception_of_a_function_called_inside_reaches_the_caller(namespace: Namespace) -> None:
    with pytest.raises(ZeroDivisionError):
        namespace.call(divmod, 1, 0)


def test_a_sysctl_is_set_inside_only(namespace: Namespace) -> None:
    outside = Path("/proc/sys/net/ipv4/ip_default_ttl").read_text()
    namespace.sysctl("net.ipv4.ip_default_ttl", 33)
    assert namespace.run(["cat", "/proc/sys/net/ipv4/ip_default_ttl"]).stdout == "33\n"
    assert Path("/proc/sys/net/ipv4/ip_default_ttl").read_text() == outside


def test_orphans_inside_do_not_stay_as_zombies(namespace: Namespace) -> None:
    namespace.run(["sh", "-c", "for i in 1 2 3; do setsid sleep 0.01 & done"])
    wait_until(lambda: namespace.run(["pgrep", "sleep"], check=False).stdout == "", "the orphans to be reaped")


def test_closing_ends_everything(own_mounts: str) -> None:
    namespace = Namespace()
    network = _network_of(namespace.netns_path)
    stopped = namespace.popen(["sleep", "1000"])
    stopped.send_signal(signal.SIGSTOP)
    namespace.run(["sh", "-c", "trap '' TERM HUP INT; setsid sleep 1000 >/dev/null 2>&1 & echo"])
    (namespace.directory / "file").touch()
    namespace.close()
    namespace.close()
    assert stopped.returncode == -signal.SIGKILL
    assert not namespace.directory.exists()
    assert not _is_alive(namespace.pid)
    assert network not in _networks()
    assert Path("/proc/self/mountinfo").read_text() == own_mounts


def test_no_descriptors_or_threads_are_left(namespace: Namespace) -> None:
    def count() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208 (its own descriptor counts too)

    before = count()
    for _ in range(5):
        with Namespace() as another:
            another.run(["true"])
            another.call(os.getpid)
    assert count() == before


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_a_namespace_whose_owner_dies(
    _namespaces_work: None, end: signal.Signals, own_mounts: str
) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert owner.stdout is not None
    directory, first, child, network = owner.stdout.readline().decode().split()
    owner.send_signal(end)
    owner.wait()
    owner.stdout.close()
    begun = time.monotonic()
    wait_until(lambda: not Path(directory).exists(), "the directory to go")
    wait_until(lambda: not _is_alive(int(first)) and not _is_alive(int(child)), "the processes to go")
    wait_until(lambda: network not in _networks(), "the network namespace to go")
    assert Path("/proc/self/mountinfo").read_text() == own_mounts
    print(f"gone {time.monotonic() - begun:.2f} s after {end.name}")


def test_a_namespace_that_cannot_be_made_says_why(_namespaces_work: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.lab.namespace.FIRST_PROCESS", "echo the kernel said no >&2; exit 1")
    before = set(Path(tempfile.gettempdir()).glob("ctctl-refused-*"))
    with pytest.raises(NamespaceError, match="the kernel said no"):
        Namespace("ctctl-refused")
    assert set(Path(tempfile.gettempdir()).glob("ctctl-refused-*")) == before
