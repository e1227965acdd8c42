"""The command line on its own: what `zones` and `flush` do where no agent runs.

The rules are the agent's: the same map, the same gate, the same check right before sending. Without any OVS on the
host there is no map to ask, and only zones named by number can be flushed.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.progress import track

from ctctl.agent.executor import FLUSH_TIMEOUT_S
from ctctl.agent.reports import Report, flush_report, refusal_report
from ctctl.backends.kernel import KernelDeleter, KernelReader
from ctctl.cli.output import console
from ctctl.clients import clock, state_files
from ctctl.clients.daemon_files import control_sockets
from ctctl.clients.flusher_lock import FlusherLock
from ctctl.clients.namespace import listens_here
from ctctl.clients.ovsdb_reader import LocalOvsdbReader
from ctctl.config.settings import Settings
from ctctl.decide.gate import Conditions, Refusal, confirm, judge
from ctctl.decide.zone_map import resolve
from ctctl.decide.zone_table import rows
from ctctl.errors import PermissionDeniedError, UnavailableError
from ctctl.model.counts import CountPass
from ctctl.model.daemon import Daemon
from ctctl.model.flush import Address, FlushOrder, Reason, Switch, Trigger
from ctctl.model.ids import FlushableZoneId
from ctctl.model.ovs import LocalView
from ctctl.model.zone import Zone, ZoneMap

READ_TIMEOUT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Host:
    """What can be seen without an agent. `local`: None when there is no OVS on this host."""

    local: LocalView | None
    zone_map: ZoneMap
    count: CountPass

    @property
    def zones(self) -> tuple[Zone, ...]:
        """Every zone worth a row."""
        return rows(self.zone_map, self.count, self.local)


def look(settings: Settings) -> Host:
    """Count the table and read the map, where there is one.

    Raises:
        CountIncompleteError: the table could not be counted.
        UnavailableError: OVS is there but cannot be read.
    """
    local = read_local(settings)
    zone_map = ZoneMap() if local is None else resolve(local, None)
    reader = KernelReader(clock.now)
    with console.status(f"counting {_size(reader)} …"):
        return Host(local, zone_map, reader.count(lambda: False))


def _size(reader: KernelReader) -> str:
    try:
        return f"{reader.table_stats().entries:,} entries"
    except UnavailableError:
        return "the table"  # the count itself will say what is wrong


def read_local(settings: Settings) -> LocalView | None:
    """The local database's state, None when this host has no OVS at all.

    Raises:
        UnavailableError: there is a database socket, but it does not let us read.
    """
    first = settings.ovs.db.split(",")[0].strip()
    if first.startswith("unix:") and not _exists(Path(first.removeprefix("unix:"))):
        return None
    with closing(LocalOvsdbReader(settings.ovs.db, settings.ovs.bridge, clock.now)) as reader:
        return reader.read(READ_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class Wish:
    """How the zones are to be flushed: entries with one address only, or only looked at."""

    address: Address | None = None
    is_dry_run: bool = False


def flush(settings: Settings, zones: tuple[FlushableZoneId, ...], wish: Wish) -> list[Report]:
    """Flush zones by number, each after the same checks as an agent makes.

    Raises:
        UnavailableError: OVS is there but cannot be read, so nobody can say whose the zones are.
    """
    lock = FlusherLock()
    is_flusher = lock.acquire()
    try:
        with closing(LocalOvsdbReader(settings.ovs.db, settings.ovs.bridge, clock.now)) as reader:
            return [
                _flush_one(settings, reader, zone, wish, is_flusher=is_flusher)
                for zone in track(zones, "flushing", console=console, transient=True, disable=not console.is_terminal)
            ]
    finally:
        lock.release()


def _flush_one(
    settings: Settings, reader: LocalOvsdbReader, zone: FlushableZoneId, wish: Wish, *, is_flusher: bool
) -> Report:
    has_ovs = read_local(settings) is not None
    local = reader.read(READ_TIMEOUT_S) if has_ovs else None
    zone_map = ZoneMap() if local is None else resolve(local, None)
    known = zone_map.zones.get(zone)
    owner = "" if known is None else known.owner
    refusal = _refusal(settings, zone, local, zone_map, is_flusher=is_flusher)
    if refusal is None and wish.is_dry_run:
        refusal = Refusal(Reason.DRY_RUN, "asked for with --dry-run")
    if refusal is None and local is not None:
        now = clock.now()
        key = None if known is None else known.key
        refusal = confirm(FlushOrder(0, zone, Trigger.MANUAL, owner, None, key, visible=now), local, now)
    if refusal is not None:
        return refusal_report(zone, owner, refusal.reason, refusal.why)
    deleter = KernelDeleter(clock.now)
    if wish.address is None:
        return flush_report(deleter.flush_zone(zone, timeout_s=FLUSH_TIMEOUT_S), owner)
    (outcome,) = deleter.delete_address((zone,), wish.address, timeout_s=FLUSH_TIMEOUT_S)
    return flush_report(outcome, owner)


def _refusal(
    settings: Settings, zone: FlushableZoneId, local: LocalView | None, zone_map: ZoneMap, *, is_flusher: bool
) -> Refusal | None:
    if local is None:
        return _without_ovs(settings, is_flusher=is_flusher)
    conditions = Conditions(
        zone_map=zone_map,
        local=local,
        policy=settings.flush.policy(),
        is_map_fresh=True,
        is_flusher=is_flusher,
        is_paused=state_files.is_paused(Path(settings.state.dir)),
        is_braked=False,
        has_budget=True,
        is_ovn_controller_up=True,
        same_namespace=_is_vswitchd_here(settings),
        has_conntrack=True,
    )
    return judge(zone, Trigger.MANUAL, conditions)


def _is_vswitchd_here(settings: Settings) -> bool | None:
    try:
        return listens_here(str(control_sockets(Path(settings.ovs.rundir), Daemon.VSWITCHD)[0].path))
    except UnavailableError:
        return None


def _without_ovs(settings: Settings, *, is_flusher: bool) -> Refusal | None:
    """What still holds where there is no map: the operator's switch and the lock."""
    if settings.flush.switch is not Switch.ENFORCE:
        return Refusal(Reason(settings.flush.switch.value), f"flush.switch is {settings.flush.switch}")
    if not is_flusher:
        return Refusal(Reason.NOT_THE_FLUSHER, "another ctctl holds the flusher lock of this network namespace")
    if state_files.is_paused(Path(settings.state.dir)):
        return Refusal(Reason.PAUSED, "paused by `ctctl pause`")
    if _has_vswitchd(settings):
        return Refusal(Reason.MAP_NOT_FRESH, f"ovs-vswitchd runs here, but {settings.ovs.db} does not answer")
    return None


def _has_vswitchd(settings: Settings) -> bool:
    """Claims that OVS is on this host although its database cannot be read: then somebody owns the zones."""
    try:
        return bool(control_sockets(Path(settings.ovs.rundir), Daemon.VSWITCHD))
    except UnavailableError:
        return False


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return False
    except PermissionError as error:
        raise PermissionDeniedError(
            f"cannot look for OVS at {path}: permission denied", remedy="run as root, or set ovs.db"
        ) from error
    except OSError as error:
        raise UnavailableError(f"cannot look for OVS at {path}: {error}") from error
    return True
