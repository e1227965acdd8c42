"""Debian's Prometheus, unpacked into the cache and not installed: no service, no user, only its programs."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.lab.apt import PrivateApt, machine_archive
from tests.lab.debian import cache_directory

SUITE = "bookworm"


@functools.cache
def promtool() -> Path:
    """The `promtool` on PATH, or Debian's, unpacked first where it is missing.

    Raises:
        AptError: it could not be downloaded.
    """
    return _program("promtool")


@functools.cache
def prometheus() -> Path:
    """The `prometheus` on PATH, or Debian's, unpacked first where it is missing.

    Raises:
        AptError: it could not be downloaded.
    """
    return _program("prometheus")


def _program(name: str) -> Path:
    if on_path := shutil.which(name):
        return Path(on_path)
    return _tree() / "usr/bin" / name


def _tree() -> Path:
    final = cache_directory() / f"prometheus-{SUITE}"
    if final.exists():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".prometheus-", dir=final.parent) as scratch:
        apt = PrivateApt(Path(scratch, "apt"), SUITE, machine_archive())
        apt.update()
        (package,) = apt.download(["prometheus"])
        tree = Path(scratch, "tree")
        subprocess.run(["dpkg", "-x", package, tree], check=True)
        try:
            tree.rename(final)
        except FileExistsError:
            # Another process was first; its tree is as good.
            return final
        except OSError:
            if not final.exists():
                raise
    return final
