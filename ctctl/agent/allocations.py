"""What every ovn-controller on this host says about a zone: its memory is ahead of the keys in the database."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ctctl.clients import unixctl
from ctctl.clients.daemon_files import control_sockets
from ctctl.decide.gate import Refusal
from ctctl.errors import CtctlError
from ctctl.model.daemon import Daemon
from ctctl.model.flush import Reason
from ctctl.model.ids import ZoneId
from ctctl.wire.unixctl import parse_ct_zone_list

TIMEOUT_S: Final = 2.0


def claimed_in_memory(rundir: Path, zone: ZoneId) -> Refusal | None:
    """None when every ovn-controller in `rundir` answers and none has the zone; otherwise why the zone must stay."""
    try:
        sockets = control_sockets(rundir, Daemon.OVN_CONTROLLER)
        for socket in sockets:
            allocated = parse_ct_zone_list(unixctl.call(socket.path, "ct-zone-list", timeout_s=TIMEOUT_S))
            owners = sorted(name for name, number in allocated.items() if number == zone)
            if owners:
                return Refusal(Reason.OWNER_CHANGED, f"ovn-controller has it allocated to {', '.join(owners)}")
    except CtctlError as error:
        return Refusal(Reason.CANNOT_CONFIRM, f"ovn-controller cannot be asked: {error}")
    return None
