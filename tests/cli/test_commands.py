"""The commands against an agent that answers through a real control socket: what they print, and how they exit."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ctctl.agent.control import ControlServer
from ctctl.cli import events as events_module
from ctctl.cli.main import run
from ctctl.errors import CtctlError, UnavailableError

HOSTILE = "r1\x1b[31m\nevil\u202e"
ESCAPED = "r1\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}evil\N{REPLACEMENT CHARACTER}"


def zone(number: int, kind: str = "router_dnat", owner: str = "r1", **fields: object) -> dict[str, object]:
    state = {"ownerless": "ownerless", "host": "host", "conflict": "conflicting"}.get(kind, "assigned")
    whole = {"ct_zone": number, "kind": kind, "owner": owner, "alias": "", "entries": 5, "share": 0.5, "limit": None}
    return {**whole, "state": state, **fields}


def flushed(number: int, **fields: object) -> dict[str, object]:
    done = {"ct_zone": number, "owner": "r1", "outcome": "flushed", "strategy": "kernel_filter"}
    return {**done, "duration_seconds": 0.01, "deleted": None, "already_gone": 0, **fields}


def refused(number: int | None, reason: str) -> dict[str, object]:
    return {"ct_zone": number, "owner": "r1", "outcome": "refused", "reason": reason, "why": "because"}


FAILED: dict[str, object] = {"ct_zone": 9, "owner": "", "outcome": "failed", "reason": "permission", "why": "EPERM"}


class Agent:
    """Answers with what the test puts here, and remembers what it was asked."""

    def __init__(self, directory: Path) -> None:
        self.zones: list[dict[str, object]] = []
        self.flush: list[dict[str, object]] = []
        self.records: list[dict[str, object]] = []
        self.status: dict[str, object] = {}
        self.error: CtctlError | None = None
        self.asked: list[Mapping[str, object]] = []
        self.config = directory / "c.yaml"
        self.config.write_text(f"control: {{socket: {directory}/s}}\novs: {{db: unix:{directory}/none/db.sock}}\n")
        names = ("zones", "flush", "status", "events", "pause", "resume")
        self.server = ControlServer(directory / "s", dict.fromkeys(names, self.answer))

    def answer(self, request: Mapping[str, object]) -> object:
        self.asked.append(request)
        if self.error is not None:
            raise self.error
        after = request.get("after") or 0
        answers = {
            "zones": self.zones,
            "flush": self.flush,
            "status": self.status,
            "events": [r for r in self.records if r["number"] > after],  # type: ignore[operator]
        }
        return answers.get(str(request["command"]), {})


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path)
    agent.server.start()
    yield agent
    agent.server.stop()


class Shell:
    """Runs commands in this process, with the agent's configuration."""

    def __init__(self, agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
        self.agent = agent
        self.capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str]:
        code = run([*arguments, "--config", str(self.agent.config)])
        captured = self.capsys.readouterr()
        assert "Traceback" not in captured.err
        self.err = captured.err
        return code, captured.out


