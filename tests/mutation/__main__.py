"""Changes one thing at a time in the wire layer and the kernel backend, and sees whether a unit test notices.

    python -m tests.mutation [MODULE …]      all of `TARGETS` when none is named

Prints every mutant that survived, and exits 3 when one of them is not among those explained in `survivors.md`. Each
mutant runs in a fork of a process that has imported pytest already; nothing is written to the tree.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import signal
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

import hypothesis  # noqa: F401 (imported once, before the forks)
import pytest

from tests.mutation.mutants import Mutant, mutants

CLONE: Final = Path(__file__).resolve().parents[2]
EXPLAINED: Final = Path(__file__).with_name("survivors.md")
TIMEOUT_S: Final = 120
WIRE: Final = ("tests/wire/test_netlink.py", "tests/wire/test_conntrack.py", "tests/wire/test_conntrack_delete.py",
               "tests/wire/test_conntrack_count.py", "tests/wire/test_conntrack_entry.py")  # fmt: skip
BACKEND: Final = ("tests/backends/test_kernel_costs.py", "tests/backends/test_kernel_deleter.py",
                  "tests/backends/test_kernel_reader.py", "tests/backends/test_kernel_contract_fake.py")  # fmt: skip
TARGETS: Final[dict[str, tuple[str, ...]]] = {
    "ctctl.wire.conntrack_delete": ("tests/wire/test_conntrack_delete.py",),
    "ctctl.wire.conntrack_count": ("tests/wire/test_conntrack_count.py",),
    "ctctl.wire.conntrack_walk": ("tests/wire/test_conntrack_count.py", "tests/wire/test_conntrack_entry.py"),
    "ctctl.wire.netlink": (*WIRE, "tests/clients/test_netlink.py"),
    "ctctl.wire.conntrack": (*WIRE, *BACKEND),
    "ctctl.wire.conntrack_runs": ("tests/wire/test_conntrack_runs.py", "tests/wire/test_conntrack_count.py"),
    "ctctl.wire.conntrack_quick": ("tests/wire/test_conntrack_entry.py",),
    "ctctl.wire.conntrack_entry": ("tests/wire/test_conntrack_entry.py", *BACKEND),
    "ctctl.wire.conntrack_detail": ("tests/wire/test_conntrack_entry.py",),
    "ctctl.wire.sock_diag": ("tests/clients/test_netlink_namespace.py",),
    "ctctl.backends.kernel.costs": BACKEND[:1],
    "ctctl.backends.kernel.deletion": BACKEND[1:],
    "ctctl.backends.kernel.selection": BACKEND[1:],
    "ctctl.backends.kernel.deleter": BACKEND,
    "ctctl.backends.kernel.failures": BACKEND[1:2],
    "ctctl.backends.kernel.table": BACKEND[1:],
    "ctctl.backends.kernel.dump": BACKEND[1:],
    "ctctl.backends.kernel.tally": BACKEND[2:],
    "ctctl.backends.kernel.reader": BACKEND[2:],
}


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module another source."""

    def __init__(self, module: str, source: str) -> None:
        self._module = module
        self._code = compile(source, f"<{module}, changed>", "exec")

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == self._module else None

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)  # noqa: S102 (that is what is tested)


def is_noticed(module: str, mutant: Mutant, tests: tuple[str, ...]) -> bool:
    """Whether a test fails, or does not end, with the mutant in place."""
    child = os.fork()
    if child == 0:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 (a device)
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        sys.meta_path.insert(0, _Changed(module, mutant.source))
        arguments = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        try:
            os._exit(int(pytest.main([*arguments, *tests])))
        except BaseException:  # noqa: BLE001 (whatever it is, it was noticed)
            os._exit(99)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status != 0
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main(names: list[str]) -> int:
    """Run all mutants of the named modules."""
    os.chdir(CLONE)
    sections = EXPLAINED.read_text(encoding="utf-8").split("\n## ")[1:]
    explained = {section.partition("\n")[0].strip(): section for section in sections}
    total, unexplained = 0, 0
    for module in names or TARGETS:
        path = CLONE / Path(*module.split(".")).with_suffix(".py")
        source = path.read_text(encoding="utf-8")
        if is_noticed(module, Mutant(0, "nothing", source), TARGETS[module]):
            print(f"{module}: its tests fail without any change; nothing can be said", flush=True)
            return 1
        found = list(mutants(source))
        survived = [mutant for mutant in found if not is_noticed(module, mutant, TARGETS[module])]
        total += len(found)
        print(f"{module}: {len(found)} mutants, {len(survived)} survived", flush=True)
        for mutant in survived:
            is_explained = f"`{mutant.what}`" in explained.get(module, "")
            unexplained += not is_explained
            print(f"  {path.relative_to(CLONE)}:{mutant.line}  {mutant.what}{'  (explained)' if is_explained else ''}",
                  flush=True)  # fmt: skip
    print(f"{total} mutants, {unexplained} survived without an explanation")
    return 3 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
