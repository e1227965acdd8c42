"""Capabilities are asked anew, reported when an answer changes, and a host without OVS is no fault."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ctctl.errors import PermissionDeniedError, UnavailableError
from ctctl.model.capability import Capability, Probe
from ctctl.model.events import Event, Probed
from ctctl.sources.capabilities import CapabilitySource

SOCKET = "/run/openvswitch/ovs-vswitchd.7.ctl"
CONNTRACK = Probe(Capability.CONNTRACK, is_supported=True, why="")


class Host:
    """What the source asks, with the answers of each round; the last round stops the source."""

    def __init__(self, *rounds: tuple[Probe, ...], is_here: bool | None = True, socket_error: str = "") -> None:
        self.rounds = list(rounds) or [(CONNTRACK,)]
        self.is_here = is_here
        self.socket_error = socket_error
        self.asked = 0
        self.events: list[Event] = []
        self.source = CapabilitySource(self, self.vswitchd_socket, lambda path: self.is_here, self.events.append)

    def probe(self) -> tuple[Probe, ...]:
        answer = self.rounds[self.asked]
        self.asked += 1
        if self.asked == len(self.rounds):
            self.source.stop()
        else:
            self.source.request()
        return answer

    def vswitchd_socket(self) -> str:
        if self.socket_error:
            raise PermissionDeniedError(self.socket_error)
        return SOCKET

    def run(self) -> list[tuple[Probe, ...]]:
        self.source.run()
        assert all(isinstance(event, Probed) for event in self.events)
        return [event.probes for event in self.events if isinstance(event, Probed)]


def test_an_answer_is_reported_once_and_again_when_it_changes() -> None:
    none = Probe(Capability.CONNTRACK, is_supported=False, why="no module")
    reported = Host((CONNTRACK,), (CONNTRACK,), (none,), (none,), (CONNTRACK,)).run()
    assert [probes[0].is_supported for probes in reported] == [True, False, True]


@pytest.mark.parametrize(
    ("is_here", "word"), [(True, "in this network namespace"), (False, "hostNetwork"), (None, "does not tell")]
)
def test_the_network_namespace_is_told_with_the_socket_it_was_seen_by(is_here: bool | None, word: str) -> None:
    probe = Host(is_here=is_here).run()[0][-1]
    assert (probe.capability, probe.is_supported) == (Capability.SAME_NETWORK_NAMESPACE, is_here)
    assert SOCKET in probe.why
    assert word in probe.why


def test_without_a_socket_of_vswitchd_the_namespace_is_unknown_and_the_reason_is_kept() -> None:
    probe = Host(socket_error="cannot read the run directory /run/openvswitch").run()[0][-1]
    assert probe.is_supported is None
    assert "cannot read the run directory" in probe.why


def test_only_what_cannot_be_reached_counts_as_unknown() -> None:
    host = Host()

    def broken() -> str:
        raise ValueError("a defect")

    source = CapabilitySource(host, broken, lambda path: True, host.events.append)
    with pytest.raises(ValueError, match="a defect"):
        source.run()
    assert issubclass(PermissionDeniedError, UnavailableError)


def run_in_thread(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_stop_ends_the_wait_between_two_probes() -> None:
    probed = threading.Event()
    host = Host()
    source = CapabilitySource(host, host.vswitchd_socket, lambda path: True, lambda event: probed.set())
    host.rounds = [(CONNTRACK,)] * 2
    host.source = source
    thread = run_in_thread(source.run)
    assert probed.wait(5)
    source.stop()
    thread.join(5)
    assert not thread.is_alive()


def test_a_stop_before_the_start_means_no_probe() -> None:
    host = Host()
    host.source.stop()
    host.source.run()
    assert host.asked == 0
