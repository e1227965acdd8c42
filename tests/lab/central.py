"""The central part of an OVN: Northbound and Southbound databases, and ovn-northd between them."""

from __future__ import annotations

import shlex
import signal

from tests.lab.daemon import LabDaemon, finish
from tests.lab.layout import Layout
from tests.lab.namespace import NamespaceError


class OvnError(Exception):
    """OVN did not start, or did not follow a change; the message holds the end of every daemon's log."""


class Central:
    """The databases are at `nb` and `sb`, in the layout's directories."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.nb = f"unix:{layout.ovn_rundir}/ovnnb_db.sock"
        self.sb = f"unix:{layout.ovn_rundir}/ovnsb_db.sock"
        self.nb_server = self._database_server("ovnnb_db", "nb.db")
        self.sb_server = self._database_server("ovnsb_db", "sb.db")
        self.northd = layout.daemon(
            "ovn-northd", f"--ovnnb-db={self.nb}", f"--ovnsb-db={self.sb}", is_ovn=True, label="ovn-northd"
        )

    def _database_server(self, label: str, file: str) -> LabDaemon:
        rundir = self.layout.ovn_rundir
        remote, database = f"--remote=punix:{rundir}/{label}.sock", str(self.layout.libdir / file)
        return self.layout.daemon(
            "ovsdb-server", remote, database, is_ovn=True, label=label, unixctl=rundir / f"{label}.ctl"
        )

    def start(self) -> None:
        """Start from empty databases."""
        self.layout.create_database("nb.db", "ovn-nb.ovsschema")
        self.layout.create_database("sb.db", "ovn-sb.ovsschema")
        finish(self.nb_server.launch(), self.sb_server.launch())
        self.nbctl("init", wait_hv=False)
        self.northd.start()

    def nbctl(self, *args: str, wait_hv: bool = True, timeout_s: float = 30.0) -> str:
        """Run ovn-nbctl; with `wait_hv`, return when every chassis in the Southbound has followed.

        Raises:
            OvnError: that took longer than `timeout_s`.
            NamespaceError: it refused the command.
        """
        layout = self.layout
        wait = ["--wait=hv"] if wait_hv else []
        argv = [str(layout.tree / "bin/ovn-nbctl"), f"--db={self.nb}", f"--timeout={timeout_s:g}", *wait, *args]
        done = layout.namespace.run(argv, env=layout.env, check=False, timeout_s=timeout_s + 5)
        if done.returncode == -signal.SIGALRM:
            what = shlex.join(args)
            raise OvnError(f"ovn-nbctl {what} was not followed within {timeout_s:g} s\n{layout.log_tails()}")
        if done.returncode != 0:
            raise NamespaceError(f"ovn-nbctl {shlex.join(args)} answered {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def sbctl(self, *args: str, timeout_s: float = 30.0) -> str:
        """Run ovn-sbctl."""
        return self.layout.run("ovn-sbctl", f"--db={self.sb}", f"--timeout={timeout_s:g}", *args, timeout_s=timeout_s)

    def wait_for_chassis(self, *names: str) -> None:
        """Wait until these chassis are in the Southbound and have followed.

        Raises:
            OvnError: they have not.
            NamespaceError: they never registered.
        """
        for name in names:
            # As long as a chassis is not in the Southbound, `--wait=hv` does not wait for it.
            self.sbctl("wait-until", "chassis_private", name, f"name={name}")
        self.nbctl("sync")

    def rebuild_southbound(self) -> None:
        """Replace the Southbound by an empty one that ovn-northd fills again: every row has another UUID."""
        self.sb_server.stop()
        (self.layout.libdir / "sb.db").unlink()
        self.layout.create_database("sb.db", "ovn-sb.ovsschema")
        self.sb_server.start()
