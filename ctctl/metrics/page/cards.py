"""The top of the status page: one line to read if only one is read, and the figures behind the first questions."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from ctctl.metrics.collect_stalls import stall_s
from ctctl.metrics.page import wording
from ctctl.metrics.page.markup import Markup, element
from ctctl.metrics.page.problems import STALL_WORTH_SAYING_S, Problem, Severity
from ctctl.model.counts import TableStats
from ctctl.model.daemon import Daemon, ThreadState
from ctctl.model.instant import Instant
from ctctl.model.snapshot import Snapshot
from ctctl.model.stalls import FlushPath

_STATE_WORDS: Final = {
    ThreadState.RUNNING: "running, or waiting for a CPU",
    ThreadState.SLEEPING: "asleep",
    ThreadState.UNINTERRUPTIBLE: "waiting for a device or a lock",
    ThreadState.STOPPED: "stopped by a signal",
    ThreadState.OTHER: "in another state",
}

_PATH_WORDS: Final = {
    FlushPath.KERNEL_FILTER: "the kernel's zone filter",
    FlushPath.TABLE_DUMP: "a dump of the whole table per zone",
}


def banner(found: tuple[Problem, ...], snapshot: Snapshot | None, now: Instant) -> Markup:
    """The one line to read if only one is read."""
    bad = [problem for problem in found if problem.severity is Severity.PROBLEM]
    if bad:
        more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
        kind, mark, line = "bad", "✖", f"{bad[0].what}{more}"
    elif found:
        kind, mark, line = "fair", "▲", f"Working, {len(found)} to know about"
    else:
        kind, mark, line = "good", "✔", "Healthy"
    age = "" if snapshot is None else f"as of {wording.clock_time(snapshot.at)} UTC"
    is_old = snapshot is not None and now.since(snapshot.at) > 30  # noqa: PLR2004 the agent publishes every second
    if snapshot is not None and is_old:
        age = f"nothing new for {wording.seconds(now.since(snapshot.at))}"
    return element(
        "div",
        element("span", mark, class_="mark", aria_hidden="true"),
        element("strong", line, role="status"),
        element("span", age, class_="age"),
        class_=f"banner {kind}",
    )


def answers(snapshot: Snapshot, stats: TableStats | None, now: Instant) -> Markup:
    """The figures behind the first three questions."""
    cards = (_stall_card(snapshot, now), _cost_card(snapshot), _table_card(stats), _flush_card(snapshot))
    return element("dl", *cards, class_="cards")


def _card(question: str, answer: str, detail: str, kind: str = "", extra: Markup | None = None) -> Markup:
    return element(
        "div",
        element("dt", question),
        element("dd", element("b", answer), element("span", detail), extra or Markup("")),
        class_=f"card {kind}".rstrip(),
    )


def _stall_card(snapshot: Snapshot, now: Instant) -> Markup:
    question = "Is vswitchd stalling?"
    view = next((view for view in snapshot.daemons if view.daemon is Daemon.VSWITCHD), None)
    if view is None:
        return _card(question, "Not known", "no probe yet")
    if not view.is_up:
        return _card(question, "Not reachable", view.why_down, "bad")
    waiting_s = stall_s(view, now)
    if waiting_s >= STALL_WORTH_SAYING_S:
        doing = "" if view.thread is None else f"; its main thread was last seen {_STATE_WORDS[view.thread.state]}"
        detail = f"its main loop does not answer{doing}"
        return _card(question, f"Yes, for {wording.seconds(waiting_s)}", detail, "bad")
    took = view.last_round_trip_s
    return _card(question, "No", "answering" if took is None else f"answered within {wording.seconds(took)}")


def _cost_card(snapshot: Snapshot) -> Markup:
    question = "What would a router creation cost?"
    stalls = snapshot.tallies.stalls
    cost_s = None if stalls.path_in_use is None else stalls.predicted_router_stall_s.get(stalls.path_in_use)
    if stalls.path_in_use is None or cost_s is None:
        return _card(question, "Not known", "nothing measured yet to predict it from")
    detail = f"of a blocked vswitchd, through {_PATH_WORDS[stalls.path_in_use]}"
    cure_s = stalls.predicted_router_stall_s.get(FlushPath.KERNEL_FILTER)
    if stalls.path_in_use is FlushPath.TABLE_DUMP and cure_s is not None:
        detail += f"; {wording.seconds(cure_s)} with OVS 3.4 or later on Linux 6.8 or later"
    return _card(question, wording.seconds(cost_s), detail, "bad" if cost_s >= STALL_WORTH_SAYING_S else "")


def _table_card(stats: TableStats | None) -> Markup:
    question = "How full is the table?"
    if stats is None:
        return _card(question, "Not available", "see What is wrong", "bad")
    if not stats.limit:
        return _card(question, wording.number(stats.entries), "entries, no limit")
    part = stats.entries / stats.limit
    meter = element(
        "meter", wording.share(stats.entries, stats.limit), min=0, max=stats.limit, low=int(0.75 * stats.limit),
        high=int(0.9 * stats.limit), optimum=0, value=stats.entries, aria_label="Table in use",
    )  # fmt: skip
    detail = f"{wording.number(stats.entries)} of {wording.number(stats.limit)} entries"
    is_filling = part >= 0.9  # noqa: PLR2004 where early drops come near
    return _card(question, wording.share(stats.entries, stats.limit), detail, "bad" if is_filling else "", meter)


def _flush_card(snapshot: Snapshot) -> Markup:
    tallies = snapshot.tallies
    verdicts: dict[str, int] = defaultdict(int)
    for (_, verdict), number in tallies.verdicts.items():
        verdicts[verdict] += number
    judged = ", ".join(f"{wording.number(number)} {verdict}" for verdict, number in verdicts.items() if number)
    flushes, holds = sum(tallies.flushes.values()), sum(tallies.flush_holds.values())
    return _card(
        "What has ctctl done?",
        f"{wording.number(flushes)} flushes, {wording.number(holds)} holds",
        f"verdicts since start: {judged or 'none'}; pending: {snapshot.pending}; switch: {snapshot.switch}",
    )
