"""The status page answers an operator's questions, and no name in it can become markup."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from ctctl.errors import UnavailableError
from ctctl.metrics.page import wording
from ctctl.metrics.page.history import STEPS, History
from ctctl.metrics.page.markup import Markup, element, joined
from ctctl.metrics.page.problems import Severity, problems
from ctctl.metrics.page.status_page import StatusPage
from ctctl.metrics.page.style import CONTENT_SECURITY_POLICY, SCRIPT, STYLE
from ctctl.model.actions import RouterChange
from ctctl.model.capability import Capability, Probe
from ctctl.model.counts import TableStats
from ctctl.model.flush import Strategy, Switch, Trigger
from ctctl.model.ids import ZoneId
from ctctl.model.instant import Instant
from ctctl.model.record import Record, RecordKind
from ctctl.model.snapshot import DatabaseState, Snapshot, TargetInfo
from ctctl.model.zone import MalformedKey, Zone
from tests.metrics.snapshots import NOW, before, busy_snapshot, count_of, empty_snapshot, router_zones, table_stats

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\"'&<svg onload=alert(1)>\u202e"


class Document(HTMLParser):
    """What a browser would make of the page: elements, their attributes, and the text outside of scripts and style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._silent = 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._silent += tag in ("script", "style")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.text += data + "\n"


def html_of(snapshot: Snapshot | None, read: object = table_stats, history: History | None = None) -> str:
    page = StatusPage("/metrics", lambda: snapshot, read, lambda: NOW, history or History())  # type: ignore[arg-type]
    return page.html()


def text_of(snapshot: Snapshot | None) -> str:
    return Document(html_of(snapshot)).text


def test_a_stalled_vswitchd_is_the_first_thing_said_with_how_long() -> None:
    document = Document(html_of(busy_snapshot()))
    assert document.text.index("ovs-vswitchd has not answered for 4.5 s, and 2 more") < document.text.index(
        "Is vswitchd"
    )
    assert "Yes, for 4.5 s" in document.text


def test_it_says_what_a_router_creation_would_cost_and_what_would_cure_it() -> None:
    text = text_of(busy_snapshot())
    assert "0.92 s" in text
    assert "a dump of the whole table per zone; 88 ms with OVS 3.4 or later on Linux 6.8 or later" in text
    assert "nothing measured yet" in text_of(empty_snapshot())


def test_it_names_the_largest_routers_and_zones_with_their_share() -> None:
    zones = (*router_zones(12, "small"), *router_zones(14, "large"))
    text = text_of(replace(busy_snapshot(), zones=zones, count=count_of({12: 10, 14: 700, 15: 200, 99: 90})))
    rows = text[text.index("Largest routers") :]
    assert rows.index("large\n14, 15\n900\n90 %") < rows.index("small\n12, 13\n10\n1.0 %")
    assert "99\nunknown\n" in rows


def test_it_tells_what_was_done_newest_first() -> None:
    text = text_of(busy_snapshot())
    assert text.index("zone 14 held: over_budget") < text.index("router r1 ready in 0.41s")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"is_paused": True}, "ctctl resume"),
        ({"is_braked": True}, "mass-change brake"),
        ({"switch": Switch.OBSERVE}, "flush.switch is observe"),
        ({"is_flusher": False}, "Another flusher holds the lock"),
        ({"count_failing_since": before(90)}, "Counting has failed for 90 s"),
        ({"is_ready": False, "why_not_ready": "no zone map yet"}, "no zone map yet"),
        ({"malformed_keys": (MalformedKey("x", "y"),)}, "ct-zone-x='y'"),
        ({"probes": (Probe(Capability.CONNTRACK, is_supported=False, why="modprobe nf_conntrack"),)}, "modprobe"),
    ],
)
def test_what_is_wrong_is_said_with_its_remedy(changes: dict[str, object], said: str) -> None:
    calm = replace(busy_snapshot(), daemons=(), databases=(), probes=(), malformed_keys=(), stale_entries={})
    calm = replace(calm, zones=router_zones(12, "r1"), oldest_pending=None, pending=0)
    assert problems(calm, "", NOW) == ()
    (problem,) = problems(replace(calm, **changes), "", NOW)  # type: ignore[arg-type]
    assert said in f"{problem.what} {problem.why}"
    assert "Healthy" in text_of(calm)


