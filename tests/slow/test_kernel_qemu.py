"""The contract inside Debian's kernels: 6.1, which ignores the zone in a flush, and 6.12, which honours it."""

from __future__ import annotations

import os
import re
import sys

import pytest

from tests.qemu import machine
from tests.qemu.kernels import SUITES, kernel

pytestmark = pytest.mark.slow

TIMEOUT_S = 900
INSIDE = (
    *(sys.executable, "-m", "pytest", "-q", "--color=no", "--timeout=600", "-p", "no:cacheprovider"),
    *(
        "-W",
        "ignore::pytest.PytestCacheWarning",
        "tests/host/test_kernel_contract.py",
        "tests/host/test_kernel_namespace.py",
    ),
)
PROBE = """
from ctctl.backends.kernel import KernelReader
from ctctl.clients.clock import now
for probe in KernelReader(now).probe():
    print("PROBE", probe.capability, probe.is_supported)
"""


@pytest.fixture(autouse=True)
def _can_boot() -> None:
    why = machine.why_unavailable()
    if why and os.environ.get("CTCTL_REQUIRE_LAB"):
        pytest.fail(why)
    if why:
        pytest.skip(why)


@pytest.mark.timeout(TIMEOUT_S + 120)
@pytest.mark.parametrize("version", SUITES)
def test_the_contract_holds_on_debians_kernels(version: str) -> None:
    run = machine.run(kernel(version), [*INSIDE], timeout_s=TIMEOUT_S)
    assert run.status == 0, run.console[-8000:]
    passed = re.search(r"(\d+) passed", run.console)
    assert passed is not None, run.console[-8000:]
    assert int(passed[1]) >= 30
    assert "skipped" not in run.console, run.console[-8000:]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("version", "expected"), [("6.1", "False"), ("6.12", "True")])
def test_each_kernel_is_told_from_the_other_by_asking_it(version: str, expected: str) -> None:
    run = machine.run(kernel(version), [sys.executable, "-c", PROBE], timeout_s=240)
    assert run.status == 0, run.console[-4000:]
    assert f"PROBE kernel_zone_flush {expected}" in run.console
    assert "PROBE conntrack True" in run.console
