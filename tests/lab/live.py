"""Live means live: real sockets whose traffic runs through the kernel's conntrack table, in a chosen zone.

Each connection is watched in two ways. Data must keep being echoed; and its conntrack entry must be the one it began
with: nft gives each entry, when it is created, a serial number as its mark, so an entry that was deleted and made
anew by the next packet is told apart. TCP is tracked strictly (no picking up in mid-stream, invalid packets are
dropped), so a TCP connection whose entry is deleted really ends, as it does behind OVN's stateful rules.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from tests.lab import table
from tests.lab.entries import Entry
from tests.lab.namespace import Namespace

TRAFFIC = Path(__file__).with_name("traffic.py")
ANSWER_TIMEOUT_S = 10.0
ECHO_TIMEOUT_S = 2.0

RULES = """
table inet {name} {{
  chain output {{
    type filter hook output priority raw;
    {family} saddr {address} {family} daddr {address} ct zone set {zone}
  }}
  chain serial {{
    type filter hook output priority filter;
    {family} saddr {address} {family} daddr {address} ct state invalid drop
    {family} saddr {address} {family} daddr {address} ct mark 0 ct mark set numgen inc mod 1000000000 offset {first}
  }}
}}
"""


class ConversationsEndedError(Exception):
    """The process that holds the sockets is gone, so nothing can be said about the connections."""


@dataclass(frozen=True, slots=True)
class LiveConnection:
    """One conversation, as its conntrack entry shows it, and the entry's serial number."""

    entry: Entry
    serial: int

    def __str__(self) -> str:
        return f"{self.entry.proto} {self.entry.src}:{self.entry.sport} → {self.entry.dport} in zone {self.entry.zone}"


class LiveConnections:
    """Conversations over loopback in one zone, going on from the constructor to `stop`.

    Several may exist in a namespace, one per zone and family; IPv4 uses 127.a.b.1 where zone = 256·a + b.

    Raises:
        NamespaceError: nft or the kernel refused the rules.
        TimeoutError: the conversations did not come about.
    """

    def __init__(
        self, namespace: Namespace, zone: int, *, tcp: int = 4, udp: int = 2, family: Literal[4, 6] = 4
    ) -> None:
        self.namespace = namespace
        self.zone = zone
        high, low = divmod(zone, 256)
        address = f"127.{high}.{low}.1" if family == 4 else f"fd00::{zone:x}:1"
        self._table = f"live_{zone}_{family}"
        if family == 6:
            namespace.run(["ip", "address", "replace", f"{address}/128", "dev", "lo", "nodad"])
        rules = RULES.format(
            name=self._table,
            address=address,
            zone=zone,
            family="ip" if family == 4 else "ip6",
            # Serials of another instance in the same zone, later, must not be taken for these.
            first=time.monotonic_ns() % 1_000_000_000 + 1,
        )
        namespace.run(["nft", "-f", "-"], stdin=rules)
        # After the rules: they load the module that has the setting.
        namespace.sysctl("net.netfilter.nf_conntrack_tcp_loose", 0)
        self._process = namespace.popen(
            [sys.executable, "-I", TRAFFIC, address, str(tcp), str(udp)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            self.connections = [self._connection(address, *names) for names in self._answer()]
        except BaseException:
            self.stop()
            raise

    def _connection(self, address: str, proto: Literal["tcp", "udp"], sport: int, dport: int) -> LiveConnection:
        entry = Entry(zone=self.zone, proto=proto, src=address, dst=address, sport=sport, dport=dport)
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while (found := table.look_up(self.namespace, entry)) is None or not found.mark:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no conntrack entry for {proto} {address}:{sport} in zone {self.zone}")
            time.sleep(0.005)
        return LiveConnection(entry, found.mark)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], ANSWER_TIMEOUT_S)[0]:
            raise TimeoutError(f"the conversations in zone {self.zone} gave no answer")
        line = self._process.stdout.readline()
        if not line:
            raise ConversationsEndedError(f"the conversations in zone {self.zone} ended with {self._process.wait()}")
        return json.loads(line)

    def echoes(self) -> list[int]:
        """Messages echoed so far, in the order of `connections`.

        Raises:
            ConversationsEndedError: the process that holds the sockets is gone.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer tells why
            os.write(self._process.stdin.fileno(), b"\n")
        answer: list[int] = self._answer()
        return answer

    def _fault_of_entry(self, connection: LiveConnection) -> str | None:
        found = table.look_up(self.namespace, connection.entry)
        if found is None:
            return f"{connection}: its conntrack entry is gone"
        if found.mark != connection.serial:
            return f"{connection}: its conntrack entry was deleted and made anew"
        return None

    def broken(self) -> list[str]:
        """What is wrong with each connection that is not whole now; empty when all are.

        Whole is: two further messages are echoed from now on, and the entry is the one it began with.

        Raises:
            ConversationsEndedError: the process that holds the sockets is gone.
        """
        begun = echoed = self.echoes()
        deadline = time.monotonic() + ECHO_TIMEOUT_S
        while True:
            faults = [self._fault_of_entry(connection) for connection in self.connections]
            silent = [now < before + 2 for before, now in zip(begun, echoed, strict=True)]
            is_waited_for = (is_silent and fault is None for is_silent, fault in zip(silent, faults, strict=True))
            if not any(is_waited_for) or time.monotonic() > deadline:
                break
            time.sleep(0.01)
            echoed = self.echoes()
        for index, connection in enumerate(self.connections):
            if faults[index] is None and silent[index]:
                faults[index] = f"{connection}: nothing echoed for {ECHO_TIMEOUT_S:g} s"
        return [fault for fault in faults if fault is not None]

    def assert_all_alive(self) -> None:
        """Fail, naming each connection, unless every one is whole."""
        faults = self.broken()
        assert not faults, "live connections were harmed:\n" + "\n".join(faults)

    def stop(self) -> None:
        """End the conversations and take the rules away. May be called twice."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.stdin.closed:
            return
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=ANSWER_TIMEOUT_S)
        self.namespace.run(["nft", "delete", "table", "inet", self._table])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
