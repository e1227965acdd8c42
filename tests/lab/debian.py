"""A real OVN of a Debian release, unpacked beside the machine's own software: nothing is installed.

`ovn_tree("bookworm")` is a directory with OVN 23.03 and OVS 3.1 (zone keys by UUID), `ovn_tree("trixie")` one with
OVN 25.03 and OVS 3.5 (zone keys by name). In it:

* `bin/`: every program, as a script that starts it with the tree's own loader, libraries and data files, so that
  either release runs on any Debian;
* `schema/`: the OVSDB schemas;
* `packages`: what was unpacked, one `name_version_architecture.deb` a line.

Trees are kept in `$CTCTL_CACHE` (default `$XDG_CACHE_HOME/ctctl`), checked against their manifest when first used in
a process, and built anew when missing or damaged. Standard library only: `python3 -m tests.lab.debian SUITE…`
fetches ahead of time, on a machine with nothing but python3 and apt.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.apt import AptError, PrivateApt, machine_archive

SUITES = ("bookworm", "trixie")
PACKAGES = ("openvswitch-switch", "openvswitch-common", "ovn-common", "ovn-host", "ovn-central")
KEPT = ("usr/bin", "usr/sbin", "usr/lib", "lib", "usr/share/openvswitch", "usr/share/ovn")
LAYOUT = "1"
"""Changes when a tree built by an older version of this file must not be used."""

Progress = Callable[[str], None]


def cache_directory() -> Path:
    """Where unpacked trees live, outside the clone so that a fresh clone finds them."""
    own = os.environ.get("CTCTL_CACHE")
    if own:
        return Path(own).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ctctl"


def _is_needed(package: str) -> bool:
    """Claims that the package holds OVN, OVS or a shared library; the rest of the closure is interpreters and tools."""
    return package in PACKAGES or (
        package.startswith(("lib", "zlib")) and not package.startswith(("libpython", "libperl"))
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Only one process at a time; the lock ends with its holder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _manifest(tree: Path) -> str:
    """One line per file or link of the tree, sorted: what it holds, and its path."""
    lines = []
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree)
        if path.is_symlink():
            lines.append(f"-> {path.readlink()}  {name}")
        elif path.is_file() and name != Path("manifest"):
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}")
    return "\n".join(lines) + "\n"


def _is_intact(tree: Path) -> bool:
    """Claims that the tree is complete and holds what was unpacked."""
    try:
        return (tree / "manifest").read_text(encoding="utf-8") == _manifest(tree)
    except OSError:
        return False


def _unpack(packages: list[Path], tree: Path) -> None:
    with tempfile.TemporaryDirectory(dir=tree.parent) as everything:
        for package in packages:
            subprocess.run(["dpkg", "-x", str(package), everything], check=True)
        for kept in KEPT:
            # In Debian 12 the C library is in /lib, in Debian 13 in /usr/lib.
            if (source := Path(everything, kept)).is_dir():
                target = tree / kept
                target.parent.mkdir(parents=True, exist_ok=True)
                source.rename(target)
    for needless in ("usr/lib/*/gconv", "lib/*/gconv", "usr/lib/python*", "usr/share/ovn/scripts", "usr/lib/systemd"):
        for path in tree.glob(needless):
            shutil.rmtree(path)


def _write_programs(tree: Path, final: Path) -> None:
    """Scripts that run the tree's programs from where the tree will be."""
    libraries = sorted(
        {p.parent for p in [*tree.glob("usr/lib/*-linux-gnu*/*.so*"), *tree.glob("lib/*-linux-gnu*/*.so*")]}
    )
    library_path = ":".join(str(final / path.relative_to(tree)) for path in libraries)
    loader = next(p for pattern in ("lib/*/ld-linux*.so.*", "usr/lib/*/ld-linux*.so.*") for p in tree.glob(pattern))
    settings = {
        "OVS_PKGDATADIR": final / "usr/share/openvswitch",
        "OVN_PKGDATADIR": final / "usr/share/ovn",
    }
    exports = "".join(f"export {name}={shlex.quote(str(value))}\n" for name, value in settings.items())
    (tree / "bin").mkdir()
    (tree / "loader").mkdir()
    for program in sorted(
        [*tree.glob("usr/bin/ov*"), *tree.glob("usr/sbin/ov*"), *tree.glob("usr/lib/openvswitch-switch/ovs-vswitchd")]
    ):
        with program.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        # A loader under the program's own name, so that the process is called that and not "ld-linux".
        named_loader = tree / "loader" / program.name
        named_loader.symlink_to(Path("..") / loader.relative_to(tree))
        command = [
            final / "loader" / program.name,
            "--argv0", program.name,
            "--library-path", library_path,
            final / program.relative_to(tree),
        ]  # fmt: skip
        script = tree / "bin" / program.name
        script.write_text(f'#!/bin/sh\n{exports}exec {shlex.join(str(word) for word in command)} "$@"\n')
        script.chmod(0o755)
    (tree / "schema").mkdir()
    for schema in [*tree.glob("usr/share/openvswitch/*.ovsschema"), *tree.glob("usr/share/ovn/*.ovsschema")]:
        (tree / "schema" / schema.name).symlink_to(Path("..") / schema.relative_to(tree))


