"""The tables and lists of the status page: who holds the most entries, what happened, what this node is."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from ctctl.metrics.page import wording
from ctctl.metrics.page.markup import Markup, element, section
from ctctl.model.ids import RouterId
from ctctl.model.instant import Instant
from ctctl.model.snapshot import Snapshot
from ctctl.model.zone import Zone

LARGEST: Final = 10
RECORDS: Final = 40


def holders(snapshot: Snapshot) -> Markup:
    """The routers and the zones with the most entries."""
    heading = "Who holds the most entries"
    count = snapshot.count
    if count is None:
        return section("holders", heading, element("p", "Not counted yet."))
    by_router: dict[RouterId, list[Zone]] = defaultdict(list)
    for zone in snapshot.zones:
        if zone.router is not None:
            by_router[zone.router].append(zone)
    sums = {router: sum(count.entries_in(zone.zone) for zone in zones) for router, zones in by_router.items()}
    routers = [
        (by_router[router][0], ", ".join(str(zone.zone) for zone in by_router[router]), inside)
        for router, inside in heapq.nlargest(LARGEST, sums.items(), key=lambda item: item[1])
        if inside > 0
    ]
    router_rows = [
        (_owner(zone), zones, wording.number(inside), wording.share(inside, count.entries))
        for zone, zones, inside in routers
    ]
    owners = {zone.zone: zone for zone in snapshot.zones}
    zone_rows = [
        (
            str(number),
            owners[number].kind.replace("_", " ") if number in owners else "unknown",
            _owner(owners[number]) if number in owners else "",
            wording.number(inside),
            wording.share(inside, count.entries),
        )
        for number, inside in heapq.nlargest(LARGEST, count.entries_by_zone.items(), key=lambda item: item[1])
    ]
    told = (
        f"Counted {wording.clock_time(count.ended)} UTC in {wording.seconds(count.duration_s)}"
        f"{'' if count.is_complete else f', estimated from {count.sampling_ratio:.0%} of the table'}."
    )
    return section(
        "holders",
        heading,
        element("p", told),
        element(
            "div",
            _table(
                "Largest routers", ("Router", "Zones", "Entries", "Share"), router_rows, name_column="Router", numeric=2
            ),
            _table(
                "Largest zones",
                ("Zone", "Kind", "Owner", "Entries", "Share"),
                zone_rows,
                name_column="Owner",
                numeric=3,
            ),
            class_="pair",
        ),
    )


def _owner(zone: Zone) -> str:
    return f"{zone.owner} ({zone.alias})" if zone.alias else zone.owner


def _table(
    caption: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, name_column: str, numeric: int
) -> Markup:
    """A table whose columns from `numeric` on hold numbers, and whose `name_column` alone may wrap."""
    if not rows:
        return element("div", element("p", f"{caption}: none."))

    name = heads.index(name_column)

    def cells(tag: str, texts: tuple[str, ...]) -> Markup:
        kinds = ("n" if at >= numeric else None if at == name else "fixed" for at in range(len(texts)))
        scope = "col" if tag == "th" else None
        return element(
            "tr", *(element(tag, text, class_=kind, scope=scope) for text, kind in zip(texts, kinds, strict=True))
        )

    body = element("tbody", *(cells("td", row) for row in rows))
    table = element("table", element("caption", caption), element("thead", cells("th", heads)), body)
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


def records(snapshot: Snapshot, now: Instant) -> Markup:
    """What happened, newest first."""
    heading = "What ctctl saw and did"
    newest = list(reversed(snapshot.records))[:RECORDS]
    if not newest:
        return section("records", heading, element("p", "Nothing has happened since start."))
    items = (
        element(
            "li",
            element(
                "time",
                wording.clock_time(record.at),
                datetime=wording.iso_time(record.at),
                title=f"{wording.seconds(max(0.0, now.since(record.at)))} ago",
            ),
            element("span", record.kind, class_=f"tag {record.kind}"),
            element("span", record.text, class_="what"),
        )
        for record in newest
    )
    return section("records", heading, element("ol", *items, class_="records"))


def facts(snapshot: Snapshot, now: Instant) -> Markup:
    """What this agent watches, for the one who files a bug."""
    target = snapshot.target
    routers = snapshot.routers
    pairs = (
        ("Routers", f"{routers.known} known, {routers.local} with zones here, {routers.pending} waiting for zones"),
        ("Zones", f"{sum(zone.key is not None for zone in snapshot.zones)} assigned"),
        ("Kernel", target.kernel_release),
        ("Open vSwitch", target.ovs_version),
        ("OVN", target.ovn_version),
        ("Datapath", target.datapath_type),
        ("Running for", wording.seconds(max(0.0, now.since(snapshot.started)))),
        *((database.database, _connection(database.is_configured, database.is_connected))
          for database in snapshot.databases),
        *((f"Can: {probe.capability.replace('_', ' ')}", _probe_answer(probe.is_supported))
          for probe in snapshot.probes),
    )  # fmt: skip
    rows = (element("div", element("dt", name), element("dd", value or "not known")) for name, value in pairs)
    return section("facts", "This node", element("dl", *rows, class_="facts"))


def _connection(is_configured: bool, is_connected: bool) -> str:
    if not is_configured:
        return "not on this node"
    return "connected" if is_connected else "not connected"


def _probe_answer(is_supported: bool | None) -> str:
    if is_supported is None:
        return "not known"
    return "yes" if is_supported else "no"
