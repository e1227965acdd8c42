"""What `ctctl doctor` looks at: every capability, permission, version and path, each with what to do about it.

Everything is asked anew and read-only; nothing here can delete. A check that cannot be made says so and why.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from ctctl.backends.kernel import KernelReader
from ctctl.cli.direct import read_local
from ctctl.clients import clock, unixctl
from ctctl.clients.control import NoAgentError, ask
from ctctl.clients.daemon_files import ControlSocket, control_sockets
from ctctl.clients.flusher_lock import FlusherLock
from ctctl.clients.namespace import presence
from ctctl.clients.ovsdb_remote import parse_remotes
from ctctl.config.settings import Settings
from ctctl.decide.estimate import FlushEstimate
from ctctl.decide.stall_prediction import DEFAULT_ZONES_PER_ROUTER, path_in_use, predictions
from ctctl.errors import CtctlError
from ctctl.model.capability import Capability
from ctctl.model.counts import CountPass
from ctctl.model.daemon import Daemon
from ctctl.model.flush import Strategy
from ctctl.model.ovs import DatapathType, LocalView
from ctctl.model.stalls import FlushPath
from ctctl.wire.unixctl import parse_version

ANSWER_TIMEOUT_S: Final = 2.0
NEARLY_FULL: Final = 0.8
LONG_STALL_S: Final = 1.0
"""A router creation that blocks vswitchd for longer than this is what vswitchd itself warns about."""


class State(StrEnum):
    """How a check came out."""

    GOOD = "good"
    NOTE = "note"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: what was found, and what to do about it ("" for nothing)."""

    name: str
    state: State
    found: str
    remedy: str = ""


@dataclass(slots=True)
class Host:
    """What earlier checks found out for later ones."""

    settings: Settings
    local: LocalView | None = None
    count: CountPass | None = None
    ovs_version: str | None = None
    has_filter: bool | None = None


def examine(host: Host) -> list[Check]:
    """Every check, in the order in which a person would make them. Leaves in `host` what later ones may need."""
    found: list[Check] = []
    for look in (_kernel, _table, _database, _vswitchd, _controller, _namespace, _logs, _flush_path, _agent, _state):
        found += look(host)
    return found


def _kernel(host: Host) -> Iterator[Check]:
    probes = {probe.capability: probe for probe in KernelReader(clock.now).probe()}
    conntrack = probes[Capability.CONNTRACK]
    yield Check(
        "conntrack",
        State.GOOD if conntrack.is_supported else State.BAD,
        conntrack.why,
        "" if conntrack.is_supported else "load nf_conntrack_netlink, and run as root or with CAP_NET_ADMIN",
    )
    kernel_filter = probes[Capability.KERNEL_ZONE_FLUSH]
    host.has_filter = kernel_filter.is_supported
    if host.has_filter:
        yield Check("zone filter", State.GOOD, f"this kernel flushes one zone by itself ({platform.release()})")
    elif host.has_filter is None:
        yield Check("zone filter", State.UNKNOWN, kernel_filter.why)
    else:
        found = "this kernel would ignore the zone of a flush; ctctl deletes entry by entry instead"
        yield Check("zone filter", State.NOTE, found, "Linux 6.8 or newer flushes a zone in a tenth of the time")
    dated = probes.get(Capability.TIMESTAMPS)
    if dated is not None and dated.is_supported is False:
        remedy = "sysctl net.netfilter.nf_conntrack_timestamp=1"
        yield Check("timestamps", State.NOTE, "entries are not dated, so less can be proved about them", remedy)
    elif dated is not None:
        yield Check("timestamps", State.GOOD if dated.is_supported else State.UNKNOWN, dated.why)


def _table(host: Host) -> Iterator[Check]:
    reader = KernelReader(clock.now)
    try:
        stats = reader.table_stats()
        host.count = reader.count(lambda: False)
    except CtctlError as error:
        yield Check("table", State.UNKNOWN, str(error))
        return
    share = stats.entries / stats.limit if stats.limit else 0.0
    found = f"{stats.entries} entries of {stats.limit or 'no limit'}, counted in {host.count.duration_s:.3f}s"
    is_full = share >= NEARLY_FULL
    remedy = "raise net.netfilter.nf_conntrack_max, or find who fills it: ctctl zones" if is_full else ""
    yield Check("table", State.BAD if is_full else State.GOOD, found, remedy)