def test_problems_come_before_notices() -> None:
    severities = [problem.severity for problem in problems(busy_snapshot(), "", NOW)]
    assert severities == sorted(severities, reverse=True)
    assert {Severity.PROBLEM, Severity.NOTICE} <= set(severities)


def test_old_data_is_called_old() -> None:
    assert "nothing new for 90 s" in text_of(replace(busy_snapshot(), at=before(90)))


def test_a_page_without_anything_known_and_one_without_a_table_are_pages_all_the_same() -> None:
    assert "ctctl is starting" in text_of(None)

    def gone() -> TableStats:
        raise UnavailableError("nf_conntrack is not loaded", remedy="modprobe nf_conntrack")

    text = Document(html_of(busy_snapshot(), gone)).text
    assert "Not available" in text
    assert "nf_conntrack is not loaded; modprobe nf_conntrack" in text


def hostile_snapshot() -> Snapshot:
    """Every text that comes from outside is an attempt to break out."""
    zones = tuple(replace(zone, owner=HOSTILE, alias=HOSTILE) for zone in router_zones(12, HOSTILE))
    busy = busy_snapshot()
    return replace(
        busy,
        zones=(*zones, *busy.zones[:2]),
        target=TargetInfo(HOSTILE, HOSTILE, HOSTILE, chassis=HOSTILE),
        why_not_ready=HOSTILE,
        is_ready=False,
        malformed_keys=(MalformedKey(HOSTILE, HOSTILE),),
        probes=tuple(replace(probe, why=HOSTILE) for probe in busy.probes),
        databases=tuple(replace(state, why_lost=HOSTILE) for state in busy.databases),
        daemons=tuple(replace(view, is_up=False, why_down=HOSTILE) for view in busy.daemons),
        records=(Record(before(1), RecordKind.FLUSH, HOSTILE),),
    )


def test_no_name_or_error_text_can_become_markup() -> None:
    safe, hostile = (Document(html_of(snapshot)) for snapshot in (busy_snapshot(), hostile_snapshot()))
    tags = {tag for tag, _ in hostile.elements}
    assert tags <= {tag for tag, _ in safe.elements} | {"small"}
    assert "img" not in tags
    assert [tag for tag, _ in hostile.elements].count("script") == 1
    assert not [name for _, attributes in hostile.elements for name in attributes if name.startswith("on")]
    assert hostile.text.count("<script>alert(1)</script>") >= 8


def test_the_page_needs_nothing_from_elsewhere_and_its_policy_allows_nothing_else() -> None:
    html = html_of(busy_snapshot())
    document = Document(html)
    for tag, attributes in document.elements:
        for name in ("src", "href"):
            target = attributes.get(name) or ""
            assert target.startswith(("/", "data:image/svg+xml;base64,", "")), f"{tag} {name}={target}"
            assert not re.match(r"(https?:)?//", target)
        assert "style" not in attributes
    for content, directive in ((STYLE, "style-src"), (SCRIPT, "script-src")):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in CONTENT_SECURITY_POLICY
        assert content in html
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'")


def test_style_and_script_cannot_end_their_element_early() -> None:
    assert "</" not in STYLE
    assert "</" not in SCRIPT


def test_every_section_has_a_heading_that_names_it_and_every_plot_a_description() -> None:
    document = Document(html_of(busy_snapshot()))
    ids = {attributes["id"] for _, attributes in document.elements if "id" in attributes}
    sections = [attributes for tag, attributes in document.elements if tag == "section"]
    assert sections
    assert all(attributes["aria-labelledby"] in ids for attributes in sections)
    plots = [attributes for tag, attributes in document.elements if tag == "svg"]
    assert len(plots) == 4
    assert all(plot["role"] == "img" and "over the last hour" in (plot["aria-label"] or "") for plot in plots)
    assert ("html", {"lang": "en"}) in document.elements


