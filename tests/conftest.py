"""Fixtures that every area shares: a private namespace, and a real OVN in it.

Both are real and need root. Where they cannot be had the test is skipped with the reason, or fails when
`CTCTL_REQUIRE_LAB` is set, so that continuous integration cannot skip them unnoticed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.lab.chassis import Datapath
from tests.lab.debian import ovn_tree
from tests.lab.namespace import Namespace, why_unavailable
from tests.lab.ovn import Ovn
from tests.netlink_recorder import every_delete_is_limited, recorder  # noqa: F401  # fixtures of every test

# How long an example takes says something about the machine only. Continuous integration tries the same examples each
# time, so that a change is judged by what it changes; new ones are tried wherever people work.
settings.register_profile("work", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "work")


@pytest.fixture(scope="session")
def _namespaces_work() -> None:
    why = why_unavailable()
    if why is None:
        return
    if os.environ.get("CTCTL_REQUIRE_LAB"):
        pytest.fail(f"the lab {why}")
    pytest.skip(f"the lab {why}")


@pytest.fixture
def namespace(_namespaces_work: None) -> Iterator[Namespace]:
    """A private network namespace with an empty conntrack table, on the real kernel."""
    with Namespace() as namespace:
        yield namespace


@pytest.fixture
def suite() -> str:
    """The Debian release whose OVN `ovn` is; `tests.lab.marks.each_generation` runs a test with each."""
    return "trixie"


@pytest.fixture
def datapath() -> Datapath:
    """The datapath of `ovn`: `system` for the kernel backend, `netdev` where a test parametrises it."""
    return "system"


@pytest.fixture
def ovn(namespace: Namespace, suite: str, datapath: Datapath) -> Iterator[Ovn]:
    """A running OVN in `namespace`, with nothing in it."""
    with Ovn(namespace, ovn_tree(suite), datapath) as ovn:
        yield ovn


@pytest.fixture(scope="session", autouse=True)
def _temporary_directories_can_be_entered(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests that become another user reach their own files: pytest makes the directories above for root alone."""
    if os.geteuid() != 0:
        return
    base = tmp_path_factory.getbasetemp()
    for directory in (base, *base.parents):
        if directory.name.startswith(("pytest-", "popen-")):
            directory.chmod(0o711)
