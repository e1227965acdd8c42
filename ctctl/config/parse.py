"""YAML text into frozen dataclasses, strictly: an unknown key or a wrong value is refused with its path and line.

A field `interval_s: float` is written `interval: 15s` in the file; all other fields are written as they are named.
The dataclass is the schema: its fields are the keys, its defaults the defaults, its annotations the types.
"""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from ctctl.errors import ConfigError

T = TypeVar("T")

_UNITS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_DURATION_SUFFIX: Final = "_s"


def parse(text: str, schema: type[T], source: str) -> T:
    """`text` as an instance of `schema`, a dataclass whose fields are dataclasses or plain values.

    An empty file is all defaults. `source` names the file in errors.

    Raises:
        ConfigError: not YAML, an unknown or repeated key, or a value of the wrong kind; with file, line and path.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark is not None else source
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"{where}: not YAML: {problem}") from error
    if node is None or _is_null(node):
        return schema()
    return _dataclass(node, schema, _Place(source, ""))


def key_of(field: Field[Any]) -> str:
    """The key under which a field stands in the file."""
    return field.name.removesuffix(_DURATION_SUFFIX) if is_duration(field) else field.name


def parse_duration(text: str) -> float:
    """`15s`, `500ms`, `2m`, `1m30s` in seconds.

    Raises:
        ValueError: anything else, a bare number included: it has no unit.
    """
    if not re.fullmatch(f"({_DURATION.pattern})+", text):
        raise ValueError(text)
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))


class _Place:
    """Where in which file a value stands, for errors."""

    def __init__(self, source: str, path: str) -> None:
        self._source = source
        self.path = path

    def below(self, key: str) -> _Place:
        return _Place(self._source, f"{self.path}.{key}" if self.path else key)

    def error(self, node: yaml.Node, problem: str) -> ConfigError:
        where = f"{self._source}:{node.start_mark.line + 1}"
        return ConfigError(f"{where}: {self.path}: {problem}" if self.path else f"{where}: {problem}")


def _dataclass(node: yaml.Node, schema: type[T], place: _Place) -> T:
    if _is_null(node):
        return schema()
    if not isinstance(node, yaml.MappingNode):
        raise place.error(node, f"expected keys and values, got {_shown(node)}")
    hints = get_type_hints(schema)
    by_key = {key_of(field): field for field in fields(schema)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = str(getattr(key_node, "value", ""))
        field = by_key.get(key)
        here = place.below(key)
        if field is None:
            raise here.error(key_node, "unknown key" + _hint(key, by_key))
        if field.name in values:
            raise here.error(key_node, "given twice")
        kind = hints[field.name]
        values[field.name] = _duration(value_node, here) if is_duration(field) else _value(value_node, kind, here)
    missing = [k for k, f in by_key.items() if f.name not in values and f.default is f.default_factory is MISSING]
    if missing:
        raise place.error(node, f"missing key {missing[0]}")
    try:
        return schema(**values)
    except ValueError as error:
        raise place.error(node, str(error)) from error


def _value(node: yaml.Node, kind: Any, place: _Place) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if type(None) in arguments and _is_null(node):
            return None
        (inner,) = (a for a in arguments if a is not type(None))
        return _value(node, inner, place)
    if is_dataclass(kind):
        return _dataclass(node, kind, place)  # type: ignore[arg-type]
    if origin in (tuple, frozenset):
        return origin(_items(node, arguments[0], place))
    return _scalar(node, kind, place)


def _items(node: yaml.Node, kind: Any, place: _Place) -> list[Any]:
    if not isinstance(node, yaml.SequenceNode):
        raise place.error(node, f"expected a list, got {_shown(node)}")
    return [_value(item, kind, place.below(str(at))) for at, item in enumerate(node.value)]


def _scalar(node: yaml.Node, kind: Any, place: _Place) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        raise place.error(node, f"expected a single value, got {_shown(node)}")
    value = yaml.SafeLoader("").construct_object(node)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _word(node, kind, place)
    if kind is str and not isinstance(value, bool | int | float | type(None)):
        return str(node.value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is kind:
        return value
    raise place.error(node, f"expected {_KIND_NAMES[kind]}, got {_shown(node)}")


def _word(node: yaml.ScalarNode, kind: type[StrEnum], place: _Place) -> StrEnum:
    # YAML 1.1 reads a bare `off` as false; the text as written is what counts here.
    words = [member.value for member in kind]
    if node.value not in words:
        raise place.error(node, f"expected one of {', '.join(words)}, got {_shown(node)}" + _hint(node.value, words))
    return kind(node.value)


def _duration(node: yaml.Node, place: _Place) -> float:
    try:
        return parse_duration(str(node.value))
    except ValueError as error:
        problem = f"expected a duration such as 15s, 500ms or 2m, got {_shown(node)}"
        raise place.error(node, problem) from error


def is_duration(field: Field[Any]) -> bool:
    """Claims that the field holds seconds, written as a duration in the file."""
    return field.name.endswith(_DURATION_SUFFIX)


def _is_null(node: yaml.Node) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, yaml.SequenceNode) else f"`{node.value}`"


def _hint(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(sorted(known))}"


_KIND_NAMES: Final[Mapping[Any, str]] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
