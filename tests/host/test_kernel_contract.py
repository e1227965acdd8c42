"""The backend on this machine's kernel: the same promises as on the fake."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.backends.contract import KernelContract
from tests.kernel_table import RealWorld
from tests.lab.namespace import Namespace

pytestmark = pytest.mark.host


class TestOnThisKernel(KernelContract):
    @pytest.fixture(scope="class")
    def private(self, _namespaces_work: None) -> Iterator[RealWorld]:
        with Namespace() as namespace:
            yield RealWorld(namespace)

    @pytest.fixture
    def world(self, private: RealWorld) -> RealWorld:
        private.clear()
        return private
