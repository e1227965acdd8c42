"""The policy is re-read by content; a broken file keeps the last good one and is complained about once."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ctctl.agent.policy_source import PolicySource
from ctctl.config.flush import FlushSettings
from ctctl.model.events import Event, PolicyChanged, RequestsRead
from ctctl.model.flush import Switch


class Watched:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.events: list[Event] = []
        self.source = PolicySource(path, FlushSettings(), self.events.append)

    def write(self, text: str) -> list[str]:
        self.path.write_text(text)
        return self.look()

    def look(self) -> list[str]:
        """What was reported and logged by one look."""
        before = len(self.events)
        with capture_logs() as logged:
            self.source.look()
        switches = [e.policy.switch.value for e in self.events[before:] if isinstance(e, PolicyChanged)]
        return switches + [entry["log_level"] for entry in logged if entry["log_level"] != "info"]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "ctctl.yaml")


def test_a_changed_policy_is_reported_once(watched: Watched) -> None:
    assert watched.write("flush: {switch: observe}") == ["observe"]
    assert watched.look() == []
    assert watched.write("flush: {switch: enforce}") == ["enforce"]


def test_what_leaves_the_policy_as_it_is_reports_nothing(watched: Watched) -> None:
    assert watched.write("") == []
    assert watched.write("# a comment\nflush: {switch: enforce}\nlog: {level: debug}\n") == []


def test_a_broken_file_keeps_the_last_good_policy_and_is_named_once(watched: Watched) -> None:
    watched.write("flush: {switch: observe}")
    assert watched.write("flush: {switch: observ}") == ["warning"]
    assert watched.look() == []
    assert watched.write("flush: {swich: observe}") == ["warning"]
    assert watched.write("flush: [") == ["warning"]
    assert watched.write("flush: {switch: observe}") == []
    assert watched.write("flush: {switch: observ}") == ["warning"]


def test_an_error_in_another_section_keeps_the_policy_too(watched: Watched) -> None:
    assert watched.write("flush: {switch: observe}\nnonsense: 1\n") == ["warning"]
    assert watched.events == []


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x00", b"[" * 10_000])
def test_rubbish_is_a_broken_file(watched: Watched, content: bytes) -> None:
    watched.path.write_bytes(content)
    assert watched.look() == ["warning"]


def test_a_file_that_vanishes_keeps_the_policy_until_it_is_back(watched: Watched) -> None:
    watched.write("flush: {switch: observe}")
    watched.path.unlink()
    assert watched.look() == ["warning"]
    assert watched.look() == []
    assert watched.write("flush: {switch: dry_run}") == ["dry_run"]


def test_a_config_map_that_is_swapped_by_its_symlink_is_noticed(tmp_path: Path) -> None:
    for version, switch in (("..1", "enforce"), ("..2", "observe")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "ctctl.yaml").write_text(f"flush: {{switch: {switch}}}")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "ctctl.yaml").symlink_to("..data/ctctl.yaml")
    watched = Watched(tmp_path / "ctctl.yaml")
    assert watched.look() == []
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").replace(tmp_path / "..data")
    assert watched.look() == ["observe"]


def test_every_part_of_the_policy_counts(watched: Watched) -> None:
    watched.write("flush: {triggers: {router_created: off}}")
    watched.write("flush: {exclude_routers: [r1]}")
    watched.write("flush: {budget_per_minute: 0}")
    assert len(watched.events) == 3
    assert all(isinstance(e, PolicyChanged) and e.policy.switch is Switch.ENFORCE for e in watched.events)


def test_a_stop_before_the_start_ends_at_once(watched: Watched) -> None:
    watched.source.stop()
    watched.source.run()


def test_a_requests_file_is_read_by_content_also_after_it_was_taken_out_for_a_while(
    watched: Watched, tmp_path: Path
) -> None:
    requests = tmp_path / "requests.yaml"
    requests.write_text("requests:\n  - {id: a, router: r1, not_after: 2099-01-01T00:00:00Z}\n")
    named = f"flush: {{requests_file: {requests}}}"

    def read() -> list[list[str]]:
        return [[r.name for r in e.requests] for e in watched.events if isinstance(e, RequestsRead)]

    watched.write(named)
    watched.look()
    assert read() == [["a"]]
    assert watched.write(named + "  # the same") == []
    requests.write_text("requests: [")
    assert watched.look() == ["warning"]
    assert watched.look() == []
    assert read() == [["a"]]
    watched.write("")
    requests.write_text("requests:\n  - {id: a, router: r1, not_after: 2099-01-01T00:00:00Z}\n")
    watched.write(named)
    assert read() == [["a"], [], ["a"]]