def _database(host: Host) -> Iterator[Check]:
    try:
        host.local = read_local(host.settings)
    except CtctlError as error:
        yield Check("local database", State.BAD, error.what, error.remedy or "")
        return
    if host.local is None:
        remedy = "set ovs.db if it is elsewhere; without OVS zones have no owner"
        yield Check("local database", State.NOTE, f"no OVS on this host ({host.settings.ovs.db})", remedy)
        return
    zones = sum(len(bridge.zone_keys) for bridge in host.local.bridges)
    yield Check("local database", State.GOOD, f"{zones} zone keys, chassis {host.local.chassis or 'without a name'}")
    kinds = {bridge.datapath_type for bridge in host.local.bridges}
    if kinds == {DatapathType.USERSPACE}:
        found = "connections are tracked inside ovs-vswitchd; the kernel's table is not OVN's"
        yield Check("datapath", State.NOTE, found, "ctctl shows zones and stalls here, and deletes nothing")
    elif kinds:
        yield Check("datapath", State.GOOD, " and ".join(sorted(kinds)))
    remote = host.settings.ovn.remote or host.local.ovn_remote
    if remote is None:
        remedy = "set external_ids:ovn-remote, or ovn.remote in the configuration"
        yield Check("southbound", State.NOTE, "no address: routers cannot be told from switches", remedy)
    else:
        yield _address("southbound", remote)


def _address(name: str, remote: str) -> Check:
    try:
        remotes = parse_remotes(remote)
    except CtctlError as error:
        return Check(name, State.BAD, error.what, error.remedy or "")
    return Check(name, State.GOOD, f"{remote} ({len(remotes)} {'address' if len(remotes) == 1 else 'addresses'})")


def _vswitchd(host: Host) -> Iterator[Check]:
    check, version = _daemon(Daemon.VSWITCHD, Path(host.settings.ovs.rundir), host.local is not None)
    host.ovs_version = version
    yield check


def _controller(host: Host) -> Iterator[Check]:
    check, _ = _daemon(Daemon.OVN_CONTROLLER, Path(host.settings.ovn.rundir), host.local is not None)
    yield check


def _daemon(daemon: Daemon, rundir: Path, is_expected: bool) -> tuple[Check, str | None]:
    sockets, why = _sockets(rundir, daemon)
    if not sockets:
        state = State.BAD if is_expected else State.NOTE
        return Check(daemon, state, why, "is it running? set ovs.rundir, ovn.rundir"), None
    began = clock.now()
    try:
        answer = unixctl.call(sockets[0].path, "version", timeout_s=ANSWER_TIMEOUT_S)
    except CtctlError as error:
        return Check(daemon, State.BAD, error.what, error.remedy or "its main loop may be stalled right now"), None
    version = parse_version(answer)
    took_ms = 1000 * clock.now().since(began)
    return Check(daemon, State.GOOD, f"{version or 'unknown version'}, answered in {took_ms:.1f} ms"), version


def _sockets(rundir: Path, daemon: Daemon) -> tuple[tuple[ControlSocket, ...], str]:
    """The daemon's control sockets, and why there are none."""
    try:
        return control_sockets(rundir, daemon), f"no control socket in {rundir}"
    except CtctlError as error:
        return (), error.what


def _namespace(host: Host) -> Iterator[Check]:
    sockets, _ = _sockets(Path(host.settings.ovs.rundir), Daemon.VSWITCHD)
    if not sockets:
        return
    found = presence(str(sockets[0].path))
    if found.is_here is False:
        remedy = "run ctctl in ovs-vswitchd's network namespace, usually the host's (hostNetwork: true)"
        yield Check("network namespace", State.BAD, found.why, remedy)
    else:
        yield Check("network namespace", State.GOOD if found.is_here else State.UNKNOWN, found.why)


