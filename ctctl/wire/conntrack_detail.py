"""Counts entries by protocol, TCP state and assured: the opt-in detail of a pass."""

from __future__ import annotations

from collections import Counter

from ctctl.model.counts import CountDetail
from ctctl.wire import netlink
from ctctl.wire.conntrack_entry import PROTOCOL_NAMES, TCP_STATE_NAMES
from ctctl.wire.conntrack_quick import traits


class DetailCounter:
    """Adds up one dump."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: Counter[tuple[int, int | None, bool]] = Counter()

    def add(self, block: netlink.Block, start: int, end: int) -> None:
        """Count the entry whose message is `block[start:end]`.

        Raises:
            MalformedMessageError: it is no whole entry.
        """
        self._seen[traits(block, start, end)] += 1

    def result(self) -> CountDetail:
        """What was added so far, by name; numbers without a name stand for themselves."""
        protocols: Counter[str] = Counter()
        states: Counter[str] = Counter()
        assured: Counter[bool] = Counter()
        for (protocol, state, is_assured), count in self._seen.items():
            protocols[PROTOCOL_NAMES.get(protocol, str(protocol))] += count
            if state is not None:
                states[TCP_STATE_NAMES[state] if state < len(TCP_STATE_NAMES) else str(state)] += count
            assured[is_assured] += count
        return CountDetail(
            by_protocol=dict(protocols), by_tcp_state=dict(states), assured=assured[True], unassured=assured[False]
        )
