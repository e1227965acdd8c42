"""What this host can do, asked at start, every ten seconds and whenever the agent doubts it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

from ctctl.errors import UnavailableError
from ctctl.model.capability import Capability, Probe
from ctctl.model.events import Probed
from ctctl.sources.source import Report

INTERVAL_S: Final = 10.0

NamespaceCheck = Callable[[str], bool | None]
"""Whether the unix socket at a path listens in this process's network namespace; None when it cannot be told."""

VswitchdSocket = Callable[[], str]
"""Path of ovs-vswitchd's control socket; raises UnavailableError when there is none to be seen."""


class Prober(Protocol):
    """What this source needs of a conntrack table."""

    def probe(self) -> tuple[Probe, ...]:
        """What the table's keeper can do, asked anew; never raises."""
        ...


class CapabilitySource:
    """Reports `Probed` when an answer changes."""

    name = "capabilities"

    def __init__(
        self,
        reader: Prober,
        vswitchd_socket: VswitchdSocket,
        listens_here: NamespaceCheck,
        report: Report,
    ) -> None:
        self._reader = reader
        self._vswitchd_socket = vswitchd_socket
        self._listens_here = listens_here
        self._report = report
        self._wake = threading.Event()
        self._stop = threading.Event()

    def request(self) -> None:
        """Probe again now; from any thread."""
        self._wake.set()

    def run(self) -> None:
        """Probe until stopped."""
        last: tuple[Probe, ...] = ()
        while not self._stop.is_set():
            self._wake.clear()
            probes = (*self._reader.probe(), self._namespace())
            if probes != last:
                last = probes
                self._report(Probed(probes))
            self._wake.wait(timeout=INTERVAL_S)

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()
        self._wake.set()

    def _namespace(self) -> Probe:
        try:
            path = self._vswitchd_socket()
        except UnavailableError as error:
            return Probe(Capability.SAME_NETWORK_NAMESPACE, None, str(error))
        is_here = self._listens_here(path)
        why = {
            True: f"ovs-vswitchd listens on {path} in this network namespace",
            False: f"ovs-vswitchd's {path} belongs to another network namespace; run ctctl in the host's (hostNetwork)",
            None: f"the kernel does not tell where {path} listens",
        }[is_here]
        return Probe(Capability.SAME_NETWORK_NAMESPACE, is_here, why)
