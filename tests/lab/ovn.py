"""A real OVN in a private namespace: Northbound and Southbound databases, ovn-northd and one chassis or more.

`with Namespace() as namespace, Ovn(namespace, ovn_tree("trixie")) as ovn:` is up in about a second. It is driven like
any other, with `nbctl`; the methods that name routers and switches are what scenes and tests need again and again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab import routers
from tests.lab.central import Central, OvnError
from tests.lab.chassis import Chassis, Datapath
from tests.lab.daemon import DaemonError, LabDaemon, wait_until
from tests.lab.layout import Layout
from tests.lab.namespace import Namespace, NamespaceError

SWITCH = "ls0"


class Ovn:
    """OVN with its first chassis, named `chassis-1`. Started by entering it, or with `start`; ends with the namespace.

    It lives in the namespace's directory, so a namespace has one.
    `start_seconds`: how long the last `start` took until ovn-controller had worked off the first change.
    """

    def __init__(self, namespace: Namespace, tree: Path, datapath: Datapath = "system") -> None:
        self.namespace = namespace
        self.tree = tree
        self.start_seconds = 0.0
        self._addresses = 0
        self.layout = Layout(namespace, tree, namespace.directory)
        self.central = Central(self.layout)
        self.nb = self.central.nb
        self.sb = self.central.sb
        self.chassis = Chassis(self.layout, name="chassis-1", datapath=datapath, encap_ip="127.0.0.1", sb=self.sb)
        self.all_chassis = [self.chassis]

    # Paths under the names of the product's settings.

    @property
    def ovs_rundir(self) -> Path:
        """For `ovs.rundir`."""
        return self.layout.rundir

    @property
    def ovs_db(self) -> str:
        """For `ovs.db`."""
        return self.chassis.database

    @property
    def ovs_log(self) -> Path:
        """For `ovs.log`."""
        return self.chassis.vswitchd.log

    @property
    def ovn_log(self) -> Path:
        """For `ovn.log`."""
        return self.chassis.controller.log

    @property
    def ovn_rundir(self) -> Path:
        """For `ovn.rundir`."""
        return self.layout.ovn_rundir

    # Life.

    def start(self) -> None:
        """Start everything from empty databases; returns when the chassis is registered and has followed one change.

        Raises:
            OvnError: something did not start, or did not follow in time.
        """
        begun = time.monotonic()
        try:
            self.layout.create_directories()
            self.central.start()
            self.chassis.start()
            self.central.wait_for_chassis(self.chassis.name)
        except (NamespaceError, DaemonError) as error:
            raise OvnError(f"OVN did not start: {error}\n{self.layout.log_tails()}") from error
        self.start_seconds = time.monotonic() - begun

    def rebuild_southbound(self) -> None:
        """Replace the Southbound by an empty one that ovn-northd fills again: every row has another UUID."""
        self.central.rebuild_southbound()
        self.central.wait_for_chassis(*(chassis.name for chassis in self.all_chassis))

    def daemon(self, name: str) -> LabDaemon:
        """A daemon by name: ovsdb-server, ovs-vswitchd, ovn-controller (of the first chassis), ovn-northd, nb, sb."""
        central = {"ovn-northd": self.central.northd, "nb": self.central.nb_server, "sb": self.central.sb_server}
        return central[name] if name in central else self.chassis.daemon(name)

    def mount_standard_paths(self) -> None:
        """Show the first chassis under `/run` and `/var/log` inside the namespace, as on a host.

        A product started inside then needs no setting at all.
        """
        run = self.namespace.run
        run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/log"])
        for source, target in (
            (self.layout.rundir, "/run/openvswitch"),
            (self.layout.ovn_rundir, "/run/ovn"),
            (self.layout.logdir, "/var/log/openvswitch"),
            (self.layout.ovn_logdir, "/var/log/ovn"),
        ):
            run(["mkdir", "-p", target])
            run(["mount", "--bind", source, target])

    def add_chassis(self, namespace: Namespace, name: str) -> Chassis:
        """A further chassis in a network namespace of its own, sharing the databases; started when returned."""
        layout = Layout(namespace, self.tree, namespace.directory)
        encap_ip = f"127.0.0.{len(self.all_chassis) + 1}"
        chassis = Chassis(layout, name=name, datapath=self.chassis.datapath, encap_ip=encap_ip, sb=self.sb)
        layout.create_directories()
        chassis.start()
        self.all_chassis.append(chassis)
        self.central.wait_for_chassis(name)
        return chassis

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Daemons end with the namespace, in one stroke."""

    # Commands.

    def nbctl(self, *args: str, wait_hv: bool = True, timeout_s: float = 30.0) -> str:
        """Run ovn-nbctl; with `wait_hv`, return when every chassis has followed. Raises as `Central.nbctl` does."""
        return self.central.nbctl(*args, wait_hv=wait_hv, timeout_s=timeout_s)

    def sbctl(self, *args: str, timeout_s: float = 30.0) -> str:
        """Run ovn-sbctl."""
        return self.central.sbctl(*args, timeout_s=timeout_s)

    def vsctl(self, *args: str) -> str:
        """Run ovs-vsctl on the first chassis."""
        return self.chassis.vsctl(*args)

    def appctl(self, daemon: str, *args: str) -> str:
        """Ask a daemon through its control socket."""
        return self.daemon(daemon).appctl(*args)

    # Logical network.

    def _address(self) -> routers.Address:
        self._addresses += 1
        return routers.address(self._addresses)

    def add_switch(self, name: str = SWITCH) -> None:
        """A logical switch with one stateful ACL, so that its traffic is tracked."""
        self.nbctl("--may-exist", "ls-add", name, "--", "acl-add", name, "from-lport", "1000", "ip", "allow-related")

    def add_host_port(self, name: str, switch: str = SWITCH, *, chassis: Chassis | None = None) -> str:
        """A workload's logical port, bound to a chassis (the first, unless given); its IPv4 address.

        On the `netdev` datapath a host is behind it, see `tests.lab.host`.
        """
        mac, ip = self._address()
        (chassis or self.chassis).bind_port(name, mac, f"{ip}/8")
        self.nbctl(
            "--may-exist",
            "ls-add",
            switch,
            "--",
            "lsp-add",
            switch,
            name,
            "--",
            "lsp-set-addresses",
            name,
            f"{mac} {ip}",
        )
        return ip

    def add_router(self, name: str, ports: int = 1, *, switch: str = SWITCH, chassis: str = "chassis-1") -> None:
        """A gateway router bound to a chassis, so that it is local there and has zones; in one transaction."""
        self.add_routers([name], ports=ports, switch=switch, chassis=chassis)

    def add_routers(
        self, names: Sequence[str], ports: int = 1, *, switch: str = SWITCH, chassis: str = "chassis-1"
    ) -> None:
        """Many such routers in one transaction. The switch is made when missing."""
        commands = ["--may-exist", "ls-add", switch]
        for name in names:
            addresses = [self._address() for _ in range(ports)]
            commands += routers.gateway_router(name, addresses, switch=switch, chassis=chassis)
        self.nbctl(*commands, timeout_s=120)

    def add_distributed_router(self, name: str, *, chassis: str = "chassis-1") -> None:
        """A distributed router with a gateway port on a chassis, a switch of its own behind it, SNAT and one FIP."""
        self.nbctl(*routers.distributed_router(name, self._address(), self._address(), chassis=chassis))

    def delete_router(self, name: str, switch: str = SWITCH) -> None:
        """Remove a router, and the switch's ports towards it."""
        wanted = f"{switch}-{name}-p"
        ports = [line.split()[1].strip("()") for line in self.nbctl("lsp-list", switch, wait_hv=False).splitlines()]
        commands = ["--if-exists", "lr-del", name]
        for port in ports:
            if port.startswith(wanted):
                commands += ["--", "lsp-del", port]
        self.nbctl(*commands)

    def rename_router(self, name: str, new_name: str) -> None:
        """Change a router's name; it stays the same router."""
        self.nbctl("set", "logical_router", name, f"name={new_name}")

    # What OVN decided.

    def zones(self) -> dict[str, int]:
        """Key (without `ct-zone-`) → number of the first chassis."""
        return self.chassis.zones()

    def ct_zone_list(self) -> dict[str, int]:
        """The same from ovn-controller's memory."""
        return self.chassis.ct_zone_list()

    @property
    def has_name_keys(self) -> bool:
        """Claims that this generation keys datapath zones by name, not by Southbound UUID: OVN 23.09 and later."""
        match = re.search(r"^ovn-host_(\d+)\.(\d+)", (self.tree / "packages").read_text(), re.MULTILINE)
        assert match is not None, f"no ovn-host in {self.tree}/packages"
        return (int(match[1]), int(match[2])) >= (23, 9)

    def router_key(self, name: str) -> str:
        """What stands before `_dnat` and `_snat` in the router's keys; "" while the Southbound has no such router."""
        if self.has_name_keys:
            return name
        where = f"external_ids:name={name}"
        return self.sbctl("--bare", "--columns=_uuid", "find", "datapath_binding", where).strip()

    def router_zones(self, name: str, *, timeout_s: float = 10.0) -> tuple[int, int]:
        """The router's (dnat, snat) zone numbers, waited for until both keys are on br-int.

        Raises:
            TimeoutError: they did not appear.
        """
        found: dict[str, int] = {}

        def is_there() -> bool:
            key = self.router_key(name)
            zones = self.zones()
            found.update({side: zones[f"{key}_{side}"] for side in ("dnat", "snat") if f"{key}_{side}" in zones})
            return len(found) == 2

        wait_until(is_there, f"zones of router {name}", timeout_s)
        return found["dnat"], found["snat"]
