"""The last hour as small SVG plots on one time axis; readable without colours and, by their labels, without eyes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ctctl.metrics.page import wording
from ctctl.metrics.page.history import STEP_S, STEPS, Step
from ctctl.metrics.page.markup import Markup, element, joined
from ctctl.model.instant import Instant

_HEIGHT: Final = 40
_QUARTERS: Final = (STEPS / 4, STEPS / 2, 3 * STEPS / 4)
_LONG_STALL_S: Final = 1.0


def hour(steps: Sequence[Step], now: Instant) -> Markup:
    """Four plots, one below the other: table size, stalls, flushes, router creations."""
    last = int(now.boot_s // STEP_S)
    sizes = [step.entries for step in steps if step.entries is not None]
    stalls = [step.stall_s for step in steps]
    flushes, created = (sum(s.flushes for s in steps), sum(s.routers_created for s in steps))
    longest_s = max(stalls, default=0.0)
    size_text = f"now {wording.number(sizes[-1])}, highest {wording.number(max(sizes))}" if sizes else "not available"
    return element(
        "div",
        _row("Table size", size_text, _area(steps, last)),
        _row("vswitchd stalls", f"longest {wording.seconds(longest_s)}", _bars(steps, last, _stall_height, "stall")),
        _row("Flushes", f"{wording.number(flushes)} in the hour", _bars(steps, last, _per(steps, "flushes"), "flush")),
        _row(
            "Routers created",
            f"{wording.number(created)} in the hour",
            _bars(steps, last, _per(steps, "routers_created"), "router"),
        ),
        element(
            "div",
            *(element("span", text) for text in ("−60 min", "−45", "−30", "−15", "now")),
            class_="axis",
            aria_hidden="true",
        ),
        class_="hour",
    )


def _row(title: str, figures: str, drawing: Markup) -> Markup:
    label = element("div", element("strong", title), element("span", figures), class_="plot-label")
    svg = element(
        "svg",
        drawing,
        role="img",
        aria_label=f"{title} over the last hour: {figures}",
        viewBox=f"0 0 {STEPS} {_HEIGHT}",
        preserveAspectRatio="none",
    )
    return element("div", label, svg, class_="plot")


def _grid(first_x: int) -> Markup:
    """Quarter hours, and the part of the hour nothing is known about."""
    quarters = (element("line", class_="grid", x1=x, x2=x, y1=0, y2=_HEIGHT) for x in _QUARTERS)
    void = element("rect", class_="void", x=0, y=0, width=first_x, height=_HEIGHT) if first_x > 0 else Markup("")
    return joined(void, *quarters)


def _x(step: Step, last: int) -> int:
    """Left edge of a step; the newest one ends at the right edge."""
    return STEPS - 1 - (last - step.number)


def _area(steps: Sequence[Step], last: int) -> Markup:
    known = [(_x(step, last), step.entries) for step in steps if step.entries is not None]
    if not known:
        return _grid(STEPS)
    top = max(1, *(entries for _, entries in known)) * 1.1
    path, previous = "", None
    for x, entries in known:
        y = f"{_HEIGHT * (1 - entries / top):.1f}"
        if previous is None or x > previous + 1:
            path += f"{'' if previous is None else f'V{_HEIGHT}Z'}M{x} {_HEIGHT}V{y}"
        path += f"L{x} {y}H{x + 1}"
        previous = x
    return joined(_grid(known[0][0]), element("path", class_="area", d=f"{path}V{_HEIGHT}Z"))


def _per(steps: Sequence[Step], field: str) -> Callable[[Step], tuple[float, str]]:
    """Heights of a count per step, relative to the highest in the hour."""
    highest = max((getattr(step, field) for step in steps), default=0)

    def height(step: Step) -> tuple[float, str]:
        value = getattr(step, field)
        return (value / highest if highest else 0.0), wording.number(value)

    return height


def _stall_height(step: Step) -> tuple[float, str]:
    """A second is a quarter of the height, sixteen seconds the whole: short stalls must be seen beside long ones."""
    if step.stall_s < 0.05:  # noqa: PLR2004 an answer as quick as that is none
        return 0.0, ""
    return min(1.0, (step.stall_s / 16.0) ** 0.5), wording.seconds(step.stall_s)


def _bars(steps: Sequence[Step], last: int, height: Callable[[Step], tuple[float, str]], kind: str) -> Markup:
    bars = []
    for step in steps:
        part, text = height(step)
        if part <= 0:
            continue
        tall = max(part * (_HEIGHT - 2), 3.0)
        is_long = kind == "stall" and step.stall_s >= _LONG_STALL_S
        ago = wording.seconds((last - step.number) * STEP_S)
        bars.append(
            element(
                "g",
                element("title", f"{text}, {ago} ago"),
                element(
                    "rect",
                    class_=f"bar {kind}{' long' if is_long else ''}",
                    x=_x(step, last),
                    y=f"{_HEIGHT - tall:.1f}",
                    width=1,
                    height=f"{tall:.1f}",
                ),
            )
        )
    return joined(_grid(_x(steps[0], last) if steps else STEPS), *bars)
