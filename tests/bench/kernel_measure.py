"""What is measured on one table: counting and flushing, each beside its floor and its alternatives."""

from __future__ import annotations

import contextlib
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ctctl.backends.kernel import KernelDeleter, KernelReader
from ctctl.backends.kernel.costs import FlushCosts
from ctctl.clients.clock import now
from ctctl.clients.netlink import NETLINK_NETFILTER, RECEIVE_BYTES, NetlinkSocket
from ctctl.model.conntrack import EntryKey
from ctctl.model.counts import Keep
from ctctl.model.flush import FlushFailure, FlushResult, Strategy
from ctctl.model.ids import FlushableZoneId, ZoneId
from ctctl.wire import conntrack
from ctctl.wire.conntrack_delete import entry_delete, guarded_zone_flush
from tests.bench import kernel_entries
from tests.kernel_table import _open

FLOOR: Final = "receive only, without parsing"
COUNT: Final = "**count per zone**"
KEEP: Final = "count, keeping 2 % of the zones whole"
KEEP_SAMPLES: Final = "count, keeping those and 16 samples of each other zone"
DETAIL: Final = "count with protocols and TCP states"
LIST: Final = "`conntrack -L` to /dev/null, both families"
BARE: Final = "1 zone: the bare guarded request"
FLUSH: Final = "**1 zone: flush**"
TOOL: Final = "1 zone: `conntrack -D -w` (IPv4 only)"
OLD_OVS: Final = "1 zone: dump, then delete one by one (as OVS < 3.4)"
FLUSH_MANY: Final = "**50 zones: flush**"
ONE_BY_ONE: Final = "entries deleted one by one, each"
PIPELINED: Final = "**entries deleted pipelined, each**"
MANY: Final = range(101, 151)

RSS_PROGRAM: Final = """
import re
from ctctl.backends.kernel import KernelReader
from ctctl.clients.clock import now
KernelReader(now).count(lambda: False)
print(int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) // 1024)
"""
"""Not ru_maxrss: that survives exec() and so would be this process's own."""


@dataclass(slots=True)
class Series:
    """Seconds by what was measured; `once`: what was measured a single time because it takes long."""

    entries: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    once: set[str] = field(default_factory=set)
    counting_rss_mib: int = 0
    crossover_chosen: int = 0
    crossover_measured: float = 0.0

    def time(self, name: str, function: Callable[[], object], *, per: int = 1, once: bool = False) -> None:
        """Run it and note how long it took, divided by `per`."""
        gc.collect()
        begun = time.perf_counter()
        function()
        self.seconds.setdefault(name, []).append((time.perf_counter() - begun) / per)
        if once:
            self.once.add(name)

    def median(self, name: str) -> float:
        """The median, in seconds."""
        return statistics.median(self.seconds[name])


def zone(number: int) -> FlushableZoneId:
    """A number as the backend takes it."""
    return FlushableZoneId(ZoneId(number))


def receive_only() -> None:
    """The kernel's work and the copy, without looking at a byte but the block's first and last type."""
    buffer = bytearray(RECEIVE_BYTES)
    with NetlinkSocket(NETLINK_NETFILTER, timeout_s=30) as kernel:
        kernel.send(conntrack.dump_request(kernel.next_seq()))
        while True:
            length = kernel.receive_into(buffer)
            if buffer[length - 16 : length - 14] == b"\x03\0":
                return


def count(keep: Keep = Keep()) -> None:  # noqa: B008 (frozen)
    """A pass as the agent makes it."""
    KernelReader(now).count(lambda: False, keep)


