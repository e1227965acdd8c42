"""The local source and the one-shot reader on real ovsdb-servers of both generations."""

from __future__ import annotations

import os
import socket
import stat
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ctctl.clients.clock import now
from ctctl.clients.ovsdb_reader import LocalOvsdbReader
from ctctl.errors import PermissionDeniedError, TimedOutError, UnavailableError
from ctctl.model.events import DatabaseConfirmed, DatabaseLost, LocalViewRead
from ctctl.model.ovs import DatapathType, LocalView
from ctctl.sources.local_ovsdb import LocalOvsdbSource, OvsSettings
from ctctl.wire.jsonrpc import JsonStream, Message, Reply, Request, encode_request
from tests.lab.debian import SUITES, ovn_tree
from tests.lab.ovsdb_server import OvsdbServer, fill_open_vswitch, open_vswitch, ovs_map
from tests.sources.recorder import Recorder

pytestmark = pytest.mark.ovn


@pytest.fixture(params=SUITES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OvsdbServer]:
    with open_vswitch(ovn_tree(request.param), tmp_path) as running:
        yield running


@pytest.fixture
def one_server(tmp_path: Path) -> Iterator[OvsdbServer]:
    with open_vswitch(ovn_tree("bookworm"), tmp_path) as running:
        yield running


def source_for(server: OvsdbServer, recorder: Recorder) -> LocalOvsdbSource:
    return LocalOvsdbSource(OvsSettings(db=server.address), recorder.report, now)


def set_keys(server: OvsdbServer, **keys: str) -> None:
    server.set_external_ids("Bridge", {name.replace("__", "-"): value for name, value in keys.items()})


def keys_of(view: LocalView) -> dict[str, str]:
    return dict(view.bridges[0].zone_keys) if view.bridges else {}


def has_keys(**keys: str) -> Callable[[LocalView], bool]:
    return lambda view: keys_of(view) == keys


def without_moment(view: LocalView) -> LocalView:
    return replace(view, confirmed=now_fixed, session=0)


now_fixed = now()


def test_monitor_and_reader_see_the_same(server: OvsdbServer) -> None:
    set_keys(server, ct__zone__lr1_dnat="3", ovn__nb__cfg="1")
    server.run(
        "ovs-vsctl", "--no-wait", f"--db={server.address}", "add-port", "br-int", "p1", "--",
        "set", "Interface", "p1", "external_ids:iface-id=port1",
    )  # fmt: skip
    recorder = Recorder()
    with recorder.running(source_for(server, recorder)):
        watched = recorder.local_view()
    reader = LocalOvsdbReader(server.address, None, now)
    read = reader.read(5.0)
    reader.close()
    assert without_moment(watched) == without_moment(read)
    assert keys_of(read) == {"lr1_dnat": "3"}
    assert read.local_ports == {"port1"}
    assert read.chassis == "ch1"
    assert read.ovn_remote == "unix:/nowhere"
    assert read.ovs_version == "3.1.0"


def test_a_key_that_appears_changes_and_goes_is_reported_each_time(server: OvsdbServer) -> None:
    recorder = Recorder()
    with recorder.running(source_for(server, recorder)):
        recorder.local_view(has_keys())
        for value in ("3", "4"):
            mark = recorder.mark()
            set_keys(server, ct__zone__lr1_dnat=value)
            recorder.local_view(has_keys(lr1_dnat=value), after=mark)
        mark = recorder.mark()
        set_keys(server)
        recorder.local_view(has_keys(), after=mark)


def test_a_rebuilt_bridge_and_a_new_chassis_name_are_reported(server: OvsdbServer) -> None:
    set_keys(server, ct__zone__a="1")
    vsctl = ("ovs-vsctl", "--no-wait", f"--db={server.address}")
    recorder = Recorder()
    with recorder.running(source_for(server, recorder)):
        recorder.local_view(has_keys(a="1"))
        mark = recorder.mark()
        server.run(*vsctl, "del-br", "br-int")
        recorder.local_view(lambda view: view.bridges == (), after=mark)
        server.run(*vsctl, "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev")
        rebuilt = recorder.local_view(lambda view: bool(view.bridges), after=mark)
        assert (rebuilt.bridges[0].datapath_type, keys_of(rebuilt)) == (DatapathType.USERSPACE, {})
        server.run(*vsctl, "set", "Open_vSwitch", ".", "external_ids:system-id=ch2")
        recorder.local_view(lambda view: view.chassis == "ch2", after=mark)


