"""A conversation between two hosts that tells how long it was ever silent; run as a file on either host.

`stall_talk.py serve ADDRESS` echoes. `stall_talk.py talk ADDRESS SECONDS` sends a numbered message every 50 ms over one
TCP connection until its standard input ends, then prints messages echoed and the longest silence in seconds, as JSON.
Standard library only, nothing of the project.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time

PORT = 7777
INTERVAL_S = 0.05


def serve(address: str) -> None:
    """Echo whatever one client sends."""
    with socket.create_server((address, PORT)) as listener:
        print("ready", flush=True)
        connection, _ = listener.accept()
        while data := connection.recv(4096):
            connection.sendall(data)


def talk(address: str) -> None:
    """Send, await the echo, note the longest wait."""
    echoed, longest_s = 0, 0.0
    with socket.create_connection((address, PORT), timeout=60) as connection:
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], INTERVAL_S)[0]:
            sent = time.monotonic()
            message = echoed.to_bytes(8, "big")
            connection.sendall(message)
            received = b""
            while len(received) < len(message):
                received += connection.recv(len(message) - len(received))
            if received != message:
                sys.exit(f"message {echoed} came back as {received!r}")
            echoed += 1
            longest_s = max(longest_s, time.monotonic() - sent)
    print(json.dumps({"echoed": echoed, "longest_silence_s": round(longest_s, 3)}), flush=True)


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1] == "serve" else talk(sys.argv[2])