def conntrack_tool(*words: str) -> None:
    """The distribution's program, its output thrown away."""
    subprocess.run(["conntrack", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def list_everything() -> None:
    """Both families, as an operator would to count by hand."""
    conntrack_tool("-L", "-f", "ipv4")
    conntrack_tool("-L", "-f", "ipv6")


def bare_flush(number: int) -> None:
    """The request alone, without probe or check."""
    with NetlinkSocket(NETLINK_NETFILTER, timeout_s=30) as kernel:
        seq = kernel.next_seq()
        kernel.send(guarded_zone_flush(seq, zone(number)))
        list(kernel.answers(seq, "flushing"))


def flush(costs: FlushCosts, numbers: Sequence[int]) -> Strategy:
    """As the agent does it; how the last zone was flushed.

    Raises:
        RuntimeError: it did not work.
    """
    outcomes = KernelDeleter(now, costs=costs).flush_zones([zone(number) for number in numbers])
    for outcome in outcomes:
        if isinstance(outcome, FlushFailure):
            raise RuntimeError(outcome.why)  # noqa: TRY004 (an outcome is a value, not a wrong argument)
    assert isinstance(outcomes[-1], FlushResult)
    return outcomes[-1].strategy


def keys_of(*numbers: int) -> list[EntryKey]:
    """Every entry of some zones, by name."""
    keep = Keep(zones=frozenset(ZoneId(number) for number in numbers))
    seen = KernelReader(now).count(lambda: False, keep).sightings
    return [EntryKey(zone(s.zone), s.family, s.tuple_orig, s.entry_id) for s in seen]


def delete_one_by_one(keys: Sequence[EntryKey]) -> None:
    """A request, its answer, the next request."""
    with NetlinkSocket(NETLINK_NETFILTER, timeout_s=30) as kernel:
        for key in keys:
            seq = kernel.next_seq()
            kernel.send(entry_delete(seq, key, wants_ack=True))
            list(kernel.answers(seq, "deleting"))


def refill(entries: int, numbers: Sequence[int]) -> None:
    """Put back what was deleted from whole zones."""
    with contextlib.closing(_open()) as opened:
        kernel_entries.send_all(opened, kernel_entries.creations(entries, set(numbers)))


def measure(entries: int, rounds: int) -> Series:
    """Everything about one table, which is made first in the calling thread's (private) network namespace."""
    series = Series(entries)
    kernel_entries.fill(entries)
    _counting(series, rounds)
    costs = FlushCosts()
    passed = KernelReader(now, costs=costs).count(lambda: False)
    assert passed.entries == entries, f"{passed.entries} of {entries} entries are there"
    _flushing(series, rounds, costs)
    _deleting(series)
    return series


def _counting(series: Series, rounds: int) -> None:
    few = frozenset(ZoneId(number) for number in range(1, kernel_entries.ZONES // 50 + 1))
    variants: list[tuple[str, Callable[[], object]]] = [
        (FLOOR, receive_only),
        (COUNT, count),
        (KEEP, lambda: count(Keep(zones=few))),
        (KEEP_SAMPLES, lambda: count(Keep(zones=few, samples_per_zone=16))),
    ]
    for round_ in range(rounds):
        turn = round_ % len(variants)
        for name, function in variants[turn:] + variants[:turn]:
            series.time(name, function)
    series.time(DETAIL, lambda: KernelReader(now, wants_detail=True).count(lambda: False), once=True)
    series.time(LIST, list_everything, once=True)
    done = subprocess.run([sys.executable, "-c", RSS_PROGRAM], capture_output=True, text=True, check=True)
    series.counting_rss_mib = int(done.stdout)


def _flushing(series: Series, rounds: int, costs: FlushCosts) -> None:
    for number in range(10, 10 + 2 * rounds, 2):
        series.time(BARE, lambda number=number: bare_flush(number))  # type: ignore[misc]
        series.time(FLUSH, lambda number=number: flush(costs, [number + 1]))  # type: ignore[misc]
    series.time(TOOL, lambda: conntrack_tool("-D", "-w", "60"), once=True)
    series.time(OLD_OVS, lambda: delete_one_by_one(keys_of(61)), once=True)
    refill(series.entries, [*range(10, 10 + 2 * rounds), 60, 61])
    for _ in range(3):
        series.time(FLUSH_MANY, lambda: flush(costs, MANY))
        refill(series.entries, MANY)
    zones = tuple(zone(number) for number in MANY)
    series.crossover_chosen = next(
        (n for n in range(1, len(zones) + 1) if costs.is_dump_cheaper(zones[:n], series.entries)), 0
    )
    # One dump costs FLUSH_MANY less the deletes of 50 zones; then both ways cost the same at:
    deletes_s = costs._delete_s * series.entries / kernel_entries.ZONES
    dump_s = series.median(FLUSH_MANY) - len(MANY) * deletes_s
    series.crossover_measured = dump_s / (series.median(BARE) - deletes_s)


def _deleting(series: Series) -> None:
    keys = keys_of(*range(200, 220))[:4000]
    quarter = len(keys) // 4
    for turn in range(2):
        first, second = keys[2 * turn * quarter :][:quarter], keys[(2 * turn + 1) * quarter :][:quarter]
        series.time(ONE_BY_ONE, lambda: delete_one_by_one(first), per=quarter)  # noqa: B023 (called at once)
        series.time(PIPELINED, lambda: KernelDeleter(now).delete_entries(second), per=quarter)  # noqa: B023
