"""Debian's kernels, unpacked beside the machine's own software: nothing is installed, nothing is booted here.

`kernel("6.1")` is bookworm's (ignores CTA_ZONE in a flush), `kernel("6.12")` the one in bookworm-backports (honours
it). They are kept in the same cache as the lab's OVN trees, checked against their manifest when first used in a
process, and fetched anew when missing or damaged. Standard library only: `python3 -m tests.qemu.kernels` fetches
ahead of time.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.lab.apt import AptError, Archive, PrivateApt, machine_archive
from tests.lab.debian import _is_intact, _locked, _manifest, cache_directory

SUITES: Final = {"6.1": "bookworm", "6.12": "bookworm-backports"}
METAPACKAGE: Final = "linux-image-amd64"
LAYOUT: Final = "1"
"""Changes when what an older version of this file unpacked must not be used."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """An unpacked kernel. `release` as `uname -r` says it inside; `tree` holds `boot/` and `lib/modules/`."""

    release: str
    tree: Path

    @property
    def image(self) -> Path:
        """What QEMU boots."""
        return self.tree / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        """The modules' directory."""
        return self.tree / "lib" / "modules" / self.release


class _WithBackports(Archive):
    """Debian 12 and its backports, whatever release the machine runs."""

    def source(self, suite: str) -> str:
        return super().source("bookworm").replace("bookworm-updates", "bookworm-updates bookworm-backports")


@functools.cache
def kernel(version: str) -> Kernel:
    """The newest kernel of this series in Debian, fetched first where it is missing or damaged.

    Raises:
        AptError: it could not be downloaded, with what apt said.
        KeyError: there is no such series in `SUITES`.
    """
    suite = SUITES[version]
    tree = cache_directory() / f"linux-{version}-{LAYOUT}"
    with _locked(tree.parent / f"{tree.name}.lock"):
        if not _is_intact(tree):
            _fetch(suite, tree)
    return Kernel(next(path.name for path in (tree / "lib" / "modules").iterdir()), tree)


def _fetch(suite: str, final: Path) -> None:
    archive = machine_archive()
    sources = _WithBackports(archive.uri, archive.signed_by, archive.trusted)
    with tempfile.TemporaryDirectory(prefix=f".{final.name}-", dir=final.parent) as scratch:
        apt = PrivateApt(Path(scratch, "apt"), suite, sources)
        apt.update()
        needed = apt.closure([f"{METAPACKAGE}/{suite}"])
        image = next((name for name in needed if name.startswith("linux-image-") and name != METAPACKAGE), None)
        if image is None:
            raise AptError(f"{METAPACKAGE} of {suite} needs no kernel image but {', '.join(needed)}")
        (package,) = apt.download([image])
        tree = Path(scratch, "tree")
        subprocess.run(["dpkg", "-x", str(package), str(tree)], check=True)
        (release,) = [path.name for path in (tree / "lib" / "modules").iterdir()]
        subprocess.run(["depmod", "-b", str(tree), release], check=True)
        (tree / "manifest").write_text(_manifest(tree))
        if final.exists():
            final.rename(Path(scratch, "damaged"))
        tree.rename(final)


def main() -> int:
    """Fetch every kernel, and say where they are."""
    for version in SUITES:
        print(f"Linux {kernel(version).release}: {kernel(version).tree}", flush=True)
    return 0


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C"
    try:
        sys.exit(main())
    except AptError as error:
        sys.exit(f"error: {error}")
