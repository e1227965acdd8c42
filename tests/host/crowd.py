"""Peers that connect and then say nothing, or not enough: a process of its own, as an attacker is.

`python -m tests.host.crowd HOST PORT NUMBER [HEX…]` opens NUMBER connections, sends the bytes of each HEX in turn on
them, prints how many it opened, and keeps them until its standard input ends.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle


@contextmanager
def crowd(address: tuple[str, int], number: int, *openings: bytes) -> Iterator[None]:
    """That many connections to `address`, until the end of the context; entered when all have been opened."""
    command = [sys.executable, "-m", "tests.host.crowd", address[0], str(address[1]), str(number)]
    process = subprocess.Popen(
        [*command, *(opening.hex() for opening in openings)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{number}\n"
        yield


def main(host: str, port: str, number: str, *openings: str) -> None:
    """Be the crowd."""
    with ExitStack() as peers:
        for _, opening in zip(range(int(number)), cycle(openings or ("",)), strict=False):
            peer = peers.enter_context(socket.create_connection((host, int(port)), timeout=60))
            # It may have been shown the door already.
            with contextlib.suppress(OSError):
                peer.sendall(bytes.fromhex(opening))
        print(number, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # A real one sits on another machine: it takes the server's connections, not its CPU.
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    main(*sys.argv[1:])
