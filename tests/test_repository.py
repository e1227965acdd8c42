"""Rules that hold for the repository as a whole, whatever part of it changes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path

import pytest

CLONE = Path(__file__).resolve().parents[1]
ADR = CLONE / "docs" / "adr"

TOP_LEVEL = {
    ".ci",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Containerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "charts",
    "ctctl",
    "dashboards",
    "docs",
    "pyproject.toml",
    "tests",
}

# Where packages come from is the machine's business: apt, pip and npm are configured there.
REGISTRY = re.compile(
    r"\b(?:deb|ftp|http|security|snapshot|archive)[.]debian[.]org|\barchive[.]ubuntu[.]com"
    r"|\bpypi[.]org|\bpythonhosted[.]org|\bregistry[.]npmjs[.]|\bnpmjs[.]com|\bcrates[.]io\b|\bproxy[.]golang[.]org"
)

# Directories that exist on one person's machine only. What Debian, OVS, OVN and Kubernetes prescribe is welcome.
MACHINE_PATH = re.compile(r"(?<![\w.$)}~-])/(?:root|home|work|workspace|Users)/[\w.-]+")
PRESCRIBED = {
    "tests/setup/fresh_root.py",  # a chroot has a home directory for its root user
}


@cache
def tracked() -> list[Path]:
    """Every file that git knows, also where the clone belongs to another user."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    shown = subprocess.run(command, cwd=CLONE, capture_output=True, text=True, check=True).stdout
    return [CLONE / name for name in shown.split("\0") if name and (CLONE / name).is_file()]


def texts() -> list[tuple[str, str]]:
    """Name and text of every tracked file that is text."""
    found = []
    for path in tracked():
        data = path.read_bytes()
        if b"\0" not in data:
            found.append((str(path.relative_to(CLONE)), data.decode("utf-8")))
    return found


def lines_with(pattern: re.Pattern[str], *, but_not: AbstractSet[str] = frozenset()) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts()
        if name not in but_not
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_the_top_level_holds_what_it_is_meant_to_and_nothing_else() -> None:
    assert {path.relative_to(CLONE).parts[0] for path in tracked()} <= TOP_LEVEL


def test_no_file_names_a_package_registry() -> None:
    assert lines_with(REGISTRY) == []


@pytest.mark.parametrize(
    "line", ["deb http://" + "deb.debian" + ".org/debian", "--index-url https://" + "pypi" + ".org/simple"]
)
def test_a_registry_would_be_found(line: str) -> None:
    assert REGISTRY.search(line)


def test_no_file_names_a_directory_of_one_machine() -> None:
    assert lines_with(MACHINE_PATH, but_not=PRESCRIBED) == []


@pytest.mark.parametrize("line", ["cd " + "/home" + "/ann/ctctl", "open('" + "/root" + "/x')"])
def test_a_directory_of_one_machine_would_be_found(line: str) -> None:
    assert MACHINE_PATH.search(line)


@pytest.mark.parametrize("line", ["/var/run/openvswitch/db.sock", "docs/home/index.md", "$(DIR)/root/x"])
def test_a_prescribed_or_relative_path_is_no_finding(line: str) -> None:
    assert not MACHINE_PATH.search(line)


def test_every_link_between_pages_leads_somewhere() -> None:
    dead = []
    for path in (path for path in tracked() if path.suffix == ".md"):
        prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            name = target.partition("#")[0]
            is_elsewhere = re.match(r"[a-z]+:", target)
            if name and not is_elsewhere and not (path.parent / name).exists():
                dead.append(f"{path.relative_to(CLONE)}: {target}")
    assert dead == []


def test_imports_point_from_the_edge_to_the_core() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=CLONE,
        env={"PYTHONPATH": str(CLONE), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


# Decision records


def records() -> list[Path]:
    return sorted(ADR.glob("[0-9]*.md"))


def test_every_record_has_a_number_of_its_own() -> None:
    numbers = [path.name[:4] for path in records()]
    assert len(numbers) == len(set(numbers)), numbers


@pytest.mark.parametrize("path", records(), ids=lambda path: path.name)
def test_a_record_has_its_title_status_and_sections(path: Path) -> None:
    text = path.read_text()
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", path.name)
    assert re.match(rf"# {int(path.name[:4])}\. \S", text)
    assert re.search(r"^Status: (Accepted|Superseded by \[\d{4}\]\(\d{4}-[a-z0-9-]+\.md\))$", text, re.MULTILINE)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


def first(pattern: str, path: Path) -> str:
    found = re.search(pattern, path.read_text(), re.MULTILINE)
    assert found, f"{path} has no line like {pattern}"
    return found[1]


def row_of(path: Path) -> str:
    title, status = first(r"^# \d+\. (.+)$", path), first("^Status: (.+)$", path)
    return f"| [{path.name[:4]}]({path.name}) | {title} | {status} |"


def test_the_index_lists_every_record() -> None:
    rows = [row_of(path) for path in records()]
    listed = [line for line in (ADR / "README.md").read_text().splitlines() if line.startswith("| [")]
    assert listed == rows, "docs/adr/README.md should list:\n" + "\n".join(rows)


# Dependencies


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def requirements() -> dict[str, list[str]]:
    """Requirements of the project by what they are for: run, dev, build."""
    project = tomllib.loads((CLONE / "pyproject.toml").read_text())
    return {
        "run": project["project"]["dependencies"],
        "dev": project["dependency-groups"]["dev"],
        "build": project["build-system"]["requires"],
    }


def names_of(*purposes: str) -> set[str]:
    return {
        normal(re.split(r"[^\w.-]", item, maxsplit=1)[0]) for purpose in purposes for item in requirements()[purpose]
    }


def explained() -> dict[str, list[str]]:
    """Package → its doors, from ADR 0003; no door for what only builds and tests."""
    rows = re.findall(r"^\| `([\w.-]+)` \|(.+)\|$", (ADR / "0003-dependencies.md").read_text(), re.MULTILINE)
    return {
        normal(name): re.findall(r"`(ctctl\.\w+)`", rest.split("|")[1]) if "|" in rest else [] for name, rest in rows
    }


def test_every_dependency_is_explained_and_nothing_else_is() -> None:
    assert set(explained()) == names_of("run", "dev", "build")


def test_every_dependency_has_a_lower_bound_and_a_pin_that_satisfies_it() -> None:
    lines = (CLONE / ".ci" / "constraints.txt").read_text().splitlines()
    pins = {normal(name): version for name, version in (line.split("==") for line in lines if not line.startswith("#"))}
    for requirement in (item for items in requirements().values() for item in items):
        name, bound = requirement.split(">=")
        assert numbers(pins[normal(name)]) >= numbers(bound), requirement


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def imported() -> dict[str, set[str]]:
    """Third-party module → the packages of ctctl that import it."""
    found: dict[str, set[str]] = {}
    for path in (path for path in tracked() if path.suffix == ".py" and path.is_relative_to(CLONE / "ctctl")):
        package = ".".join(path.relative_to(CLONE).with_suffix("").parts[:2])
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [node.module or ""]
            else:
                continue
            for module in (name.partition(".")[0] for name in modules):
                if module != "ctctl" and module not in sys.stdlib_module_names:
                    found.setdefault(module, set()).add(package)
    return found


def test_third_parties_come_in_through_their_doors_only() -> None:
    doors = {{"pyyaml": "yaml"}.get(name, name.replace("-", "_")): set(places) for name, places in explained().items()}
    strangers = {
        module: sorted(places - doors.get(module, set()))
        for module, places in imported().items()
        if places - doors.get(module, set())
    }
    assert strangers == {}
