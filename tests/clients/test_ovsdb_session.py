"""When a session reads, confirms and asks: a replica by hand, and time as the test says."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ctctl.clients.ovsdb_session import Content, ReplicaSession, Timing
from ctctl.errors import TimedOutError
from ctctl.model.instant import Instant
from ctctl.wire.ovsdb import Row

TIMING = Timing(ask_interval_s=1.0, answer_timeout_s=5.0, longest_pause_s=2.0)


class HandReplica:
    """Does what the test says, on the test's clock."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.address = "unix:/hand"
        self.confirmed: Instant | None = None
        self.asked = scene.now()
        self.is_idle = False
        self.changed: set[str] = set()
        self.silent_s = 0.0
        self.waits: list[float] = []

    def step(self, wait_s: float, wake_fd: int) -> None:
        self.waits.append(wait_s)

    def silence_s(self, now: Instant) -> float:
        return self.silent_s

    def take_changed(self) -> frozenset[str]:
        changed, self.changed = frozenset(self.changed), set()
        return changed

    def rows(self, table: str) -> list[Row]:
        return [{"read": self._scene.time_s}]

    def ask(self) -> None:
        if self.is_idle:
            self.asked = self._scene.now()
            self.is_idle = False
            self._scene.told.append("asked")

    def answer(self) -> None:
        self.confirmed = self.asked
        self.is_idle = True


class Scene:
    def __init__(self) -> None:
        self.time_s = 100.0
        self.cpu_s = 0.0
        self.read_costs_s = 0.0
        self.told: list[object] = []
        self.replica = HandReplica(self)
        self.session = ReplicaSession(
            self.replica,  # type: ignore[arg-type]  # a stand-in
            7,
            TIMING,
            self.now,
            self._content,
            lambda at: self.told.append(("confirmed", at.boot_s)),
            lambda: self.cpu_s,
        )

    def now(self) -> Instant:
        return Instant(boot_s=self.time_s, wall_s=0.0)

    def _content(self, content: Content) -> None:
        assert content.session == 7
        self.cpu_s += self.read_costs_s
        self.time_s += self.read_costs_s
        self.told.append(("content", sorted(content.tables), content.confirmed.boot_s))

    def turn(self, *changed: str, after_s: float = 0.0) -> list[object]:
        """One turn, `after_s` seconds later, in which these tables changed; what was told in it."""
        self.time_s += after_s
        self.replica.changed |= set(changed)
        self.told.clear()
        self.session.turn(0)
        return list(self.told)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_nothing_is_told_before_the_replica_is_whole(scene: Scene) -> None:
    assert scene.turn("Bridge") == []


def test_the_first_content_is_told_before_it_is_confirmed(scene: Scene) -> None:
    scene.replica.answer()
    assert scene.turn("Bridge", "Interface") == [("content", ["Bridge", "Interface"], 100.0), ("confirmed", 100.0)]


def test_a_change_brings_every_table_again(scene: Scene) -> None:
    scene.replica.answer()
    scene.turn("Bridge", "Interface")
    assert scene.turn("Bridge")[0] == ("content", ["Bridge", "Interface"], 100.0)


def test_content_is_dated_by_the_last_answered_question_however_late_it_comes(scene: Scene) -> None:
    scene.replica.answer()
    scene.turn("Bridge")
    assert scene.turn("Bridge", after_s=60.0)[0] == ("content", ["Bridge"], 100.0)


def test_it_asks_once_per_interval_and_confirms_when_asked(scene: Scene) -> None:
    scene.replica.answer()
    scene.turn("Bridge")
    assert scene.turn(after_s=0.9) == []
    assert scene.turn(after_s=0.1) == ["asked"]
    assert scene.turn(after_s=0.1) == []
    scene.replica.answer()
    assert scene.turn(after_s=0.1) == [("confirmed", 101.0)]


def test_it_asks_sooner_after_a_change(scene: Scene) -> None:
    scene.replica.answer()
    scene.turn("Bridge")
    assert scene.turn("Bridge", after_s=0.1) == [("content", ["Bridge"], 100.0)]
    assert scene.turn("Bridge", after_s=0.15)[-1] == "asked"


def test_changes_without_pause_are_read_together_and_none_is_confirmed_unread(scene: Scene) -> None:
    scene.replica.answer()
    scene.read_costs_s = 0.1
    scene.turn("Bridge")
    told: list[object] = []
    for _ in range(50):
        scene.replica.answer()
        told += scene.turn("Bridge", after_s=0.1)
    contents = [item for item in told if isinstance(item, tuple) and item[0] == "content"]
    # 5 s of changes and 0.1 s for each reading, of which a third may be spent.
    assert 16 <= len(contents) <= 26
    for earlier, later in pairwise(told):
        if isinstance(later, tuple) and later[0] == "confirmed":
            assert isinstance(earlier, tuple)
            assert earlier[0] == "content"


def test_a_change_that_waits_is_read_without_further_news(scene: Scene) -> None:
    scene.replica.answer()
    scene.read_costs_s = 0.1
    scene.turn("Bridge")
    assert scene.turn("Bridge") == []
    assert scene.turn() == []
    assert scene.replica.waits[-1] == pytest.approx(0.2)
    assert scene.turn(after_s=0.21)[0] == ("content", ["Bridge"], 100.0)


def test_a_server_that_owes_an_answer_for_too_long_ends_the_session(scene: Scene) -> None:
    scene.replica.silent_s = 5.0
    scene.turn()
    scene.replica.silent_s = 5.1
    with pytest.raises(TimedOutError, match="unix:/hand sent nothing for 5 s"):
        scene.turn()


def test_a_turn_never_waits_longer_than_its_caller_may(scene: Scene) -> None:
    scene.turn()
    scene.replica.answer()
    scene.turn("Bridge")
    scene.turn(after_s=0.7)
    scene.turn(after_s=50.0)
    assert scene.replica.waits == pytest.approx([1.0, 1.0, 0.3, 0.0])
