"""Reader and deleter of one kernel table in one object, for callers that may do both."""

from __future__ import annotations

from ctctl.backends.kernel.costs import FlushCosts
from ctctl.backends.kernel.deleter import KernelDeleter
from ctctl.backends.kernel.reader import Clock, KernelReader


class KernelBackend(KernelReader, KernelDeleter):
    """`KernelReader` and `KernelDeleter` with shared measurements. Whoever only counts takes a `KernelReader`."""

    def __init__(self, clock: Clock, *, wants_detail: bool = False, sample_above: int | None = None) -> None:
        costs = FlushCosts()
        KernelReader.__init__(self, clock, wants_detail=wants_detail, sample_above=sample_above, costs=costs)
        KernelDeleter.__init__(self, clock, costs=costs)