def test_bridges_of_two_controllers_on_one_host_are_both_seen(one_server: OvsdbServer) -> None:
    vsctl = ("ovs-vsctl", "--no-wait", f"--db={one_server.address}")
    one_server.run(*vsctl, "add-br", "br-two", "--", "set", "Open_vSwitch", ".", "external_ids:ovn-bridge-ch2=br-two")
    set_keys(one_server, ct__zone__a="1")
    recorder = Recorder()
    with recorder.running(source_for(one_server, recorder)):
        view = recorder.local_view(has_keys(a="1"))
        assert [(bridge.name, bridge.zone_keys) for bridge in view.bridges] == [
            ("br-int", {"a": "1"}),
            ("br-two", {"a": "1"}),
        ]


def test_a_row_that_changes_all_the_time_without_its_keys_is_not_news(one_server: OvsdbServer) -> None:
    recorder = Recorder()
    with recorder.running(source_for(one_server, recorder)):
        set_keys(one_server, ct__zone__a="1", ovn__nb__cfg="0")
        recorder.local_view(has_keys(a="1"))
        mark = recorder.mark()
        for i in range(20):
            set_keys(one_server, ct__zone__a="1", ovn__nb__cfg=str(i + 1))
        set_keys(one_server, ct__zone__a="2", ovn__nb__cfg="21")
        recorder.local_view(has_keys(a="2"), after=mark)
        assert len(recorder.of(LocalViewRead, after=mark)) == 1


def test_a_key_is_reported_within_twenty_milliseconds(one_server: OvsdbServer) -> None:
    base = {f"ct-zone-{i}-0f3c9a52-7c1d-4a57-9d11-b58d3f1b6f00_dnat": str(i) for i in range(1, 501)}
    one_server.set_external_ids("Bridge", base)
    recorder, latencies = Recorder(), []
    with recorder.running(source_for(one_server, recorder)):
        recorder.local_view(lambda view: len(keys_of(view)) == 500)
        for i in range(20):
            mark, key = recorder.mark(), f"new{i}"
            operation = {
                "op": "mutate",
                "table": "Bridge",
                "where": [],
                "mutations": [["external_ids", "insert", ovs_map({f"ct-zone-{key}": "900"})]],
            }
            before = time.monotonic()
            one_server.transact(operation)
            after = time.monotonic()
            at, _ = recorder.wait(
                lambda e, key=key: isinstance(e, LocalViewRead) and key in keys_of(e.view), after=mark
            )
            latencies.append(at - after)
            assert at > before
    assert statistics.median(latencies) < 0.02, latencies


def test_what_is_confirmed_is_not_later_than_what_was_seen(one_server: OvsdbServer) -> None:
    recorder = Recorder()
    with recorder.running(source_for(one_server, recorder)):
        recorder.local_view()
        mark = recorder.mark()
        committed = []
        for i in range(10):
            before = now()
            set_keys(one_server, ct__zone__a=str(i + 1))
            committed.append(before)
        recorder.local_view(has_keys(a="10"), after=mark)
        recorder.confirmed(after=recorder.mark())
    # No view without value i may claim to hold at a moment after value i was certainly committed.
    views = [view for view in (event.view for event in recorder.of(LocalViewRead)) if keys_of(view)]
    for view in views:
        value = int(keys_of(view)["a"])
        if value < 10:
            assert view.confirmed.boot_s <= committed[value].boot_s + 0.5  # bounded by the transaction itself


