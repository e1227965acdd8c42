"""YAML text into frozen dataclasses, strictly: an unknown key or a wrong value is refused with its path and line.

A field `interval_s: float` is written `interval: 15s` in the file; all other fields are written as they are named.
The dataclass is the schema: its fields are the keys, its defaults the defaults, its annotations the types.
"""

from __future__ import annotations

import difflib
import math
import re
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from ctctl.errors import ConfigError

T = TypeVar("T")

MAX_DURATION_S: Final = 365 * 86400.0
"""No wait in this program is meant to be longer than a year, and the operating system's timers have limits."""

_UNITS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_DURATION_SUFFIX: Final = "_s"

# YAML 1.1 reads 010 as eight, 1:30 as ninety and `on` as true. Nobody who writes a limit means that.
_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER: Final = re.compile(r"-?((0|[1-9][0-9]{0,17})(\.[0-9]+)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
_NOT_TEXT: Final = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("bool", "int", "float", "null"))
_SHOWN_CHARACTERS: Final = 60


def parse(text: str, schema: type[T], source: str) -> T:
    """`text` as an instance of `schema`, a dataclass whose fields are dataclasses or plain values.

    An empty file is all defaults. `source` names the file in errors.

    Raises:
        ConfigError: not YAML, an unknown or repeated key, or a value of the wrong kind; with file, line and path.
    """
    with _plain_yaml(text, source):
        node = yaml.compose(text, Loader=_Loader)
    if node is None or _is_null(node):
        return schema()
    return _dataclass(node, schema, _Place(source, ""))


def load_plain(path: str) -> object:
    """A YAML file as plain values, for a consumer that checks them itself.

    Raises:
        OSError: it cannot be read.
        ConfigError: it is not YAML; names file and line.
    """
    text = Path(path).read_text(encoding="utf-8")
    with _plain_yaml(text, path):
        return yaml.safe_load(text)


@contextmanager
def _plain_yaml(text: str, source: str) -> Iterator[None]:
    """Turns whatever PyYAML raises about `text` into one line with its place."""
    try:
        yield
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{source}:{line}: not plain YAML: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = source if mark is None else f"{source}:{mark.line + 1}"
        raise ConfigError(_printable(f"{where}: not plain YAML: {error.problem or error.context}")) from error
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{source}: not plain YAML: a character that does not exist ({error})") from error
    except RecursionError as error:
        raise ConfigError(f"{source}: not plain YAML: nested too deeply") from error


def key_of(field: Field[Any]) -> str:
    """The key under which a field stands in the file."""
    return field.name.removesuffix(_DURATION_SUFFIX) if is_duration(field) else field.name


def parse_duration(text: str) -> float:
    """`15s`, `500ms`, `2m`, `1m30s` in seconds.

    Raises:
        ValueError: anything else, a bare number included: it has no unit; or more than a year.
    """
    if not re.fullmatch(f"({_DURATION.pattern})+", text):
        raise ValueError(text)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))
    if seconds > MAX_DURATION_S:
        raise ValueError(text)
    return seconds


class _Loader(yaml.SafeLoader):
    """Builds nodes only; a tag would be obeyed by nobody here, so it is refused instead of ignored."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            raise yaml.composer.ComposerError(None, None, "tags such as !!int are not understood", event.start_mark)
        found: yaml.Node | None = super().compose_node(parent, index)
        return found


class _Place:
    """Where in which file a value stands, for errors."""

    def __init__(self, source: str, path: str) -> None:
        self._source = source
        self.path = path

    def below(self, key: str) -> _Place:
        return _Place(self._source, f"{self.path}.{key}" if self.path else key)

    def error(self, node: yaml.Node, problem: str) -> ConfigError:
        where = f"{self._source}:{node.start_mark.line + 1}"
        return ConfigError(_printable(f"{where}: {self.path}: {problem}" if self.path else f"{where}: {problem}"))


def _dataclass(node: yaml.Node, schema: type[T], place: _Place) -> T:
    if _is_null(node):
        return schema()
    if not isinstance(node, yaml.MappingNode):
        raise place.error(node, f"expected keys and values, got {_shown(node)}")
    hints = get_type_hints(schema)
    by_key = {key_of(field): field for field in fields(schema)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise place.error(key_node, f"expected a key, got {_shown(key_node)}")
        key = str(key_node.value)
        field = by_key.get(key)
        here = place.below(_cut(key))
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
    text = str(node.value)
    is_quoted = node.style is not None
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _word(node, kind, place)
    if kind is str and "\0" not in text:
        if node.tag not in _NOT_TEXT:
            return text
        raise place.error(node, f"expected text, got {_shown(node)}; put it in quotes")
    if kind is bool and not is_quoted and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind is int and not is_quoted and _WHOLE.fullmatch(text):
        return int(text)
    if kind is float and not is_quoted and _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
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
    return "a list" if isinstance(node, yaml.SequenceNode) else f"`{_cut(node.value)}`"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _printable(text: str) -> str:
    """One line that no terminal acts on, whatever the file holds."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _hint(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word[:_SHOWN_CHARACTERS], list(known), n=1)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(sorted(known))}"


_KIND_NAMES: Final[Mapping[Any, str]] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
