"""Entries are inserted as described, and the independent reader sees what the kernel has."""

from __future__ import annotations

import errno
import re
import time
from pathlib import Path

import pytest

from tests.lab import table
from tests.lab.entries import TABLE_LIMIT, Entry, Protocol, _creation, _numbered, fill, insert, table_limit
from tests.lab.namespace import Namespace

V4 = ("10.0.0.1", "10.0.0.2")
V6 = ("fd00::1", "fd00::2")
KINDS: list[tuple[Protocol, tuple[str, str]]] = [
    ("tcp", V4),
    ("tcp", V6),
    ("udp", V4),
    ("udp", V6),
    ("sctp", V4),
    ("sctp", V6),
    ("icmp", V4),
    ("icmpv6", V6),
]


def _all_kinds(zone: int) -> list[Entry]:
    return [Entry(zone=zone, proto=proto, src=src, dst=dst, mark=zone + 7) for proto, (src, dst) in KINDS]


@pytest.mark.host
@pytest.mark.parametrize("zone", [0, 1, 256, 65535])
def test_every_kind_of_entry_is_read_back_as_described(namespace: Namespace, zone: int) -> None:
    wanted = _all_kinds(zone)
    assert insert(namespace, wanted) == len(wanted)
    found = table.entries(namespace)
    assert sorted((e.proto, e.src, e.dst, e.sport, e.mark) for e in found) == sorted(
        (e.proto, e.src, e.dst, e.sport, e.mark) for e in wanted
    )
    assert {e.zone for e in found} == {zone}
    assert all(e.dport == (0 if e.proto.startswith("icmp") else 443) for e in found)
    assert all(e.timeout_s is not None and 3590 < e.timeout_s <= 3600 for e in found)


@pytest.mark.host
def test_the_reader_agrees_with_the_distribution_s_conntrack(namespace: Namespace) -> None:
    for zone in (0, 12, 13):
        insert(namespace, _all_kinds(zone))
    listed = set()
    for line in namespace.run(["conntrack", "-L", "-o", "extended,id"]).stdout.splitlines():
        in_zone = re.search(r" zone=(\d+)", line)
        src = re.findall(r" src=(\S+)", line)[0]
        entry_id = re.findall(r" id=(\d+)", line)[-1]  # an icmp tuple has an id too
        listed.add((int(in_zone[1]) if in_zone else 0, line.split()[2], src, int(entry_id)))
    assert {(e.zone, e.proto, e.src, e.entry_id) for e in table.entries(namespace)} == listed
    assert len(listed) == 3 * len(KINDS)


@pytest.mark.host
def test_one_entry_is_looked_up_by_tuple_and_zone(namespace: Namespace) -> None:
    insert(namespace, [Entry(zone=12), Entry(zone=13, mark=5)])
    found = table.look_up(namespace, Entry(zone=13))
    assert found is not None
    assert (found.zone, found.mark) == (13, 5)
    assert table.look_up(namespace, Entry(zone=14)) is None
    assert table.look_up(namespace, Entry(zone=12, sport=1)) is None


@pytest.mark.host
def test_deleting_a_zone_leaves_the_same_tuples_elsewhere(namespace: Namespace) -> None:
    for zone in (0, 12, 13):
        insert(namespace, _all_kinds(zone))
    table.delete_zone(namespace, 12)
    assert table.zone_counts(namespace) == {0: len(KINDS), 13: len(KINDS)}


@pytest.mark.host
def test_an_entry_that_exists_is_refused(namespace: Namespace) -> None:
    insert(namespace, [Entry(zone=12)])
    with pytest.raises(OSError) as refusal:
        insert(namespace, [Entry(zone=13), Entry(zone=12)])
    assert refusal.value.errno == errno.EEXIST


@pytest.mark.host
def test_start_timestamps_are_read_where_the_kernel_takes_them(namespace: Namespace) -> None:
    insert(namespace, [Entry(zone=1)])
    namespace.sysctl("net.netfilter.nf_conntrack_timestamp", 1)
    before = time.time_ns()
    insert(namespace, [Entry(zone=2)])
    started = {entry.zone: entry.started_ns for entry in table.entries(namespace)}
    assert started[1] is None
    assert started[2] is not None
    assert abs(started[2] - before) < 5_000_000_000


@pytest.mark.parametrize("proto", ["tcp", "udp", "sctp"])
@pytest.mark.parametrize(("src", "dst"), [V4, V6])
def test_numbered_entries_are_what_the_slow_way_makes(proto: Protocol, src: str, dst: str) -> None:
    template = Entry(zone=0, proto=proto, src=src, dst=dst)
    numbered = list(_numbered(template, {3: 1, 65535: 2}, first=60_005))
    next_src = src[:-1] + "2"
    assert numbered == [
        _creation(Entry(zone=zone, proto=proto, src=next_src, dst=dst, sport=sport))
        for zone, sport in ((3, 1029), (65535, 1029), (65535, 1030))
    ]


@pytest.mark.host
def test_a_hundred_thousand_entries_are_there_within_seconds(namespace: Namespace) -> None:
    begun = time.monotonic()
    assert fill(namespace, dict.fromkeys(range(1, 10), 10_000)) == 90_000
    assert fill(namespace, {7: 10_000}, family=6, proto="udp") == 10_000
    took_s = time.monotonic() - begun
    assert sum(table.zone_counts(namespace).values()) == 100_000
    print(f"100,000 entries in {took_s:.2f} s")
    assert took_s < 30


@pytest.mark.host
def test_the_shared_table_limit_is_raised_for_a_while_only(_namespaces_work: None) -> None:
    before = int(TABLE_LIMIT.read_text())
    with table_limit(before + 1000):
        assert int(TABLE_LIMIT.read_text()) == before + 1000
    with table_limit(10):
        assert int(TABLE_LIMIT.read_text()) == before
    assert Path(TABLE_LIMIT).read_text().strip() == str(before)