def test_a_stopped_process_does_not_confirm_what_it_missed(one_server: OvsdbServer, tmp_path: Path) -> None:
    """The source runs in a process that is stopped while a key appears; what it then reports must stay honest."""
    script = tmp_path / "watch.py"
    script.write_text(
        "import sys, threading\n"
        "from ctctl.clients.clock import now\n"
        "from ctctl.sources.local_ovsdb import LocalOvsdbSource, OvsSettings\n"
        "def report(e):\n"
        "    view = getattr(e, 'view', None)\n"
        "    if view is not None:\n"
        "        print('view', view.confirmed.boot_s, len(view.bridges[0].zone_keys), flush=True)\n"
        "    elif hasattr(e, 'at'):\n"
        "        print('confirmed', e.at.boot_s, flush=True)\n"
        "LocalOvsdbSource(OvsSettings(db=sys.argv[1]), report, now).run()\n"
    )
    root = Path(__file__).parents[2]
    watcher = subprocess.Popen(
        [sys.executable, str(script), one_server.address],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    try:
        assert watcher.stdout is not None
        lines = (line for line in watcher.stdout if line.startswith(("view ", "confirmed ")))
        assert next(lines).startswith("view ")
        assert next(lines).startswith("confirmed ")
        watcher.send_signal(19)
        stopped = now().boot_s
        set_keys(one_server, ct__zone__other="5")
        set_keys(one_server, ct__zone__other="5", ct__zone__lr1_dnat="3")
        key_committed = now().boot_s
        time.sleep(2.0)
        watcher.send_signal(18)
        while True:
            word, at, *keys = next(lines).split()
            if word == "view" and keys == ["2"]:
                break
            # Whatever is told before the key is seen must not claim to hold after the key was there.
            assert float(at) <= key_committed, (word, float(at) - stopped)
    finally:
        watcher.kill()
        watcher.wait()
        assert watcher.stdout is not None
        watcher.stdout.close()


def test_confirmations_come_about_once_a_second(one_server: OvsdbServer) -> None:
    recorder = Recorder()
    with recorder.running(source_for(one_server, recorder)):
        recorder.local_view()
        time.sleep(4.2)
        assert 4 <= len(recorder.of(DatabaseConfirmed)) <= 7


def test_a_server_restart_is_a_new_session_with_the_whole_view(server: OvsdbServer) -> None:
    set_keys(server, ct__zone__a="1")
    recorder = Recorder()
    with recorder.running(source_for(server, recorder)):
        first = recorder.local_view(has_keys(a="1"))
        mark = recorder.mark()
        server.stop()
        recorder.lost(after=mark)
        server.start()
        again = recorder.local_view(after=mark)
        assert keys_of(again) == {"a": "1"}
        assert again.session == first.session + 1
        recorder.confirmed(after=mark)


def test_rows_that_vanished_while_the_server_was_away_are_gone(server: OvsdbServer) -> None:
    set_keys(server, ct__zone__a="1")
    recorder = Recorder()
    with recorder.running(source_for(server, recorder)):
        recorder.local_view(has_keys(a="1"))
        mark = recorder.mark()
        server.kill()
        server.create()
        server.start()
        empty = recorder.local_view(after=mark)
        assert empty.bridges == ()
        fill_open_vswitch(server)
        recorder.local_view(lambda view: [b.name for b in view.bridges] == ["br-int"], after=mark)


def test_a_socket_that_appears_later_is_found(tmp_path: Path) -> None:
    server = OvsdbServer(ovn_tree("bookworm"), tmp_path, "Open_vSwitch").create()
    recorder = Recorder()
    with recorder.running(source_for(server, recorder)):
        lost = recorder.lost()
        assert str(server.socket) in lost.why
        assert "start ovsdb-server" in lost.why
        assert lost.is_configured
        time.sleep(1.0)
        assert len(recorder.of(DatabaseLost)) == 1
        with server.start():
            recorder.local_view(timeout_s=4.0)


def test_a_stopped_server_is_noticed_and_followed_again(one_server: OvsdbServer) -> None:
    recorder = Recorder()
    with recorder.running(source_for(one_server, recorder)):
        recorder.local_view()
        recorder.confirmed()
        mark, paused = recorder.mark(), time.monotonic()
        one_server.pause()
        recorder.lost("sent nothing for", after=mark, timeout_s=15.0)
        assert time.monotonic() - paused < 15.0
        assert len(recorder.of(DatabaseConfirmed, after=mark)) <= 1
        one_server.resume()
        resumed = recorder.mark()
        recorder.local_view(after=resumed, timeout_s=12.0)


@pytest.mark.skipif(os.geteuid() != 0, reason="root is refused by no mode; another user is needed, and so root")
@pytest.mark.parametrize("is_the_directory", [False, True])
def test_a_refusal_names_mode_owner_and_uid_and_ends_once_the_mode_allows(is_the_directory: bool) -> None:
    # Another user's way to a test's own directory is closed by others of its parents.
    with TemporaryDirectory() as directory, open_vswitch(ovn_tree("bookworm"), Path(directory)) as server:
        closed = Path(directory) if is_the_directory else server.socket
        Path(directory).chmod(0o755)
        server.socket.chmod(0o666)
        script = (
            "import os, sys\n"
            "from ctctl.clients.clock import now\n"
            "from ctctl.clients.ovsdb_reader import LocalOvsdbReader\n"
            "from ctctl.sources.local_ovsdb import LocalOvsdbSource, OvsSettings\n"
            "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "try:\n"
            "    LocalOvsdbReader(sys.argv[1], None, now).read(1.0)\n"
            "except Exception as e:\n"
            "    print(type(e).__name__, e, flush=True)\n"
            "LocalOvsdbSource(OvsSettings(db=sys.argv[1]), lambda e: print(e, flush=True), now).run()\n"
        )
        opened = stat.S_IMODE(closed.stat().st_mode)
        closed.chmod(0o700)
        root = Path(__file__).parents[2]
        watcher = subprocess.Popen(
            [sys.executable, "-P", "-c", script, server.address],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        try:
            assert watcher.stdout is not None
            told = (PermissionDeniedError.__name__, "DatabaseLost", "LocalViewRead")
            lines = (line for line in watcher.stdout if line.startswith(told))
            for expected in told[:2]:
                line = next(lines)
                assert line.startswith(expected)
                mode = f"{closed} has mode {stat.filemode(closed.stat().st_mode)}, owner 0:0"
                for detail in (str(server.socket), "uid 65534", mode, "CAP_DAC_OVERRIDE"):
                    assert detail in line
            closed.chmod(opened)
            assert next(lines).startswith("LocalViewRead")
        finally:
            watcher.kill()
            watcher.wait()
            assert watcher.stdout is not None
            watcher.stdout.close()


def test_reader_survives_restarts_and_recreated_sockets(server: OvsdbServer) -> None:
    reader = LocalOvsdbReader(server.address, None, now)
    set_keys(server, ct__zone__a="1")
    first = reader.read(2.0)
    assert keys_of(first) == {"a": "1"}
    server.restart()
    again = reader.read(2.0)
    assert keys_of(again) == {"a": "1"}
    assert again.session == first.session + 1
    with pytest.raises(UnavailableError):
        server.kill()
        reader.read(2.0)
    server.create()
    server.start()
    assert reader.read(2.0).bridges == ()
    reader.close()


def test_reader_prefers_the_server_that_now_owns_the_path(one_server: OvsdbServer, tmp_path: Path) -> None:
    set_keys(one_server, ct__zone__old="1")
    reader = LocalOvsdbReader(one_server.address, None, now)
    assert keys_of(reader.read(2.0)) == {"old": "1"}
    other_directory = tmp_path / "other"
    other_directory.mkdir()
    with open_vswitch(one_server.tree, other_directory) as other:
        set_keys(other, ct__zone__new="2")
        one_server.socket.unlink()
        other.socket.rename(one_server.socket)
        assert keys_of(reader.read(2.0)) == {"new": "2"}
    reader.close()


def test_source_follows_the_server_that_now_owns_the_path(one_server: OvsdbServer, tmp_path: Path) -> None:
    set_keys(one_server, ct__zone__old="1")
    other_directory = tmp_path / "other"
    other_directory.mkdir()
    recorder = Recorder()
    with open_vswitch(one_server.tree, other_directory) as other, recorder.running(source_for(one_server, recorder)):
        recorder.local_view(has_keys(old="1"))
        set_keys(other, ct__zone__new="2")
        one_server.socket.unlink()
        other.socket.rename(one_server.socket)
        recorder.local_view(has_keys(new="2"), timeout_s=4.0)


def test_reader_never_hangs_on_a_stopped_server(one_server: OvsdbServer) -> None:
    reader = LocalOvsdbReader(one_server.address, None, now)
    reader.read(2.0)
    one_server.pause()
    for _ in range(2):
        before = time.monotonic()
        with pytest.raises(TimedOutError, match=r"no answer within 0\.3 s"):
            reader.read(0.3)
        assert time.monotonic() - before < 0.8
    one_server.resume()
    assert reader.read(2.0).chassis == "ch1"
    reader.close()


def test_sixty_five_thousand_keys_are_read_right(one_server: OvsdbServer) -> None:
    keys = {f"ct-zone-port-{i}": str(i) for i in range(1, 65_001)}
    one_server.set_external_ids("Bridge", keys)
    reader = LocalOvsdbReader(one_server.address, None, now)
    recorder = Recorder()
    with recorder.running(source_for(one_server, recorder)):
        watched = recorder.local_view(timeout_s=30.0)
        read = reader.read(10.0)
    reader.close()
    expected = {key.removeprefix("ct-zone-"): value for key, value in keys.items()}
    assert keys_of(read) == expected
    assert keys_of(watched) == expected


def test_an_answer_comes_after_every_update_committed_before_its_question(server: OvsdbServer) -> None:
    """What dates every view: ovsdb-server tells a session its pending updates before it reads the next request."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(str(server.socket))
        stream.settimeout(10.0)
        messages = JsonStream()

        def receive() -> list[Message]:
            while not (complete := messages.feed(stream.recv(65536))):
                pass
            return complete

        stream.sendall(encode_request("monitor", ["Open_vSwitch", "m", {"Bridge": {"columns": ["external_ids"]}}], 0))
        assert isinstance(receive()[0], Reply)
        for i in range(1, 301):
            set_keys(server, ct__zone__a=str(i))
            stream.sendall(encode_request("echo", [], i))
            told: list[Message] = []
            while not (told and isinstance(told[-1], Reply)):
                told += receive()
            updates = [message for message in told if isinstance(message, Request) and message.method == "update"]
            assert f"'{i}'" in str(updates[-1].params), f"round {i}: the answer came first"
