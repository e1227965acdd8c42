"""OVSDB values as they travel in JSON (RFC 7047 section 5.1) ⇄ plain values, and the requests ctctl makes.

What a row means is not decided here. The requests only read: there is no function that writes, and none is to be added.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ctctl.errors import ProtocolError
from ctctl.wire.jsonrpc import JsonValue

Atom = str | int | float | bool
"""One OVSDB value; a UUID is its text."""

Value = Atom | frozenset[Atom] | Mapping[Atom, Atom]
"""What one column of one row holds."""

Row = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Select:
    """Read `columns` of every row of `table`."""

    table: str
    columns: tuple[str, ...]

    def operation(self) -> dict[str, JsonValue]:
        """This select as an operation of a `transact` request (RFC 7047 section 5.2.2)."""
        return {"op": "select", "table": self.table, "where": [], "columns": list(self.columns)}


def transact_params(database: str, selects: Sequence[Select]) -> list[JsonValue]:
    """The parameters of one `transact` request; the server answers all selects from one state of the database."""
    operations: list[JsonValue] = [select.operation() for select in selects]
    return [database, *operations]


def selected_rows(result: JsonValue, selects: Sequence[Select]) -> dict[str, list[Row]]:
    """The answer to `transact_params(…, selects)`: table → its rows.

    Raises:
        ProtocolError: the server refused an operation, with its words, or answered with something else.
    """
    if not isinstance(result, list):
        raise ProtocolError(f"transact was answered with {_shown(result)}, not with a list")
    # The server appends an error of its own when an operation failed or the commit did.
    for answer in result:
        if isinstance(answer, dict) and answer.get("error") is not None:
            raise ProtocolError(f"the database server refused to read: {answer['error']}: {answer.get('details', '')}")
    if len(result) != len(selects):
        raise ProtocolError(f"transact of {len(selects)} operations was answered with {len(result)} results")
    tables: dict[str, list[Row]] = {}
    for select, answer in zip(selects, result, strict=True):
        rows = answer.get("rows") if isinstance(answer, dict) else None
        if not isinstance(rows, list):
            raise ProtocolError(f"select from {select.table} was answered with {_shown(answer)}, not with rows")
        tables[select.table] = [_row(row, select) for row in rows]
    return tables


def _row(row: JsonValue, select: Select) -> Row:
    if not isinstance(row, dict) or not row.keys() >= set(select.columns):
        raise ProtocolError(f"a row of {select.table} lacks one of {', '.join(select.columns)}: {_shown(row)}")
    return {column: plain_value(row[column]) for column in select.columns}


def plain_value(datum: JsonValue) -> Value:
    """A `<value>` of RFC 7047: an atom, `["uuid", …]`, `["set", […]]` or `["map", [[…, …], …]]`.

    A set of exactly one element travels as the bare atom, so a column that may be empty can give either.

    Raises:
        ProtocolError: none of these.
    """
    match datum:
        case ["map", list(pairs)]:
            return _map(pairs)
        case ["set", list(elements)]:
            return frozenset(_atom(element) for element in elements)
    return _atom(datum)


def _map(pairs: list[JsonValue]) -> Mapping[Atom, Atom]:
    return _text_map(pairs) or dict(_pair(pair) for pair in pairs)


def _text_map(pairs: list[JsonValue]) -> Mapping[Atom, Atom] | None:
    """The map if it is text to text, built without a look at each pair: bridges carry up to 65,535 keys."""
    if not set(map(type, pairs)) <= {list}:
        return None
    try:
        plain: dict[Atom, Atom] = dict(pairs)  # type: ignore[arg-type]  # checked below, in one go
    except (TypeError, ValueError):
        return None
    return plain if {*map(type, plain), *map(type, plain.values())} <= {str} else None


def _pair(pair: JsonValue) -> tuple[Atom, Atom]:
    match pair:
        case [key, value]:
            return _atom(key), _atom(value)
    raise ProtocolError(f"not a pair of an OVSDB map: {_shown(pair)}")


def _atom(datum: JsonValue) -> Atom:
    match datum:
        case str() | bool() | int() | float():
            return datum
        case ["uuid" | "named-uuid", str(text)]:
            return text
    raise ProtocolError(f"not an OVSDB value: {_shown(datum)}")


def text_of(value: Value | None) -> str:
    """A text column's content; "" where an optional one is empty, and the smallest element where there are several.

    A column that the server does not have is None and reads as "" as well.
    """
    if value is None or isinstance(value, Mapping):
        return ""
    if isinstance(value, frozenset):
        return min((str(element) for element in value), default="")
    return str(value)


def text_map_of(value: Value | None) -> Mapping[str, str]:
    """A text → text column such as `external_ids`; empty for anything else.

    The mapping may be the given one: it is not to be modified.
    """
    if not isinstance(value, Mapping):
        return {}
    # RFC 7047 types a map's keys and values, and the columns asked for this way are text to text.
    return value  # type: ignore[return-value]


def _shown(datum: JsonValue) -> str:
    return textwrap.shorten(repr(datum)[:200], width=80, placeholder="…")
