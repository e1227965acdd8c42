"""One flusher per network namespace; the lock goes with its holder."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ctctl.clients import flusher_lock as module
from ctctl.clients.flusher_lock import FlusherLock


@pytest.fixture(autouse=True)
def _name_of_this_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A name of its own: this network namespace may have a real flusher."""
    monkeypatch.setattr(module, "_NAME", f"\0ctctl-test-{id(monkeypatch)}")
    yield  # the name is taken back by monkeypatch


def test_only_one_holds_the_lock_at_a_time() -> None:
    first, second = FlusherLock(), FlusherLock()
    assert first.acquire()
    assert not second.acquire()
    assert first.acquire()
    first.release()
    assert second.acquire()
    second.release()


def test_releasing_what_is_not_held_is_nothing() -> None:
    lock = FlusherLock()
    lock.release()
    assert lock.acquire()
    lock.release()
    lock.release()


def test_the_lock_goes_with_the_process_that_holds_it() -> None:
    program = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.bind('\\0'+sys.argv[1]); print('held', flush=True);"
        "sys.stdin.read()"
    )
    argv = [sys.executable, "-I", "-c", program, module._NAME[1:]]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        lock = FlusherLock()
        assert not lock.acquire()
        holder.kill()
        holder.wait()
        assert lock.acquire()
        lock.release()


def test_an_error_that_is_not_somebody_elses_lock_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NAME", "\0" + "x" * 200)
    with pytest.raises(OSError, match="too long"):
        FlusherLock().acquire()


def test_a_failed_attempt_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[socket.socket] = []
    make = socket.socket

    def counting(*given: int) -> socket.socket:
        opened.append(make(*given))
        return opened[-1]

    first = FlusherLock()
    first.acquire()
    monkeypatch.setattr(module.socket, "socket", counting)
    assert not FlusherLock().acquire()
    assert [s.fileno() for s in opened] == [-1]
    first.release()
