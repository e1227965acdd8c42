"""The fake kernel keeps the same promises as a real one, in each of its generations."""

from __future__ import annotations

import pytest

from tests.backends.contract import KernelContract
from tests.fake_kernel import FakeKernel
from tests.kernel_table import FakeWorld


class TestOnKernelsThatFilterByZone(KernelContract):
    @pytest.fixture
    def world(self, kernel: FakeKernel) -> FakeWorld:
        return FakeWorld(kernel)


class TestOnKernelsThatFilterButKnowNoGuard(KernelContract):
    @pytest.fixture
    def world(self, kernel: FakeKernel) -> FakeWorld:
        kernel.knows_filter = False
        return FakeWorld(kernel)


class TestOnKernelsThatIgnoreTheZone(KernelContract):
    @pytest.fixture
    def world(self, kernel: FakeKernel) -> FakeWorld:
        kernel.filters_by_zone = False
        kernel.knows_filter = False
        return FakeWorld(kernel)
