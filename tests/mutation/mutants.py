"""Small wrong changes to a module's source: each compiles, and each should make a test fail."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.Mod: ast.Add,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed module. `what`: the changed line and what became of it."""

    line: int
    what: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines; texts and annotations are left alone."""
    tree = ast.parse(source)
    # What a decorator is told (frozen, slots) and what NewType or Final say is checked by the type checker.
    decorators = {
        id(node) for owner in ast.walk(tree) for d in getattr(owner, "decorator_list", []) for node in ast.walk(d)
    }
    for index, node in enumerate(ast.walk(tree)):
        if id(node) in decorators:
            continue
        for variant in range(len(_changes(node))):
            changed = copy.deepcopy(tree)
            target = next(other for number, other in enumerate(ast.walk(changed)) if number == index)
            before = ast.unparse(target)
            replacement = _changes(target)[variant]
            _replace(changed, target, replacement)
            yield Mutant(getattr(node, "lineno", 0), f"{before}  →  {ast.unparse(replacement)}", ast.unparse(changed))


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list):
                value[:] = [new if item is old else item for item in value]
    ast.fix_missing_locations(tree)


def _changes(node: ast.AST) -> list[ast.AST]:  # noqa: PLR0911 (one line per kind of change)
    """What could stand instead of this node."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=comparators) if type(op) in COMPARISONS:
            return [ast.Compare(left, [other()], comparators) for other in COMPARISONS[type(op)]]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            # `int | None` is an annotation, not arithmetic.
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            is_type = any(isinstance(n, ast.Constant) and n.value is None for n in ast.walk(node)) or names & {"bytes"}
            return [] if is_type else [ast.BinOp(left, OPERATORS[type(op)](), right)]
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            return [ast.BoolOp(other, values), *(ast.BoolOp(op, [v for v in values if v is not left_out])
                    for left_out in values if len(values) > 2)]  # fmt: skip
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [operand]
        case ast.Constant(value=bool() as value):
            return [ast.Constant(not value)]
        case ast.Constant(value=int() as value):
            return [ast.Constant(value + 1)]
        case ast.If(test=test, body=body, orelse=orelse):
            return [ast.If(ast.Constant(value=False), body, orelse)] if not isinstance(test, ast.Constant) else []
        case ast.Continue():
            return [ast.Break()]
        case ast.Break():
            return [ast.Continue()]
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            return [ast.Pass()]
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            return [ast.Return(ast.Constant(None))]
    return []
