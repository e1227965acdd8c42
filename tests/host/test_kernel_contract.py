"""The backend on this machine's kernel: the same promises as on the fake."""

from __future__ import annotations

import pytest

from tests.backends.contract import KernelContract
from tests.kernel_table import RealWorld
from tests.lab.namespace import Namespace

pytestmark = pytest.mark.host


class TestOnThisKernel(KernelContract):
    @pytest.fixture
    def world(self, namespace: Namespace) -> RealWorld:
        return RealWorld(namespace)
