"""A fake kernel for every test here that asks for one."""

from __future__ import annotations

import pytest

from tests.fake_kernel import FakeKernel
from tests.netlink_recorder import every_delete_is_limited, recorder  # noqa: F401 (fixtures, used by name)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    """Linux 6.12 as far as conntrack is concerned, with an empty table."""
    fake = FakeKernel()
    fake.install(monkeypatch)
    return fake
