"""What ovn-nbctl is told to make the routers that scenes and tests need: pure text, one transaction each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Address(NamedTuple):
    """A MAC and an IPv4 address without prefix."""

    mac: str
    ip: str


def address(number: int) -> Address:
    """The `number`-th of a series without repetition in 10.0.0.0/8, from 1 to 16 million."""
    high, low = divmod(number, 250)
    return Address(f"02:00:00:{high >> 8:02x}:{high & 255:02x}:{low:02x}", f"10.{high >> 8}.{high & 255}.{low + 1}")


def switch_port(switch: str, port: str, router_port: str) -> list[str]:
    """A switch's port that leads to a router."""
    return [
        *("--", "lsp-add", switch, port),
        *("--", "lsp-set-type", port, "router"),
        *("--", "lsp-set-addresses", port, "router"),
        *("--", "lsp-set-options", port, f"router-port={router_port}"),
    ]


def gateway_router(name: str, ports: Sequence[Address], *, switch: str, chassis: str) -> list[str]:
    """A router bound to one chassis, so that it is local there, with ports on one switch."""
    commands = ["--", "lr-add", name, "--", "set", "logical_router", name, f"options:chassis={chassis}"]
    for index, (mac, ip) in enumerate(ports):
        commands += ["--", "lrp-add", name, f"{name}-p{index}", mac, f"{ip}/8"]
        commands += switch_port(switch, f"{switch}-{name}-p{index}", f"{name}-p{index}")
    return commands


def distributed_router(name: str, inside: Address, outside: Address, *, chassis: str) -> list[str]:
    """A distributed router with a gateway port on one chassis, a switch on either side, SNAT and one floating IP."""
    inner, outer = f"{name}-in", f"{name}-out"
    return [
        *("lr-add", name, "--", "ls-add", inner, "--", "ls-add", outer),
        *("--", "lrp-add", name, f"{name}-to-in", inside.mac, "192.168.7.1/24"),
        *("--", "lrp-add", name, f"{name}-to-out", outside.mac, "172.31.0.2/24"),
        *switch_port(inner, f"{inner}-r", f"{name}-to-in"),
        *switch_port(outer, f"{outer}-r", f"{name}-to-out"),
        *("--", "lrp-set-gateway-chassis", f"{name}-to-out", chassis, "10"),
        *("--", "lr-nat-add", name, "snat", "172.31.0.2", "192.168.7.0/24"),
        *("--", "lr-nat-add", name, "dnat_and_snat", "172.31.0.3", "192.168.7.10"),
    ]