def _build(suite: str, final: Path, say: Progress) -> None:
    for abandoned in final.parent.glob(f".{final.name}-*"):
        shutil.rmtree(abandoned)  # whoever made it was killed: the lock is ours
    with tempfile.TemporaryDirectory(prefix=f".{final.name}-", dir=final.parent) as scratch:
        apt = PrivateApt(Path(scratch, "apt"), suite, machine_archive())
        say(f"{suite}: reading package lists")
        apt.update()
        names = [name for name in apt.closure(PACKAGES) if _is_needed(name)]
        say(f"{suite}: downloading {len(names)} packages")
        packages = apt.download(names)
        say(f"{suite}: unpacking")
        tree = Path(scratch, "tree")
        tree.mkdir()
        _unpack(packages, tree)
        _write_programs(tree, final)
        (tree / "packages").write_text("".join(f"{package.name}\n" for package in packages))
        (tree / "manifest").write_text(_manifest(tree))
        if final.exists():
            final.rename(Path(scratch, "damaged"))
        tree.rename(final)
        try:
            _check_runs(suite, final)
        except AptError:
            final.rename(Path(scratch, "useless"))
            raise


def _check_runs(suite: str, tree: Path) -> None:
    """The scripts name the tree's final place, so it is known only there whether they work."""
    for program in ("ovs-vswitchd", "ovsdb-server", "ovn-controller", "ovn-northd", "ovn-nbctl"):
        done = subprocess.run([tree / "bin" / program, "--version"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AptError(f"{program} of {suite} does not run from {tree}: {done.stderr.strip()}")


def tree_path(suite: str) -> Path:
    """Where the tree of a suite is, or would be."""
    if suite not in SUITES:
        raise ValueError(f"no OVN tree for suite {suite!r}; there are {', '.join(SUITES)}")
    directory = cache_directory()
    recipe = "\n".join([LAYOUT, suite, platform.machine(), str(directory), *PACKAGES, *KEPT])
    return directory / f"ovn-{suite}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def _silent(line: str) -> None:
    del line


@functools.cache
def ovn_tree(suite: str, say: Progress = _silent) -> Path:
    """A complete, verified tree of OVN and OVS from this Debian release; built first where it is missing or damaged.

    Raises:
        AptError: it could not be downloaded, with what apt said.
        ValueError: the suite is none of `SUITES`.
    """
    tree = tree_path(suite)
    with _locked(tree.with_suffix(".lock")):
        if not _is_intact(tree):
            _build(suite, tree, say)
    return tree


def main(suites: list[str]) -> int:
    """Fetch the trees of the named suites (all when none is named), and say where they are."""
    for suite in suites or SUITES:
        begun = time.monotonic()
        tree = ovn_tree(suite, lambda line: print(line, flush=True))
        print(f"{suite}: {tree} ({time.monotonic() - begun:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (AptError, ValueError) as error:
        sys.exit(f"error: {error}")
