"""Where OVS and OVN keep their files below one directory, laid out as below `/var` on a host."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.lab.daemon import LabDaemon
from tests.lab.namespace import Namespace

SOUTHBOUND_INIT = ["OVN_Southbound", {"op": "insert", "table": "SB_Global", "row": {}}]


@dataclass(frozen=True, slots=True)
class Layout:
    """The directories below `root`, and how to run the tree's programs on them."""

    namespace: Namespace
    tree: Path
    root: Path

    @property
    def rundir(self) -> Path:
        """Of OVS."""
        return self.root / "run/openvswitch"

    @property
    def ovn_rundir(self) -> Path:
        """Of OVN."""
        return self.root / "run/ovn"

    @property
    def logdir(self) -> Path:
        """Of OVS."""
        return self.root / "log/openvswitch"

    @property
    def ovn_logdir(self) -> Path:
        """Of OVN."""
        return self.root / "log/ovn"

    @property
    def libdir(self) -> Path:
        """Of the database files."""
        return self.root / "lib"

    @property
    def env(self) -> dict[str, str]:
        """What makes every program use these directories."""
        return {
            "OVS_RUNDIR": str(self.rundir),
            "OVS_LOGDIR": str(self.logdir),
            "OVS_DBDIR": str(self.libdir),
            "OVS_SYSCONFDIR": str(self.libdir),
            "OVN_RUNDIR": str(self.ovn_rundir),
            "OVN_LOGDIR": str(self.ovn_logdir),
            "OVN_DBDIR": str(self.libdir),
            "OVN_SYSCONFDIR": str(self.libdir),
        }

    def create_directories(self) -> None:
        """Make them all."""
        for path in (self.rundir, self.ovn_rundir, self.logdir, self.ovn_logdir, self.libdir):
            path.mkdir(parents=True, exist_ok=True)

    def create_database(self, name: str, schema: str) -> None:
        """A database file with nothing in it but, for a Southbound, its one row of global settings."""
        file = str(self.libdir / name)
        self.run("ovsdb-tool", "create", file, str(self.tree / "schema" / schema))
        if schema == "ovn-sb.ovsschema":
            # An ovn-controller that meets a Southbound without it crashes (23.03 and 25.03), and on a host
            # `ovn-sbctl init` sees to it before any can.
            self.run("ovsdb-tool", "transact", file, json.dumps(SOUTHBOUND_INIT))

    def run(self, program: str, *args: str, timeout_s: float = 30.0) -> str:
        """Run a program of the tree to its end; its output.

        Raises:
            NamespaceError: it failed; with what it said.
        """
        argv = [str(self.tree / "bin" / program), *args]
        return self.namespace.run(argv, env=self.env, timeout_s=timeout_s + 5).stdout

    def daemon(self, program: str, *arguments: str, is_ovn: bool, label: str, unixctl: Path | None = None) -> LabDaemon:
        """A daemon of OVN or OVS; `label` names its pidfile and log."""
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

    def log_tails(self, lines: int = 20) -> str:
        """The last lines of every log, for the message of a failure."""
        logs = sorted(self.root.glob("log/*/*.log"))
        return "\n".join("\n".join([f"--- {log.name}", *log.read_text().splitlines()[-lines:]]) for log in logs)
