"""Where a daemon's pidfile and control socket are. Reads the run directory; connects to nothing.

A daemon listens at `<rundir>/<daemon>.<pid>.ctl` and writes its pid beside it. The pid may be one of another PID
namespace, and the pidfile may be missing or left over from an earlier life, so the names in the directory count too.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from ctctl.errors import PermissionDeniedError, UnavailableError
from ctctl.model.daemon import Daemon


@dataclass(frozen=True, slots=True)
class ControlSocket:
    """A socket file: its path, the pid in its name (as the daemon itself sees it) and the file's identity.

    A restarted daemon has another pid or, in a container where it is always the same, another inode. `changed_ns`
    only orders files: a change of mode is no restart.
    """

    path: Path
    pid: int
    device: int
    inode: int
    changed_ns: int = field(compare=False)


def control_sockets(rundir: Path, daemon: Daemon) -> tuple[ControlSocket, ...]:
    """Every file that may be the daemon's control socket: the one its pidfile names first, then the newest first.

    Raises:
        PermissionDeniedError: the run directory cannot be read.
        UnavailableError: there is no such directory, or no such socket in it.
    """
    try:
        names = [entry.name for entry in rundir.iterdir()]
        pid = pid_in_file(rundir / f"{daemon}.pid")
    except PermissionError as e:
        raise PermissionDeniedError(
            f"cannot read {e.filename} as uid {os.geteuid()}: {e.strerror}",
            remedy=f"run as the owner of {rundir}, add its group, or grant DAC_READ_SEARCH",
        ) from e
    except OSError as e:
        raise UnavailableError(
            f"cannot read the run directory {rundir} of {daemon}: {e.strerror}",
            remedy=f"start {daemon}, or mount its run directory here and name it",
        ) from e
    name_pattern = re.compile(rf"{re.escape(daemon)}\.([0-9]+)\.ctl")
    sockets = [
        socket
        for name in names
        if (match := name_pattern.fullmatch(name)) is not None
        and (socket := _socket_at(rundir / name, int(match[1]))) is not None
    ]
    if not sockets:
        raise UnavailableError(
            f"no control socket {daemon}.PID.ctl in {rundir}", remedy=f"start {daemon}, or name its run directory"
        )
    return tuple(sorted(sockets, key=lambda s: (s.pid != pid, -s.changed_ns)))


def pid_in_file(path: Path) -> int | None:
    """The pid a pidfile names, None where there is no such file or no number in it (it is being written).

    Raises:
        OSError: the file is there and cannot be read.
    """
    try:
        text = path.read_bytes()[:32].strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() else None


def _socket_at(path: Path, pid: int) -> ControlSocket | None:
    try:
        found = path.stat()
    except OSError:  # gone between the listing and now, which is what a stopping daemon does
        return None
    return ControlSocket(path, pid, found.st_dev, found.st_ino, found.st_ctime_ns)
