"""The status page: one self-contained document that answers what an operator asks first.

Is this node healthy, is vswitchd stalling now, what would a router creation cost, which routers and zones hold the
most entries, what did ctctl verify, flush or hold and why, what is wrong with the set-up. Reads, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import ctctl
from ctctl.errors import CtctlError
from ctctl.metrics.collectors import Clock
from ctctl.metrics.page.cards import answers, banner
from ctctl.metrics.page.history import History
from ctctl.metrics.page.markup import Markup, element, joined, section
from ctctl.metrics.page.plots import hour
from ctctl.metrics.page.problems import Problem, Severity, problems
from ctctl.metrics.page.style import CONTENT_SECURITY_POLICY, ICON, SCRIPT, STYLE
from ctctl.metrics.page.tables import facts, holders, records
from ctctl.model.counts import TableStats
from ctctl.model.snapshot import Snapshot


class StatusPage:
    """Makes the page from the last snapshot, the table's size and the last hour; `html` is called from any thread."""

    def __init__(
        self,
        telemetry_path: str,
        snapshot: Callable[[], Snapshot | None],
        read_table_stats: Callable[[], TableStats],
        clock: Clock,
        history: History,
    ) -> None:
        self._telemetry_path = telemetry_path
        self._snapshot = snapshot
        self._read_table_stats = read_table_stats
        self._clock = clock
        self._history = history

    @property
    def content_security_policy(self) -> str:
        """What the page may load and run."""
        return CONTENT_SECURITY_POLICY

    def html(self) -> str:
        """The page as it is now."""
        snapshot, now = self._snapshot(), self._clock()
        stats, table_error = self._table()
        if snapshot is None:
            found: tuple[Problem, ...] = (Problem(Severity.PROBLEM, "ctctl is starting", "nothing is known yet"),)
            body = joined(banner(found, None, now), _findings(found))
        else:
            found = problems(snapshot, table_error, now)
            body = joined(
                banner(found, snapshot, now),
                answers(snapshot, stats, now),
                _findings(found),
                section("hour", "The last hour", hour(self._history.steps(now), now)),
                holders(snapshot),
                records(snapshot, now),
                facts(snapshot, now),
            )
        return _document(body, snapshot, self._telemetry_path)

    def _table(self) -> tuple[TableStats | None, str]:
        try:
            return self._read_table_stats(), ""
        except CtctlError as error:
            return None, str(error)


def _findings(found: tuple[Problem, ...]) -> Markup:
    if not found:
        return section("wrong", "What is wrong", element("p", "Nothing that ctctl can see."))
    items = (
        element(
            "li",
            element("strong", problem.what),
            element("span", problem.why),
            class_="bad" if problem.severity is Severity.PROBLEM else "fair",
        )
        for problem in found
    )
    return section("wrong", "What is wrong", element("ul", *items, class_="findings"))


def _document(body: Markup, snapshot: Snapshot | None, telemetry_path: str) -> str:
    chassis = snapshot.target.chassis if snapshot else ""
    title = f"ctctl · {chassis}" if chassis else "ctctl"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("noscript", element("meta", http_equiv="refresh", content="10")),
        element("title", title),
        element("link", rel="icon", href=ICON),
        element("style", STYLE),
    )
    header = element(
        "header",
        element("h1", "ctctl", element("small", chassis) if chassis else Markup("")),
        element("button", "Pause refresh", id="refresh", type="button", hidden=True, aria_pressed="false"),
    )
    links = ((telemetry_path, "Metrics"), ("/-/ready", "Readiness"), ("/-/healthy", "Liveness"))
    footer = element(
        "footer",
        element("nav", *(element("a", text, href=path) for path, text in links), aria_label="Endpoints"),
        element("span", f"ctctl {ctctl.__version__}. This page only reads; nothing can be changed over HTTP."),
    )
    page = element("body", header, element("main", body, id="main"), footer, element("script", SCRIPT))
    return f"<!doctype html>\n{element('html', head, page, lang='en')}\n"
