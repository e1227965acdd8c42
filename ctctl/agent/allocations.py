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
    except CtctlError as error:
        return Refusal(Reason.CANNOT_CONFIRM, f"ovn-controller cannot be asked: {error}")
    failures: list[CtctlError] = []
    answers = 0
    for socket in sockets:
        try:
            allocated = parse_ct_zone_list(unixctl.call(socket.path, "ct-zone-list", timeout_s=TIMEOUT_S))
        except CtctlError as error:
            failures.append(error)
            continue
        answers += 1
        owners = sorted(name for name, number in allocated.items() if number == zone)
        if owners:
            return Refusal(Reason.OWNER_CHANGED, f"ovn-controller has it allocated to {', '.join(owners)}")
    # A socket that refuses connections was left behind by a controller that is gone, if another one answers.
    serious = [error for error in failures if not (answers and isinstance(error.__cause__, ConnectionRefusedError))]
    if serious or not answers:
        why = serious[0] if serious else "no answer"
        return Refusal(Reason.CANNOT_CONFIRM, f"ovn-controller cannot be asked: {why}")
    return None
