"""What each make target needs on the machine, beside git, make and Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Need:
    """`package_lists`: files of Debian package names, relative to the clone. `ovn_suites`: the Debian releases whose
    OVN the lab unpacks, `kernels`: series that are booted in QEMU; nothing of either is installed on the machine.
    """

    package_lists: tuple[str, ...] = ()
    ovn_suites: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()


_LAB: Final = "tests/lab/packages.txt"
_FAST: Final = (_LAB, "tests/packages.txt")
_SLOW: Final = (*_FAST, "tests/qemu/packages.txt")
_BOTH: Final = ("bookworm", "trixie")

NEEDS: Final[dict[str, Need]] = {
    "check": Need(),
    "demo": Need((_LAB,), ("trixie",)),
    "test": Need(_FAST, _BOTH),
    "test-slow": Need(_SLOW, _BOTH, ("6.1", "6.12")),
    "test-fresh": Need(("tests/setup/packages.txt",)),
}
