"""What each make target needs on the machine, beside git, make and Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from tests.lab.debian import ovn_tree
from tests.metrics.prometheus_tree import prometheus, promtool
from tests.qemu.kernels import kernel


@dataclass(frozen=True, slots=True)
class Need:
    """`package_lists`: files of Debian package names, relative to the clone; these get installed.

    `unpacked`: calls that unpack Debian packages into the cache, or find them there; nothing of these is installed.
    They raise `AptError`.
    """

    package_lists: tuple[str, ...] = ()
    unpacked: tuple[Callable[[], object], ...] = ()


def _tell(step: str) -> None:
    print(f"set-up: OVN of {step}", file=sys.stderr)


_OVN_23: Final = partial(ovn_tree, "bookworm", _tell)
_OVN_25: Final = partial(ovn_tree, "trixie", _tell)

_DEMO: Final = Need(("tests/lab/packages.txt",), (_OVN_25,))
_TEST: Final = Need(
    (*_DEMO.package_lists, "tests/metrics/packages.txt"),
    (*_DEMO.unpacked, _OVN_23, promtool, prometheus),
)
_QEMU: Final = Need(
    (*_TEST.package_lists, "tests/qemu/packages.txt"),
    (*_TEST.unpacked, partial(kernel, "6.1"), partial(kernel, "6.12")),
)

NEEDS: Final[dict[str, Need]] = {
    "check": Need(),
    "demo": _DEMO,
    "test": _TEST,
    "test-slow": Need((*_QEMU.package_lists, "tests/metrics/packages-slow.txt"), _QEMU.unpacked),
    "bench": _TEST,
    "bench-stall": _QEMU,
    "test-fresh": Need(("tests/setup/packages.txt",)),
}
