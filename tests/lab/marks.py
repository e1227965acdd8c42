"""Marks for tests that run once per OVN generation or datapath."""

from __future__ import annotations

import pytest

from tests.lab.debian import SUITES

each_generation = pytest.mark.parametrize("suite", SUITES)
"""OVN 23.03 (bookworm, zone keys by UUID) and OVN 25.03 (trixie, zone keys by name)."""

each_datapath = pytest.mark.parametrize("datapath", ["system", "netdev"])
