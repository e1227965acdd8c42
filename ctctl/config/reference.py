"""Describes every setting: the reference page and the JSON Schema, both made from the dataclasses themselves."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from ctctl.config.parse import is_duration, key_of
from ctctl.config.settings import Settings

_DURATION_PATTERN: Final = r"^(\d+(\.\d+)?(ms|s|m|h))+$"

_INTRODUCTION: Final = """# Configuration

Generated from the settings' own definitions; `ctctl check-config FILE` checks a file against them.

The file is YAML. Every key may be left out; unknown keys are refused with file and line. Durations are written with a
unit: `500ms`, `15s`, `2m`, `1m30s`. Flags override the file, the file overrides the defaults. Everything under
`flush:` is read again without a restart, within two seconds of a change.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of the file: its path, what may stand there, what stands there by default, and what it is for."""

    path: str
    kind: str
    default: str
    doc: str


def settings_of(schema: type[Any], prefix: str = "") -> Iterator[Setting]:
    """Every key of a settings class, depth first, in the order of its fields."""
    hints = get_type_hints(schema)
    docs = field_docs(schema)
    for field in fields(schema):
        path = prefix + key_of(field)
        kind = hints[field.name]
        if is_dataclass(kind):
            yield from settings_of(kind, f"{path}.")  # type: ignore[arg-type]
        else:
            yield Setting(path, _kind(field, kind), _default(field), docs[field.name])


def markdown() -> str:
    """The reference page."""
    lines = [_INTRODUCTION]
    for section in fields(Settings):
        kind = get_type_hints(Settings)[section.name]
        lines += [f"\n## `{section.name}`\n", inspect.cleandoc(kind.__doc__ or ""), ""]
        lines += ["| key | values | default | meaning |", "| --- | --- | --- | --- |"]
        for setting in settings_of(kind, f"{section.name}."):
            doc = " ".join(setting.doc.split()).replace("|", "\\|")
            lines.append(f"| `{setting.path}` | {setting.kind} | {setting.default} | {doc} |")
    return "\n".join(lines) + "\n"


def json_schema(schema: type[Any] = Settings) -> dict[str, Any]:
    """A JSON Schema of a settings class that refuses unknown keys, as the parser does."""
    hints = get_type_hints(schema)
    docs = field_docs(schema)
    properties: dict[str, Any] = {}
    for field in fields(schema):
        kind = hints[field.name]
        if is_dataclass(kind):
            properties[key_of(field)] = json_schema(kind)  # type: ignore[arg-type]
        else:
            properties[key_of(field)] = {"description": docs[field.name], **_json_type(field, kind)}
    return {
        "type": ["object", "null"],
        "description": inspect.cleandoc(schema.__doc__ or ""),
        "additionalProperties": False,
        "properties": properties,
    }


def field_docs(schema: type[Any]) -> Mapping[str, str]:
    """The docstring below each field of a settings class.

    Raises:
        KeyError: a field has none; a setting without a description is not finished.
    """
    body = ast.parse(textwrap.dedent(inspect.getsource(schema))).body[0]
    found: dict[str, str] = {}
    previous: ast.stmt | None = None
    for statement in body.body if isinstance(body, ast.ClassDef) else []:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if is_text and isinstance(previous, ast.AnnAssign) and isinstance(previous.target, ast.Name):
            found[previous.target.id] = inspect.cleandoc(str(statement.value.value))  # type: ignore[attr-defined]
        previous = statement
    hints = get_type_hints(schema)
    missing = [f.name for f in fields(schema) if f.name not in found and not is_dataclass(hints[f.name])]
    if missing:
        raise KeyError(f"{schema.__name__}.{missing[0]} has no description")
    return found | {f.name: "" for f in fields(schema) if f.name not in found}


def _kind(field: Field[Any], kind: Any) -> str:
    if is_duration(field):
        return "duration"
    inner = _inner(kind)
    if get_origin(inner) in (tuple, frozenset):
        return f"list of {_kind_name(get_args(inner)[0])}"
    return _kind_name(inner)


def _kind_name(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return " · ".join(f"`{word}`" for word in kind)
    return {str: "text", int: "whole number", float: "number", bool: "`true` · `false`"}[kind]


def _inner(kind: Any) -> Any:
    """What remains of `X | None`."""
    if get_origin(kind) in (Union, types.UnionType):
        return next(a for a in get_args(kind) if a is not type(None))
    return kind


def _default(field: Field[Any]) -> str:
    default: Any = field.default_factory() if field.default_factory is not MISSING else field.default
    if default is None or default in ("", ()):
        return "–"
    if is_duration(field):
        return f"`{default * 1000:g}ms`" if default < 1 else f"`{default:g}s`"
    if isinstance(default, tuple):
        return ", ".join(f"`{item}`" for item in default)
    return f"`{str(default).lower()}`" if isinstance(default, bool) else f"`{default}`"


def _json_type(field: Field[Any], kind: Any) -> dict[str, Any]:
    if is_duration(field):
        return {"type": "string", "pattern": _DURATION_PATTERN}
    inner = _inner(kind)
    if get_origin(inner) in (tuple, frozenset):
        return {"type": "array", "items": _plain(get_args(inner)[0])}
    plain = _plain(inner)
    if inner is kind:
        return plain
    return {**plain, "type": [plain["type"], "null"]} if "type" in plain else plain


def _plain(kind: Any) -> dict[str, Any]:
    if issubclass(kind, StrEnum):
        return {"enum": [word.value for word in kind]}
    return {"type": {str: "string", int: "integer", float: "number", bool: "boolean"}[kind]}


if __name__ == "__main__":
    print(markdown(), end="")  # noqa: T201  # `make docs` redirects it into the reference page
