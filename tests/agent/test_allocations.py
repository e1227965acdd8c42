"""What ovn-controller says about a zone, asked over real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ctctl.agent.allocations import claimed_in_memory
from ctctl.model.flush import Reason
from ctctl.model.ids import ZoneId
from tests.clients.unixctl_daemon import TurningDaemon

ZONE = ZoneId(12)


@contextmanager
def controllers(rundir: Path, *answers: str) -> Iterator[None]:
    with ExitStack() as stack:
        for number, answer in enumerate(answers, 100):
            replies = {"ct-zone-list": answer}
            daemon = TurningDaemon(rundir, "ovn-controller", number, replies=replies, with_pidfile=False)
            stack.enter_context(daemon)
        yield


def left_behind(path: Path) -> None:
    """The socket of a daemon that was killed."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (("r1_dnat 13\n",), None),
        (("r1_dnat 13\n", "r2_dnat 14\n"), None),
        (("r1_dnat 13\n", "r2_dnat 12\n"), Reason.OWNER_CHANGED),
        (("no zone list\n",), Reason.CANNOT_CONFIRM),
        ((), Reason.CANNOT_CONFIRM),
    ],
)
def test_every_controller_is_asked(tmp_path: Path, answers: tuple[str, ...], reason: Reason | None) -> None:
    with controllers(tmp_path, *answers):
        refusal = claimed_in_memory(tmp_path, ZONE)
    assert (None if refusal is None else refusal.reason) is reason


def test_a_socket_left_behind_does_not_count_beside_a_controller_that_answers(tmp_path: Path) -> None:
    left_behind(tmp_path / "ovn-controller.99.ctl")
    with controllers(tmp_path, "r1_dnat 13\n"):
        assert claimed_in_memory(tmp_path, ZONE) is None


def test_alone_it_means_that_nobody_could_be_asked(tmp_path: Path) -> None:
    left_behind(tmp_path / "ovn-controller.99.ctl")
    refusal = claimed_in_memory(tmp_path, ZONE)
    assert refusal is not None
    assert refusal.reason is Reason.CANNOT_CONFIRM
