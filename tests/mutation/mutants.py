"""Mutants of a Python file: its source with one expression or statement of a function changed."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
NOT_CODE = ("annotation", "returns", "decorator_list")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


class Place(NamedTuple):
    """Where a node hangs in its tree. ``position``: in a list of nodes, else None."""

    parent: ast.AST
    field: str
    position: int | None
    node: ast.AST

    def put(self, node: ast.AST) -> None:
        """Replace the node."""
        if self.position is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.position] = node


@dataclass(frozen=True)
class Mutant:
    """``lines``: those of the node that is changed. ``change``: what it is and what it becomes.

    ``tree``: makes the changed module.
    """

    path: Path
    lines: range
    change: str
    tree: Callable[[], ast.Module]


def mutants_of(path: Path) -> list[Mutant]:
    """All mutants of the functions in a file, in the file's order."""
    source = path.read_text()
    return [
        Mutant(path, _lines(place.node), f"{_shown(place.node)}  ->  {_shown(new)}", _maker(source, number, change))
        for number, place in enumerate(_places(ast.parse(source)))
        for change, new in enumerate(_changes(place.node))
    ]


def _maker(source: str, number: int, change: int) -> Callable[[], ast.Module]:
    def make() -> ast.Module:
        tree = ast.parse(source)
        place = list(_places(tree))[number]
        new = list(_changes(place.node))[change]
        if "lineno" in place.node._attributes:
            ast.copy_location(new, place.node)
        place.put(new)
        return ast.fix_missing_locations(tree)

    return make


def _lines(node: ast.AST) -> range:
    if isinstance(node, ast.If | ast.While):
        node = node.test
    if isinstance(node, ast.comprehension):
        last = max(one.end_lineno or one.lineno for one in (node.iter, *node.ifs))
        return range(node.target.lineno, last + 1)
    first: int = node.lineno  # type: ignore[attr-defined]
    return range(first, (node.end_lineno or first) + 1)  # type: ignore[attr-defined]


def _shown(node: ast.AST) -> str:
    return ast.unparse(node).strip().partition("\n")[0]


def _places(node: ast.AST, in_function: bool = False) -> Iterator[Place]:
    """The nodes of functions' bodies, but for log lines, docstrings, and the texts of errors."""
    if isinstance(node, ast.Raise) or _is_log(node):
        return
    is_function = isinstance(node, FUNCTION)
    for field, value in ast.iter_fields(node):
        if field in NOT_CODE or (is_function and field != "body"):
            continue
        for position, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            if in_function or is_function:
                yield Place(node, field, position, child)
            yield from _places(child, in_function or is_function)


def _is_log(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith("_log.")


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left, ops, comparators):
            for place, op in enumerate(ops):
                for other in COMPARISONS[type(op)]:
                    yield ast.Compare(left, [*ops[:place], other(), *ops[place + 1 :]], comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
            yield from (_joined(op, [*values[:place], *values[place + 1 :]]) for place in range(len(values)))
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            yield ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.If(_, body, orelse):
            yield from (ast.If(ast.Constant(value), body, orelse) for value in (True, False))
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.comprehension(target, of, ifs, is_async):
            for place in range(len(ifs)):
                yield ast.comprehension(target, of, [*ifs[:place], *ifs[place + 1 :]], is_async)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Call(ast.Name(name), arguments, keywords) if name in FUNCTIONS:
            yield ast.Call(ast.Name(FUNCTIONS[name], ast.Load()), arguments, [] if name == "sorted" else keywords)
        case ast.Return(ast.AST() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Continue():
            yield from (ast.Break(), ast.Pass())
        case ast.AugAssign() | ast.Raise() | ast.Break():
            yield ast.Pass()
        case ast.Expr(value) if not isinstance(value, ast.Constant) and not _is_log(node):
            yield ast.Pass()
        case ast.Assign([ast.Subscript()]):
            yield ast.Pass()


def _joined(op: ast.boolop, values: Sequence[ast.expr]) -> ast.AST:
    return values[0] if len(values) == 1 else ast.BoolOp(op, list(values))
