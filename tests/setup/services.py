"""While packages are installed, no service starts.

Debian's maintainer scripts ask `/usr/sbin/policy-rc.d` before they start one, with systemd, without it, and in a
chroot alike; exit code 101 means no. Without such a file everything starts. See
`/usr/share/doc/init-system-helpers/README.policy-rc.d.gz`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.setup.errors import SetupError

POLICY: Final = Path("/usr/sbin/policy-rc.d")
FORBIDDEN: Final = 101
_OURS: Final = f"""#!/bin/sh
# Put here by ctctl's set-up for the duration of one apt-get run. If none is running, delete this file.
exit {FORBIDDEN}
"""


@contextlib.contextmanager
def no_service_starts(policy: Path = POLICY) -> Iterator[None]:
    """A policy file that forbids, removed afterwards. The machine's own one is kept and must forbid as well.

    Raises:
        SetupError: the machine has a policy that lets services start; replacing it is the administrator's business.
    """
    if os.path.lexists(policy) and not _is_ours(policy):
        if not _forbids(policy):
            raise SetupError(
                f"{policy} of this machine lets packages start services; make it exit {FORBIDDEN} for the duration"
            )
        yield
        return
    # Also adopts a file that an earlier run left behind because it was killed.
    policy.write_text(_OURS)
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)


def _is_ours(policy: Path) -> bool:
    try:
        return policy.read_text() == _OURS
    except (OSError, UnicodeDecodeError):
        return False


def _forbids(policy: Path) -> bool:
    try:
        asked = subprocess.run([policy, "ctctl-set-up", "start"], capture_output=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == FORBIDDEN
