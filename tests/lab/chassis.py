"""One OVN chassis: conf.db, ovs-vswitchd and ovn-controller in a namespace, with the directory layout of a host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from tests.lab.daemon import LabDaemon
from tests.lab.host import add_host
from tests.lab.namespace import Namespace

Datapath = Literal["system", "netdev"]
BACKEND_FLAG = {
    # The database says "system" and every port is a dummy without packets: the product sees the kernel backend,
    # and the namespace's kernel conntrack table is its own, on kernels without the openvswitch module too.
    "system": "--enable-dummy=system",
    # The userspace datapath with real packets on veth pairs.
    "netdev": "--disable-system",
}


class Chassis:
    """One chassis; `start` before use. Paths are below `root` as they are below `/var` on a host.

    `rundir`, `logdir`, `database`: what the product's `ovs.rundir`, directory of `ovs.log` and `ovs.db` are set to;
    `ovn_rundir`: its `ovn.rundir`.
    """

    def __init__(
        self, namespace: Namespace, tree: Path, root: Path, *, name: str, datapath: Datapath, encap_ip: str, sb: str
    ) -> None:
        self.namespace = namespace
        self.tree = tree
        self.root = root
        self.name = name
        self.datapath: Datapath = datapath
        self.encap_ip = encap_ip
        self.sb = sb
        self.rundir = root / "run/openvswitch"
        self.ovn_rundir = root / "run/ovn"
        self.logdir = root / "log/openvswitch"
        self.ovn_logdir = root / "log/ovn"
        self.libdir = root / "lib"
        self.env = {
            "OVS_RUNDIR": str(self.rundir),
            "OVS_LOGDIR": str(self.logdir),
            "OVS_DBDIR": str(self.libdir),
            "OVS_SYSCONFDIR": str(self.libdir),
            "OVN_RUNDIR": str(self.ovn_rundir),
            "OVN_LOGDIR": str(self.ovn_logdir),
            "OVN_DBDIR": str(self.libdir),
            "OVN_SYSCONFDIR": str(self.libdir),
        }
        self.database = f"unix:{self.rundir}/db.sock"
        self.ovsdb_server = self._daemon(
            "ovsdb-server", "ovsdb-server", f"--remote=punix:{self.rundir}/db.sock", str(self.libdir / "conf.db")
        )
        self.vswitchd = self._daemon("ovs-vswitchd", "ovs-vswitchd", BACKEND_FLAG[datapath], self.database)
        self.controller = self._daemon("ovn-controller", "ovn-controller", self.database)

    def _daemon(self, program: str, label: str, *arguments: str, unixctl: Path | None = None) -> LabDaemon:
        is_ovn = program.startswith("ovn-")
        return LabDaemon(
            namespace=self.namespace,
            tree=self.tree,
            program=program,
            label=label,
            rundir=self.ovn_rundir if is_ovn else self.rundir,
            logdir=self.ovn_logdir if is_ovn else self.logdir,
            arguments=arguments,
            env=self.env,
            unixctl=unixctl,
        )

    @property
    def vswitchd_log(self) -> Path:
        """The log that the product reads for stalls."""
        return self.vswitchd.log

    def daemon(self, name: str) -> LabDaemon:
        """One of its daemons by the name users know: ovsdb-server, ovs-vswitchd, ovn-controller."""
        return {
            "ovsdb-server": self.ovsdb_server,
            "ovs-vswitchd": self.vswitchd,
            "ovn-controller": self.controller,
        }[name]

    def create(self) -> None:
        """Make directories and an empty conf.db."""
        for path in (self.rundir, self.ovn_rundir, self.logdir, self.ovn_logdir, self.libdir):
            path.mkdir(parents=True, exist_ok=True)
        self.create_database("conf.db", "vswitch.ovsschema")

    def create_database(self, name: str, schema: str) -> None:
        """An empty database file below `libdir`."""
        tool = self.tree / "bin/ovsdb-tool"
        self.namespace.run([tool, "create", self.libdir / name, self.tree / "schema" / schema], env=self.env)

    def start(self) -> None:
        """Start ovsdb-server and ovs-vswitchd, describe the chassis, start ovn-controller."""
        if not self.ovsdb_server.is_running:
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
        argv: list[str | Path] = [
            self.tree / "bin/ovs-vsctl",
            f"--db={self.database}",
            f"--timeout={timeout_s:g}",
            *args,
        ]
        return self.namespace.run(argv, env=self.env, timeout_s=timeout_s + 5).stdout

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