@pytest.fixture
def shell(agent: Agent, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(agent, capsys)


def columns(table: str, *names: str) -> list[tuple[str, ...]]:
    head, *rows = table.splitlines()
    spans = []
    for name in names:
        at = head.index(name)
        spans.append(at)
    assert all(name in head for name in names)
    return [tuple(row.split()) for row in rows]


# zones


def test_zones_as_json_are_what_the_agent_knows_with_the_documented_names(agent: Agent, shell: Shell) -> None:
    agent.zones = [zone(12), zone(13, "router_snat")]
    code, out = shell("zones", "-o", "json")
    assert (code, json.loads(out)) == (0, agent.zones)
    assert list(json.loads(out)[0]) == ["ct_zone", "kind", "owner", "alias", "entries", "share", "limit", "state"]


def test_zones_as_a_table_have_one_line_each_and_nothing_is_cut(agent: Agent, shell: Shell) -> None:
    long = "neutron-" + "x" * 200
    agent.zones = [zone(12, owner=long, limit=0), zone(13, entries=None, share=None)]
    code, out = shell("zones")
    assert code == 0
    assert columns(out, "ct_zone", "kind", "owner", "entries", "share", "limit", "state") == [
        ("12", "router_dnat", long, "5", "50.0%", "0", "assigned"),
        ("13", "router_dnat", "r1", "-", "-", "-", "assigned"),
    ]


def test_zones_of_a_router_are_found_by_name_and_alias(agent: Agent, shell: Shell) -> None:
    agent.zones = [
        zone(1, owner="a", alias="office"),
        zone(2, owner="b"),
        zone(3, "port", owner="a"),
        zone(4, "switch_dnat", owner="b"),
        zone(5, owner="", alias=""),
    ]

    def shown(*arguments: str) -> list[int]:
        return [z["ct_zone"] for z in json.loads(shell("zones", "-o", "json", *arguments)[1])]

    assert shown("--router", "office") == [1]
    assert shown("--router", "a", "--router", "b") == [1, 2]
    assert shown("--router", "") == []
    assert shown("--router", "nobody") == []


ORPHANS = [
    ([], 0, []),
    ([zone(1)], 0, []),
    ([zone(0, "host", ""), zone(7, "foreign", ""), zone(8, "conflict", "")], 0, []),
    ([zone(9, "ownerless", "", entries=0)], 0, []),
    ([zone(1), zone(9, "ownerless", "")], 3, [9]),
]


@pytest.mark.parametrize(("zones", "code", "orphans"), ORPHANS)
def test_check_exits_with_three_when_zones_without_owner_hold_entries(
    agent: Agent, shell: Shell, zones: list[dict[str, object]], code: int, orphans: list[int]
) -> None:
    agent.zones = zones
    assert shell("zones", "--check", "-o", "json")[0] == code
    assert shell("zones", "--check", "--router", "none", "-o", "json")[0] == code
    listed = shell("zones", "--orphans", "-o", "json")
    assert (listed[0], [z["ct_zone"] for z in json.loads(listed[1])]) == (0, orphans)


def test_a_name_with_escape_sequences_steers_no_terminal(agent: Agent, shell: Shell) -> None:
    agent.zones = [zone(12, owner=HOSTILE, alias=HOSTILE)]
    agent.records = [{"number": 1, "time": 1.0, "kind": "router", "text": HOSTILE}]
    agent.flush = [flushed(12, owner=HOSTILE), {**refused(13, "observe"), "why": HOSTILE}]
    agent.status = {"chassis": HOSTILE, "databases": {HOSTILE: HOSTILE}}
    for arguments in (["zones"], ["events"], ["flush", "--zone", "12", "--yes"], ["status"]):
        _, out = shell(*arguments)
        assert ESCAPED in out
        assert all(line.isprintable() for line in out.splitlines())
    _, out = shell("zones", "-o", "json")
    assert json.loads(out)[0]["owner"] == HOSTILE
    assert out.isascii()


def test_markup_in_a_name_is_text(agent: Agent, shell: Shell) -> None:
    agent.zones = [zone(12, owner="[red]r1[/red] :warning:")]
    assert "[red]r1[/red] :warning:" in shell("zones")[1]


# flush


@pytest.mark.parametrize(
    ("reports", "is_dry_run", "code"),
    [
        ([flushed(12), flushed(13)], False, 0),
        ([refused(12, "dry_run")], True, 0),
        ([refused(12, "dry_run")], False, 4),
        ([refused(12, "dry_run"), refused(13, "shared_zone")], True, 4),
        ([flushed(12), refused(13, "shared_zone")], False, 4),
        ([refused(None, "unowned_zone")], False, 4),
        ([flushed(12), FAILED], False, 1),
        ([FAILED, refused(13, "shared_zone")], False, 1),
    ],
)
def test_the_exit_code_of_a_flush_is_that_of_its_worst_zone(
    agent: Agent, shell: Shell, reports: list[dict[str, object]], is_dry_run: bool, code: int
) -> None:
    agent.flush = reports
    how = "--dry-run" if is_dry_run else "--yes"
    assert shell("flush", "--zone", "12", how)[0] == code
    as_json = shell("flush", "--zone", "12", how, "-o", "json")
    assert (as_json[0], json.loads(as_json[1])) == (code, reports)


def test_what_is_named_is_what_is_asked_for_and_nothing_else(agent: Agent, shell: Shell) -> None:
    shell("flush", "--zone", "13", "--zone", "12", "--zone", "13", "--router", "r1", "--router", "r 2", "--yes")
    assert agent.asked == [
        {"command": "flush", "zones": [13, 12], "routers": ["r1", "r 2"], "dry_run": False},
    ]
    shell("flush", "--zone", "5", "--dry-run")
    assert agent.asked[-1] == {"command": "flush", "zones": [5], "routers": [], "dry_run": True}


def test_without_a_terminal_nothing_is_asked_and_nothing_is_sent(agent: Agent, shell: Shell) -> None:
    assert shell("flush", "--zone", "12")[0] == 2
    assert "refusing to ask without a terminal; look with --dry-run, then add --yes" in shell.err
    assert agent.asked == []


def on_terminal(agent: Agent, arguments: Sequence[str], answer: bytes) -> tuple[int, str]:
    """Run a command on a terminal of its own and type an answer to what it asks."""
    near, far = pty.openpty()
    argv = [sys.executable, "-m", "ctctl", *arguments, "--config", str(agent.config)]
    process = subprocess.Popen(argv, stdin=far, stdout=far, stderr=far, env={**os.environ, "TERM": "xterm-256color"})
    os.close(far)
    shown = b""
    deadline = time.monotonic() + 30
    try:
        while time.monotonic() < deadline:
            readable, _, _ = select.select([near], [], [], 0.2)
            try:
                chunk = os.read(near, 65536) if readable else None
            except OSError:  # the far end is closed
                break
            if chunk == b"":
                break
            shown += chunk or b""
            if answer and b"[y/N]" in shown:
                os.write(near, answer)
                answer = b""
        return process.wait(30), shown.decode()
    finally:
        process.kill()
        process.wait()
        os.close(near)


def test_on_a_terminal_a_flush_shows_what_would_go_and_asks(agent: Agent) -> None:
    agent.zones = [zone(12, owner=HOSTILE), zone(13, owner="other")]
    agent.flush = [flushed(12)]
    code, shown = on_terminal(agent, ["flush", "--zone", "12"], b"n\n")
    assert code == 1
    assert f"zone 12 (router_dnat) of {ESCAPED}: 5 entries" in shown
    assert "zone 13" not in shown
    assert [r["command"] for r in agent.asked] == ["zones"]
    code, _ = on_terminal(agent, ["flush", "--zone", "12"], b"y\n")
    assert code == 0
    assert [r["command"] for r in agent.asked] == ["zones", "zones", "flush"]


@pytest.mark.parametrize("answer", [b"\x04", b"\n", b"maybe\nn\n"])
def test_anything_but_yes_is_no(agent: Agent, answer: bytes) -> None:
    assert on_terminal(agent, ["flush", "--zone", "12"], answer)[0] == 1
    assert "flush" not in [r["command"] for r in agent.asked]


def test_colours_are_for_terminals_without_no_color(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.zones = [zone(9, "ownerless", "")]
    assert "\x1b[" in on_terminal(agent, ["zones"], b"")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[33" not in on_terminal(agent, ["zones"], b"")[1]


def test_without_an_agent_a_router_cannot_be_flushed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = Agent(tmp_path)
    assert run(["flush", "--router", "r1", "--yes", "--config", str(agent.config)]) == 1
    assert "without an agent nobody knows which zones are a router's" in capsys.readouterr().err


# status, events, pause


def test_status_is_one_object_and_a_table_of_words(agent: Agent, shell: Shell) -> None:
    agent.status = {
        "ready": True,
        "brake": False,
        "chassis": "",
        "entries": None,
        "capabilities": {"a": None, "b": True},
    }
    code, out = shell("status", "-o", "json")
    assert (code, json.loads(out)) == (0, agent.status)
    _, table = shell("status")
    rows = dict(line.split(maxsplit=1) for line in table.splitlines()[1:])
    assert rows == {"ready": "yes", "brake": "no", "chassis": "-", "entries": "-", "capabilities": "a -, b yes"}


def record(number: int) -> dict[str, object]:
    return {"number": number, "time": 1_800_000_000.5, "kind": "verdict", "text": f"event {number}", "zones": [12]}


def test_events_are_oldest_first_one_line_each(agent: Agent, shell: Shell) -> None:
    agent.records = [record(1), record(2)]
    code, out = shell("events")
    assert code == 0
    assert [line.split()[2:] for line in out.splitlines()] == [["verdict", "event", "1"], ["verdict", "event", "2"]]
    assert json.loads(shell("events", "-o", "json")[1]) == agent.records


@pytest.mark.parametrize("output", ["table", "json"])
def test_following_shows_each_event_once_however_long_nothing_happens(
    agent: Agent, shell: Shell, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    agent.records = [record(1)]
    arriving = [[], [], [record(2), record(3)], [], [record(4)], []]

    def sleep(seconds: float) -> None:
        if not arriving:
            raise UnavailableError("enough")
        agent.records += arriving.pop(0)

    monkeypatch.setattr(events_module.time, "sleep", sleep)
    code, out = shell("events", "--follow", "-o", output)
    assert code == 1
    lines = out.splitlines()
    if output == "json":
        assert [json.loads(line)["number"] for line in lines] == [1, 2, 3, 4]
    else:
        assert [int(line.split()[-1]) for line in lines] == [1, 2, 3, 4]


def test_pause_and_resume_ask_for_just_that(agent: Agent, shell: Shell) -> None:
    assert shell("pause") == (0, "paused: nothing is flushed until `ctctl resume`\n")
    assert shell("resume") == (0, "resumed\n")
    assert [r["command"] for r in agent.asked] == ["pause", "resume"]


@pytest.mark.parametrize("arguments", [["zones"], ["flush", "--zone", "5", "--yes"], ["status"], ["events"], ["pause"]])
def test_an_agent_that_cannot_is_quoted_and_the_host_is_not_asked_instead(
    agent: Agent, shell: Shell, arguments: list[str]
) -> None:
    agent.error = UnavailableError("the agent is starting", remedy="try again in a second")
    code, out = shell(*arguments)
    assert (code, out, shell.err) == (1, "", "ctctl: the agent is starting; try again in a second\n")
