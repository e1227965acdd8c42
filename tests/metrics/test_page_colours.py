"""The page's colours can be read: WCAG's contrast of 4.5 for text, in both schemes."""

from __future__ import annotations

import re

import pytest

from ctctl.metrics.page.style import STYLE

_LIGHT, _DARK = (
    dict(re.findall(r"--(\w+): (#[0-9a-f]{3,6});", block)) for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", [_LIGHT, _DARK], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("text", "behind"),
    [
        ("ink", "back"), ("ink", "card"), ("soft", "back"), ("soft", "card"), ("accent", "back"), ("accent", "card"),
        ("good", "goodb"), ("fair", "fairb"), ("bad", "badb"), ("soft", "goodb"), ("soft", "fairb"), ("soft", "badb"),
        ("bad", "card"), ("fair", "card"), ("good", "card"),
    ],
)  # fmt: skip
def test_text_stands_out_from_what_is_behind_it(scheme: dict[str, str], text: str, behind: str) -> None:
    assert contrast(scheme[text], scheme[behind]) >= 4.5


def test_the_measure_of_contrast_is_right_at_its_ends() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#777777") == 1
