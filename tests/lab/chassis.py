"""One OVN chassis: conf.db, ovs-vswitchd and ovn-controller in a namespace, with the directory layout of a host."""

from __future__ import annotations

import json
from typing import Literal

from tests.lab.daemon import LabDaemon
from tests.lab.host import add_host
from tests.lab.layout import Layout

Datapath = Literal["system", "netdev"]
BACKEND_FLAG = {
    # The database says "system" and every port is a dummy without packets: the product sees the kernel backend,
    # and the namespace's kernel conntrack table is its own, on kernels without the openvswitch module too.
    "system": "--enable-dummy=system",
    # The userspace datapath with real packets on veth pairs.
    "netdev": "--disable-system",
}


class Chassis:
    """One chassis in a layout's directories, which must exist before `start`; `database` is its conf.db."""

    def __init__(self, layout: Layout, *, name: str, datapath: Datapath, encap_ip: str, sb: str) -> None:
        self.layout = layout
        self.namespace = layout.namespace
        self.rundir, self.ovn_rundir = layout.rundir, layout.ovn_rundir
        self.logdir, self.ovn_logdir = layout.logdir, layout.ovn_logdir
        self.libdir = layout.libdir
        self.name = name
        self.datapath: Datapath = datapath
        self.encap_ip = encap_ip
        self.sb = sb
        self.database = f"unix:{self.rundir}/db.sock"
        remote, database = f"--remote=punix:{self.rundir}/db.sock", str(self.libdir / "conf.db")
        self.ovsdb_server = layout.daemon("ovsdb-server", remote, database, is_ovn=False, label="ovsdb-server")
        self.vswitchd = layout.daemon(
            "ovs-vswitchd", BACKEND_FLAG[datapath], self.database, is_ovn=False, label="ovs-vswitchd"
        )
        self.controller = layout.daemon("ovn-controller", self.database, is_ovn=True, label="ovn-controller")

    def daemon(self, name: str) -> LabDaemon:
        """One of its daemons by the name users know: ovsdb-server, ovs-vswitchd, ovn-controller."""
        return {
            "ovsdb-server": self.ovsdb_server,
            "ovs-vswitchd": self.vswitchd,
            "ovn-controller": self.controller,
        }[name]

    def create_database(self, name: str, schema: str) -> None:
        """An empty database file in `libdir`."""
        self.layout.create_database(name, schema)

    def start(self) -> None:
        """Start ovsdb-server on an empty conf.db and ovs-vswitchd, describe the chassis, start ovn-controller."""
        self.create_database("conf.db", "vswitch.ovsschema")
        self.ovsdb_server.start()
        self.vsctl(
            *("--no-wait", "init", "--", "set", "open_vswitch", "."),
            f"external-ids:system-id={self.name}",
            f"external-ids:ovn-remote={self.sb}",
            "external-ids:ovn-encap-type=geneve",
            f"external-ids:ovn-encap-ip={self.encap_ip}",
            *("--", "--may-exist", "add-br", "br-int"),
            *("--", "set", "bridge", "br-int", f"datapath_type={self.datapath}", "fail-mode=secure"),
        )
        # Not both at once: an ovn-controller that finds no br-int yet waits a second before it looks again.
        self.vswitchd.start()
        self.controller.start()

    def vsctl(self, *args: str, timeout_s: float = 30.0) -> str:
        """Run ovs-vsctl on this chassis."""
        options = (f"--db={self.database}", f"--timeout={timeout_s:g}")
        return self.layout.run("ovs-vsctl", *options, *args, timeout_s=timeout_s)

    def bind_port(self, logical_port: str, mac: str, address: str) -> None:
        """Give br-int an interface for a logical port, so that ovn-controller binds it here.

        On `system` it is a dummy without packets. On `netdev` a host (`tests.lab.host`) is at its other end, with the
        port's name, MAC and address (with prefix length), and the packets are real.
        """
        if self.datapath == "netdev":
            add_host(self.namespace, logical_port, mac, address)
        binding = f"external-ids:iface-id={logical_port}"
        self.vsctl("add-port", "br-int", logical_port, "--", "set", "interface", logical_port, binding)

    def zones(self) -> dict[str, int]:
        """Key (without `ct-zone-`) → zone number, as br-int's external_ids say now."""
        table = json.loads(self.vsctl("--format=json", "--columns=external_ids", "list", "bridge", "br-int"))
        pairs = table["data"][0][0][1]
        prefix = "ct-zone-"
        return {key.removeprefix(prefix): int(value) for key, value in pairs if key.startswith(prefix)}

    def ct_zone_list(self) -> dict[str, int]:
        """Name → zone number as ovn-controller has them, allocations not yet committed included."""
        pairs = (line.rsplit(maxsplit=1) for line in self.controller.appctl("ct-zone-list").splitlines())
        return {name: int(number) for name, number in pairs}
