"""Debian packages: which of a list are missing, and installing them without side effects."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.setup.command import last_word, run
from tests.setup.errors import SetupError
from tests.setup.interrupts import deferred
from tests.setup.services import POLICY, no_service_starts

LOCK_TIMEOUT_S: Final = 300
_APT: Final = (
    "apt-get",
    "--quiet=2",
    f"--option=DPkg::Lock::Timeout={LOCK_TIMEOUT_S}",
    "--option=Dpkg::Options::=--force-confdef",
    "--option=Dpkg::Options::=--force-confold",
)
_QUIET: Final = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1", "APT_LISTCHANGES_FRONTEND": "none"}


def names_in(lists: Iterable[Path]) -> list[str]:
    """The package names in files of one name a line; `#` starts a comment. Sorted, each once."""
    names = set()
    for path in lists:
        for line in path.read_text().splitlines():
            if name := line.partition("#")[0].strip():
                names.add(name)
    return sorted(names)


def missing(names: Sequence[str]) -> list[str]:
    """Those that dpkg does not have installed.

    Raises:
        SetupError: this is no Debian machine, so nothing can be said about its packages.
    """
    if not names:
        return []
    if shutil.which("dpkg-query") is None:
        raise SetupError(f"this target needs Debian 12 or 13 (there is no dpkg here) with {' '.join(names)}")
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package}\n", *names]
    shown = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    present = {
        name for status, _, name in (line.partition(" ") for line in shown.splitlines()) if status == "installed"
    }
    return [name for name in names if name not in present]


def install(names: Sequence[str], policy: Path = POLICY) -> None:
    """Install `names` with apt-get; as root only.

    Raises:
        SetupError: not root, or apt-get could not.
    """
    wanted = " ".join(names)
    if os.geteuid() != 0:
        raise SetupError(f"missing {wanted}; as root: apt-get install --no-install-recommends {wanted}")
    print(f"set-up: installing {wanted}", file=sys.stderr)
    with no_service_starts(policy), deferred():
        # A source that cannot be reached is no reason to stop: the packages may come from another one.
        _apt("update")
        done = _apt("install", "--yes", "--no-install-recommends", "--no-remove", *names)
    if left := missing(names):
        raise SetupError(f"apt-get did not install {' '.join(left)}: {last_word(done, 'E: ')}")


def _apt(*arguments: str) -> subprocess.CompletedProcess[str]:
    give_up = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        done = run([*_APT, *arguments], _QUIET, has_own_session=True)
        # apt waits for dpkg's lock by itself, but not for the one over its package lists.
        is_locked = done.returncode != 0 and "Could not get lock" in done.stdout
        if not is_locked or time.monotonic() > give_up:
            return done
        time.sleep(2)
