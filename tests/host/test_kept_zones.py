"""A pass says which zones it kept whole: without that no verdict of a zone with entries can be given."""

from __future__ import annotations

from collections import Counter

import pytest

from ctctl.backends.kernel import KernelReader
from ctctl.clients import clock
from ctctl.model.counts import Keep
from ctctl.model.ids import ZoneId
from tests.lab.entries import fill
from tests.lab.namespace import Namespace

pytestmark = pytest.mark.host


def test_a_pass_names_the_zones_it_was_to_keep_and_has_every_entry_of_them(namespace: Namespace) -> None:
    fill(namespace, {5: 40, 6: 30, 7: 20})
    keep = Keep(zones=frozenset({ZoneId(5), ZoneId(7), ZoneId(99)}))
    found = namespace.call(lambda: KernelReader(clock.now).count(lambda: False, keep))
    assert found.kept == {5, 7, 99}
    assert Counter(s.zone for s in found.sightings) == {5: 40, 7: 20}
