"""The prediction in words, for `ctctl doctor`: how vswitchd flushes a zone, why, what a router costs, what helps."""

from __future__ import annotations

from typing import assert_never

from ctctl.decide.stall_prediction import FILTER_SINCE_LINUX, FILTER_SINCE_OVS, leading_numbers
from ctctl.model.ovs import DatapathType
from ctctl.model.snapshot import TargetInfo
from ctctl.model.stalls import FlushPath, StallTallies

_CURE = "Open vSwitch ≥ 3.4 on Linux ≥ 6.8"


def stall_advice(target: TargetInfo, tallies: StallTallies, entries: int | None) -> tuple[str, ...]:
    """A few sentences, one a line. `entries`: the size of the conntrack table, None where unknown."""
    path = tallies.path_in_use
    if path is None:
        return (_why_unknown(target),)
    cost_s, cure_s = (tallies.predicted_router_stall_s.get(p) for p in (path, FlushPath.KERNEL_FILTER))
    lines = [_how(path, target)]
    if cost_s is None:
        lines.append("What a router would cost is known after the first count of the table.")
    else:
        table = "" if entries is None else f" with the {entries:,} entries the table has now"
        lines.append(f"Creating one router would block its main thread for about {_seconds(cost_s)}{table}.")
    if path is FlushPath.TABLE_DUMP:
        gain = "" if cure_s is None else f" (about {_seconds(cure_s)} a router)"
        lines.append(f"What helps: {_CURE}{gain}, or a smaller table.")
        lines.append("What does not help: emptying zones beforehand, or another flush; the cost is that of the table.")
    return tuple(lines)


def _how(path: FlushPath, target: TargetInfo) -> str:
    versions = f"Open vSwitch {target.ovs_version} on Linux {target.kernel_release}"
    match path:
        case FlushPath.KERNEL_FILTER:
            return f"{versions} has the kernel delete one zone's entries: one walk of the table for each zone."
        case FlushPath.TABLE_DUMP:
            return f"{versions} reads the whole table for each zone it flushes: {_why_no_filter(target)}."
        case _:
            assert_never(path)


def _why_no_filter(target: TargetInfo) -> str:
    ovs, linux = leading_numbers(target.ovs_version), leading_numbers(target.kernel_release)
    missing = [
        name
        for name, has, since in (("Open vSwitch", ovs, FILTER_SINCE_OVS), ("Linux", linux, FILTER_SINCE_LINUX))
        if has is None or has < since
    ]
    return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} too old for anything else"


def _why_unknown(target: TargetInfo) -> str:
    if target.datapath_type is DatapathType.USERSPACE:
        return "The userspace datapath keeps connections in ovs-vswitchd itself: no table is read to flush a zone."
    if not target.ovs_version:
        return "How ovs-vswitchd flushes a zone is unknown: it does not say its version (is it running and reachable?)."
    return "How ovs-vswitchd flushes a zone is unknown: which datapath it uses is not known yet."


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"  # noqa: PLR2004
