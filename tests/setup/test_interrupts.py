from __future__ import annotations

import os
import signal

import pytest

from tests.setup.interrupts import deferred


def test_a_signal_waits_until_the_installation_is_over() -> None:
    steps = []
    with pytest.raises(SystemExit) as ended, deferred():
        os.kill(os.getpid(), signal.SIGTERM)
        steps.append("went on")
    assert steps == ["went on"]
    assert ended.value.code == 128 + signal.SIGTERM


def test_afterwards_signals_mean_what_they_meant_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with deferred():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