def test_a_node_of_sixty_five_thousand_zones_gives_a_page_of_the_same_size() -> None:
    zones = tuple(zone for n in range(2, 20_000, 2) for zone in router_zones(n, f"r{n}"))
    zones += tuple(Zone(ZoneId(n), router_zones(1, "x")[0].kind, f"p{n}", f"p{n}") for n in range(20_000, 65_000))
    large = replace(busy_snapshot(), zones=zones, count=count_of(dict.fromkeys(range(2, 65_000), 3)))
    assert len(html_of(large)) < 2 * len(html_of(busy_snapshot()))


def at(seconds: float) -> Instant:
    return Instant(NOW.boot_s + seconds, NOW.wall_s + seconds)


def test_history_keeps_the_worst_stall_and_the_sums_of_each_ten_seconds() -> None:
    history, snapshot = History(), replace(busy_snapshot(), daemons=())
    stalled = replace(busy_snapshot(), daemons=busy_snapshot().daemons)
    history.observe(at(-10), snapshot, 100)
    history.observe(at(0), snapshot, 100)
    busier = replace(
        snapshot.tallies,
        flushes={**snapshot.tallies.flushes, (Trigger.ROUTER_CREATED, Strategy.KERNEL_FILTER): 2},
        router_events={**snapshot.tallies.router_events, RouterChange.CREATED: 29},
    )
    history.observe(at(1), replace(snapshot, tallies=busier), None)
    history.observe(at(2), replace(stalled, tallies=busier), None)
    history.observe(at(3), replace(snapshot, tallies=busier), None)
    _, step = history.steps(at(3))
    assert (step.entries, step.flushes, step.routers_created, step.stall_s) == (100, 2, 3, 6.5)


def test_history_counts_what_happened_before_it_first_looked() -> None:
    history = History()
    history.observe(at(0), None, None)
    history.observe(at(1), busy_snapshot(), None)
    history.observe(at(2), busy_snapshot(), None)
    (step,) = history.steps(at(2))
    assert (step.flushes, step.routers_created) == (5, 26)


def test_history_ends_after_an_hour_and_holds_no_more() -> None:
    history = History()
    for number in range(STEPS + 50):
        history.observe(at(10 * number), None, number)
    steps = history.steps(at(10 * (STEPS + 49)))
    assert (len(steps), steps[0].entries, steps[-1].entries) == (STEPS, 50, STEPS + 49)
    assert history.steps(at(10 * STEPS + 7200)) == ()


def test_history_asks_for_the_tables_size_once_a_step() -> None:
    history = History()
    assert history.needs_entries(at(0))
    history.observe(at(0), None, 5)
    assert not history.needs_entries(at(1))
    assert history.needs_entries(at(10))


def test_a_gap_in_what_is_known_is_a_gap_in_the_plot() -> None:
    history = History()
    for number in (0, 1, 2, 10, 11):
        history.observe(at(10 * number), None, 100)
    html = html_of(busy_snapshot(), history=history)
    assert html.count("Z") >= 2
    area = re.search(r'class="area" d="([^"]+)"', html)
    assert area is not None
    assert area[1].count("M") == 2


def test_markup_escapes_what_is_not_markup() -> None:
    assert element("a", "<b>", href='"x"') == '<a href="&quot;x&quot;">&lt;b&gt;</a>'
    assert element("a", Markup("<b></b>"), hidden=True, title=None, open=False) == "<a hidden><b></b></a>"
    assert joined("<", Markup("<br/>")) == "&lt;<br/>"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.0 ms"), (0.0004, "0.4 ms"), (0.012, "12 ms"), (0.41, "0.41 s"), (9.94, "9.9 s"), (61, "61 s"),
     (3600, "60 min"), (86_400, "24 h"), (1e6, "12 d")],
)  # fmt: skip
def test_durations_are_short(value: float, text: str) -> None:
    assert wording.seconds(value) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 10, "0 %"), (1, 0, "0 %"), (1, 10**6, "< 0.1 %"), (39, 1000, "3.9 %"), (1, 2, "50 %"), (12, 10, "120 %")],
)
def test_shares_are_short_and_never_divide_by_zero(part: int, whole: int, text: str) -> None:
    assert wording.share(part, whole) == text


def test_a_database_that_is_not_on_this_node_is_no_fault() -> None:
    northbound = busy_snapshot().databases[2]
    assert isinstance(northbound, DatabaseState)
    assert not [p for p in problems(busy_snapshot(), "", NOW) if "Northbound" in p.what]
