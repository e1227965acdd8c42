"""`python3 -m tests.setup.fresh_root SUITE… [--run COMMAND…]`: README's commands on freshly unpacked Debian machines.

Each root is minimal Debian with git, make and python3 and nothing else, unpacked under the cache. The committed state
of this clone goes in as a clone of its own; its commands run chrooted, in mount and process namespaces that end with
them, so that nothing stays mounted or running here, however the run ends. Afterwards the root must hold no enabled
service and no policy file that was not there before.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.lab.apt import AptError, machine_archive
from tests.lab.debian import cache_directory
from tests.setup import machine
from tests.setup.errors import SetupError
from tests.setup.interrupts import end_tidily
from tests.setup.paths import CLONE
from tests.setup.services import POLICY

COMMANDS: Final = ("make demo", "make test")
INSIDE: Final = Path("/root/ctctl")

# Runs in the new namespaces, before the chroot. $1 is the root, $2 the command, the rest local package directories.
_ENTER: Final = f"""
set -e
root=$1 command=$2; shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
for directory; do
    mkdir -p "$root$directory"
    mount --bind -o ro "$directory" "$root$directory"
done
cd "$root"
exec chroot "$root" /bin/sh -c "cd {INSIDE} && $command" </dev/null
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tests.setup.fresh_root", description="see the module's docstring")
    parser.add_argument("suites", nargs="+", metavar="SUITE", help="Debian releases by code name")
    parser.add_argument("--run", nargs="+", metavar="COMMAND", default=COMMANDS, help="instead of README's commands")
    parser.add_argument("--keep", action="store_true", help="leave the root there, to look at it")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        print("fresh root: needs root, for mmdebstrap and chroot; run it as root", file=sys.stderr)
        return 2
    results = []
    try:
        for suite in options.suites:
            results += _prove(suite, options.run, is_kept=options.keep)
    except (SetupError, AptError) as error:
        print(f"fresh root: {error}", file=sys.stderr)
        return 2
    print("\n".join(["", "fresh roots:", *(line for _, line in results)]))
    return 0 if all(passed for passed, _ in results) else 1


def _prove(suite: str, commands: Sequence[str], *, is_kept: bool) -> list[tuple[bool, str]]:
    cache_directory().mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix=f"fresh-{suite}-", dir=cache_directory()))
    results = []
    try:
        results.append(_timed(suite, "unpack", partial(_unpack, suite, root)))
        before = _enabled_services(root)
        results += [_timed(suite, command, partial(_run, root, command)) for command in commands]
        added = _enabled_services(root) - before
        results.append((not added, f"  {suite}: services enabled by the set-up: {', '.join(sorted(added)) or 'none'}"))
        is_left = (root / POLICY.relative_to("/")).exists()
        results.append((not is_left, f"  {suite}: {POLICY} {'left behind' if is_left else 'not left behind'}"))
    finally:
        if is_kept:
            print(f"fresh root: kept at {root}", file=sys.stderr)
        else:
            shutil.rmtree(root)
    return results


def _timed(suite: str, name: str, run: Callable[[], int]) -> tuple[bool, str]:
    print(f"\n=== {suite}: {name}", flush=True)
    started = time.monotonic()
    code = run()
    return code == 0, f"  {suite}: {name}: exit {code} after {time.monotonic() - started:.0f} s"


def _unpack(suite: str, root: Path) -> int:
    command: list[str | Path] = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=git,make,python3"]
    command += [f"--aptopt={line}" for line in machine.apt_options()]
    done = subprocess.run([*command, suite, root, "-"], input=machine_archive().source(suite), text=True, check=False)
    if done.returncode != 0:
        raise SetupError(f"mmdebstrap could not unpack {suite}; its own message is above")
    machine.copy_configuration(root)
    target = root / INSIDE.relative_to("/")
    return subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", CLONE, target], check=False).returncode


def _run(root: Path, command: str) -> int:
    environment = machine.environment() | {
        "HOME": "/root",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "TERM": os.environ.get("TERM", "dumb"),
        "CI": "true",
    }
    namespaces = ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child"]
    enter: list[str | Path] = ["/bin/sh", "-c", _ENTER, "enter", root, command, *machine.local_directories()]
    return subprocess.run([*namespaces, *enter], env=environment, check=False).returncode


def _enabled_services(root: Path) -> set[str]:
    links = [*root.glob("etc/systemd/system/*.wants/*"), *root.glob("etc/rc[2-5].d/S*")]
    return {str(path.relative_to(root)) for path in links}


if __name__ == "__main__":
    end_tidily()
    sys.exit(main(sys.argv[1:]))
