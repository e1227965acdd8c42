"""Every command that the pages show runs, on a real OVN, and ends as a reader expects."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.lab.agent import PROGRAM, LabAgent
from tests.lab.entries import fill
from tests.lab.ovn import Ovn

pytestmark = pytest.mark.ovn

CLONE = Path(__file__).parents[2]
PAGES = [
    CLONE / "README.md",
    *sorted((CLONE / "docs/how-to").glob("*.md")),
    *sorted((CLONE / "docs/tutorial").glob("*.md")),
]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
# Of these the page shows only the beginning, or they are what this test has started already.
NOT_RUN = ("ctctl agent", "ctctl events --follow")


def examples() -> list[tuple[str, str]]:
    """(page, command) of every ctctl command in a console block."""
    found = []
    for page in PAGES:
        for block in BLOCK.findall(page.read_text()):
            for line in block.splitlines():
                match = re.match(r"[#$] (ctctl [^#;|]*)", line)
                if match and not match[1].strip().startswith(NOT_RUN):
                    found.append((page.name, match[1].strip()))
    return found


def test_there_are_examples() -> None:
    assert len(examples()) >= 10
    assert {page for page, _ in examples()} >= {"README.md", "flush-by-hand.md", "run-it-on-a-node.md"}


def test_every_example_runs(ovn: Ovn) -> None:
    ovn.add_router("r1")
    fill(ovn.namespace, dict.fromkeys(ovn.router_zones("r1"), 5))
    failed = []
    with LabAgent(ovn.namespace, ovn) as agent:
        for page, command in examples():
            words = shlex.split(command)[1:]
            words = [word for word in words if word not in ("--config", "FILE")]
            if words[0] == "flush" and not {"--dry-run", "--yes", "--everywhere"} & set(words):
                words.append("--yes")  # where a reader would be asked
            if words[0] == "check-config":
                done = agent.namespace.run([*PROGRAM, "check-config", agent.config], check=False)
            else:
                done = agent.run(*words)
            if done.returncode not in (0, 3) or "Traceback" in done.stderr:
                failed.append(f"{page}: {command}: {done.returncode} {done.stderr}")
    assert failed == []
