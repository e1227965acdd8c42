"""Keeps real TCP and UDP conversations going until its standard input ends; a program run inside a namespace.

Each client sends a numbered message, waits for its echo, and sends the next 20 ms later. Speaks JSON, one value a
line: first the list of conversations, `[[proto, sport, dport], …]`; then, for each line on standard input, the list
of how many echoes each has had. Standard library only, nothing of the project: it runs as a file.
"""

from __future__ import annotations

import json
import selectors
import socket
import struct
import sys
import time

INTERVAL_S = 0.02
MESSAGE = struct.Struct("!Q")


class Echo:
    """The far end of one TCP conversation, or of all UDP ones: sends back what arrives."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def ready(self) -> None:
        if self.sock.type == socket.SOCK_DGRAM:
            data, sender = self.sock.recvfrom(2048)
            self.sock.sendto(data, sender)
        elif data := self.sock.recv(2048):
            self.sock.sendall(data)


class Client:
    """The near end of one conversation. `echoes` counts messages that came back whole and in order."""

    def __init__(self, proto: str, sock: socket.socket) -> None:
        self.proto = proto
        self.sock = sock
        self.echoes = 0
        self.due_s = 0.0
        self._received = b""

    def send_if_due(self, now_s: float) -> None:
        if now_s >= self.due_s:
            # UDP may lose a message for good; sending the same number again loses nothing of the proof.
            self.due_s = now_s + 10 * INTERVAL_S if self.proto == "udp" else float("inf")
            self.sock.send(MESSAGE.pack(self.echoes))

    def ready(self) -> None:
        self._received += self.sock.recv(2048)
        while len(self._received) >= MESSAGE.size:
            (number,) = MESSAGE.unpack(self._received[: MESSAGE.size])
            self._received = self._received[MESSAGE.size :]
            if number == self.echoes:
                self.echoes += 1
                self.due_s = time.monotonic() + INTERVAL_S


def converse(address: str, tcp: int, udp: int) -> tuple[list[Client], list[Echo]]:
    """Open all conversations between the address and itself."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    clients, echoes = [], []
    listener = socket.create_server((address, 0), family=family, backlog=tcp + 1)
    for _ in range(tcp):
        sock = socket.create_connection(listener.getsockname()[:2], timeout=5, source_address=(address, 0))
        accepted, _ = listener.accept()
        for end in (sock, accepted):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        clients.append(Client("tcp", sock))
        echoes.append(Echo(accepted))
    if udp:
        server = socket.socket(family, socket.SOCK_DGRAM)
        server.bind((address, 0))
        echoes.append(Echo(server))
        for _ in range(udp):
            sock = socket.socket(family, socket.SOCK_DGRAM)
            sock.bind((address, 0))
            sock.connect(server.getsockname())
            clients.append(Client("udp", sock))
    return clients, echoes


def main(address: str, tcp: int, udp: int) -> None:
    """Converse until standard input ends."""
    clients, echoes = converse(address, tcp, udp)
    selector = selectors.DefaultSelector()
    ends: list[Client | Echo] = [*clients, *echoes]
    for end in ends:
        end.sock.settimeout(0)
        selector.register(end.sock, selectors.EVENT_READ, end)
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    print(json.dumps([[c.proto, c.sock.getsockname()[1], c.sock.getpeername()[1]] for c in clients]), flush=True)
    while True:
        now_s = time.monotonic()
        for client in clients:
            try:
                client.send_if_due(now_s)
            except OSError:
                client.due_s = float("inf")  # it stays silent, which is what the other side looks for
        for key, _ in selector.select(INTERVAL_S / 4):
            if key.data is None:
                if not sys.stdin.readline():
                    return
                print(json.dumps([client.echoes for client in clients]), flush=True)
                continue
            try:
                key.data.ready()
            except OSError:
                selector.unregister(key.fileobj)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
