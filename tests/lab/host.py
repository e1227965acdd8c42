"""A host behind a logical port: a network namespace within the lab's own, at the far end of a veth pair."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from collections.abc import Sequence

from tests.lab.namespace import Namespace

SIOCETHTOOL = 0x8946
ETHTOOL_STXCSUM = 0x17


def _fill_in_checksums(interface: str) -> None:
    """Make a veth end compute checksums itself: the userspace datapath takes an unfinished one for a broken packet."""
    off = array.array("I", [ETHTOOL_STXCSUM, 0])
    request = struct.pack("16sP", interface.encode(), off.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL, request)


def add_host(namespace: Namespace, name: str, mac: str, address: str) -> None:
    """A host of this name whose `eth0` is the far end of interface `name`; `address` with prefix length."""
    peer = f"{name}p"
    namespace.run(["ip", "link", "add", name, "type", "veth", "peer", "name", peer])
    namespace.call(_fill_in_checksums, peer)
    namespace.run(["ip", "link", "set", name, "up"])
    namespace.run(["ip", "netns", "add", name])
    namespace.run(["ip", "link", "set", peer, "netns", name, "name", "eth0", "address", mac])
    namespace.run(on_host(name, ["ip", "address", "add", address, "dev", "eth0"]))
    namespace.run(on_host(name, ["ip", "link", "set", "lo", "up"]))
    namespace.run(on_host(name, ["ip", "link", "set", "eth0", "up"]))


def on_host(name: str, argv: Sequence[str]) -> list[str]:
    """The command line, for `Namespace.run` or `popen`, that runs a program on the host."""
    # Not `ip netns exec`: that remounts /sys, which is refused where the machine's root is no mount point (a chroot).
    return ["nsenter", f"--net=/run/netns/{name}", "--", *argv]
