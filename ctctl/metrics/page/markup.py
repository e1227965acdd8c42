"""HTML and SVG that cannot be broken out of: whatever is not already markup is escaped."""

from __future__ import annotations

from html import escape
from typing import Final

_VOID: Final = frozenset({"br", "link", "meta", "path", "rect", "line", "circle"})


class Markup(str):
    """Text that is markup already. Only `element`, and constants of this package, may make one."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: str | float | bool | None) -> Markup:
    """One element. Children that are no Markup are escaped, attribute values always.

    Attribute names: a trailing underscore is dropped (`class_`), others become hyphens (`aria_label`); a value of
    None or False leaves the attribute out, True gives it without a value.
    """
    given = "".join(
        f" {_name(name)}" if value is True else f' {_name(name)}="{escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Markup(f"<{tag}{given}/>")
    inner = "".join(child if isinstance(child, Markup) else escape(child) for child in children)
    return Markup(f"<{tag}{given}>{inner}</{tag}>")


def joined(*parts: str) -> Markup:
    """Several pieces beside each other, escaped where they are no Markup."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def section(name: str, heading: str, *content: Markup) -> Markup:
    """A part of the page with a heading that names it, also to a screen reader."""
    return element("section", element("h2", heading, id=f"{name}-h"), *content, id=name, aria_labelledby=f"{name}-h")


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")
