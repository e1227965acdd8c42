"""Captures what a kernel sends, for `samples/`: run `unshare --net python3 -m tests.wire.capture > samples/NAME.json`.

One entry of every kind, one with an address translated, one with mark, labels, counters and start time; and the
answers to statistics requests and to refused ones.
"""

from __future__ import annotations

import contextlib
import json
import platform
from dataclasses import replace
from pathlib import Path

from tests import flows
from tests.backends.contract import ALL_KINDS
from tests.flows import Flow
from tests.kernel_table import _open, blocks, create

RICH = Flow(zone=21, sport=20, mark=0x1234, labels=bytes(range(16)), timeout_s=86400)
TRANSLATED = Flow(zone=22, sport=21, dst="172.16.0.9", reply_src="10.0.0.7")
SYSCTL = Path("/proc/sys/net/netfilter")
REQUESTS = {
    "stats": (0x105, 0x5, bytes(4)),
    "cpu_stats": (0x104, 0x301, bytes(4)),
    "probe": (0x101, 0x301, bytes(4) + flows.attr(18, b"\xff\xff") + flows.attr(26, flows.u32(4))),
    "lookup": (
        0x101,
        0x5,
        b"\x02\0\0\0" + flows.nest(1, flows.original_tuple(RICH)) + flows.attr(18, flows.u16(RICH.zone)),
    ),
    "lookup_absent": (
        0x101,
        0x5,
        b"\x02\0\0\0"
        + flows.nest(1, flows.original_tuple(replace(RICH, sport=9)))
        + flows.attr(18, flows.u16(RICH.zone)),
    ),
}


def answer(name: str) -> list[bytes]:
    """The first blocks that come back for one of `REQUESTS`; sequence number 1."""
    kind, flags, body = REQUESTS[name]
    with contextlib.closing(_open()) as opened:
        opened.send(flows.message(kind, flags, 1, 0, body))
        found = [opened.recv(1 << 16)]
        opened.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            found.append(opened.recv(1 << 16))
        return found


def main() -> None:
    """Print the samples of the running kernel; the table must be empty and private."""
    create([Flow(zone=20, sport=99)])  # conntrack's settings appear with its first use in a namespace
    for setting in ("nf_conntrack_acct", "nf_conntrack_timestamp"):
        (SYSCTL / setting).write_text("1\n")
    create([*ALL_KINDS, RICH, TRANSLATED])
    sample = {
        "release": platform.release().split("-")[0].split("+")[0],
        "dump": [block.hex() for block in blocks()],
        **{name: [block.hex() for block in answer(name)] for name in REQUESTS},
    }
    print(json.dumps(sample, indent=1))


if __name__ == "__main__":
    main()