def _logs(host: Host) -> Iterator[Check]:
    if host.local is None:
        return
    for name, path in (("ovs log", host.settings.ovs.log), ("ovn log", host.settings.ovn.log)):
        if os.access(path, os.R_OK):
            yield Check(name, State.GOOD, path)
        else:
            remedy = "set ovs.log and ovn.log, or let this user read it; stalls are seen without it, exact lengths not"
            yield Check(name, State.NOTE, f"cannot read {path}", remedy)


def _flush_path(host: Host) -> Iterator[Check]:
    """Which way this vswitchd flushes, why, what a router costs by it now, and what would cure it."""
    kernel = platform.release()
    datapath = _only(host.local)
    path = path_in_use(host.ovs_version, kernel, datapath)
    if path is None or host.count is None:
        yield Check("router creation", State.UNKNOWN, "needs a kernel datapath, vswitchd's version and a count")
        return
    flush_s = FlushEstimate().seconds(host.count).get(Strategy.KERNEL_FILTER, 0.0)
    costs = predictions(host.count.duration_s, flush_s, DEFAULT_ZONES_PER_ROUTER)
    cost_s = costs[path]
    how = {
        FlushPath.KERNEL_FILTER: "asks the kernel to flush one zone, a walk of its table",
        FlushPath.TABLE_DUMP: "reads the whole table for each zone",
    }[path]
    found = (
        f"Open vSwitch {host.ovs_version} on Linux {kernel} {how}: about {cost_s:.3f}s of vswitchd's main thread now"
    )
    if path is FlushPath.TABLE_DUMP:
        other_s = costs[FlushPath.KERNEL_FILTER]
        remedy = f"Open vSwitch 3.4 or newer on Linux 6.8 or newer: about {other_s:.3f}s; or a smaller table"
        yield Check("router creation", State.BAD if cost_s > LONG_STALL_S else State.NOTE, found, remedy)
    else:
        is_long = cost_s > LONG_STALL_S
        yield Check(
            "router creation", State.BAD if is_long else State.GOOD, found, "a smaller table" if is_long else ""
        )


def _only(local: LocalView | None) -> DatapathType:
    kinds = set() if local is None else {bridge.datapath_type for bridge in local.bridges}
    return kinds.pop() if len(kinds) == 1 else DatapathType.UNKNOWN


def _agent(host: Host) -> Iterator[Check]:
    try:
        status = ask(Path(host.settings.control.socket), {"command": "status"}, timeout_s=ANSWER_TIMEOUT_S)
    except NoAgentError:
        yield _lock_without_agent()
        return
    except CtctlError as error:
        yield Check("agent", State.BAD, error.what, error.remedy or "")
        return
    report = status if isinstance(status, dict) else {}
    if report.get("ready"):
        yield Check("agent", State.GOOD, f"ready, switch {report.get('switch')}")
    else:
        yield Check("agent", State.BAD, f"not ready: {report.get('why_not_ready')}", "see its log")
    if report.get("flusher") is False:
        remedy = "find it: `ss -xlp | grep ctctl-flusher`; this agent takes over when it ends"
        yield Check("flusher lock", State.BAD, "another ctctl is the flusher here", remedy)


def _lock_without_agent() -> Check:
    lock = FlusherLock()
    try:
        if lock.acquire():
            return Check("agent", State.NOTE, "no agent runs here", "ctctl agent")
    finally:
        lock.release()
    remedy = "set control.socket to that agent's, or find it: `ss -xlp | grep ctctl-flusher`"
    return Check("agent", State.BAD, "a flusher runs here that this command cannot reach", remedy)


def _state(host: Host) -> Iterator[Check]:
    directory = Path(host.settings.state.dir)
    existing = next((place for place in (directory, *directory.parents) if place.exists()), Path("/"))
    if os.access(existing, os.W_OK):
        yield Check("state directory", State.GOOD, str(directory))
    else:
        remedy = "make it writable for the agent's user, or set state.dir; without it nothing is flushed"
        yield Check("state directory", State.BAD, f"cannot write {directory}", remedy)
