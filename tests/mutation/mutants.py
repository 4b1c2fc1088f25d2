"""Mutants of a module's source: one small change each, as a reader's slip would make it.

Source: DeMillo, Lipton, Sayward 1978, "Hints on Test Data Selection" (a test is worth the changes it notices).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
    ast.Mult: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed place of one module.

    Attributes:
        place: Position of the node in ``ast.walk`` order, and which of its changes this is.
        line: Line of the changed place, from 1.
        what: The change in words, as ``<= became <``.
        function: Line at which the outermost function begins whose body has the place; None for code of the module or
            a class, which runs once, when it is imported.
        lines: First and last line of the statement that has the place, without the statements within it.
    """

    place: tuple[int, int]
    line: int
    what: str
    function: int | None = None
    lines: tuple[int, int] = (0, 0)


def mutants(source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its source.

    >>> [m.what for m in mutants("def f(a): return not a <= 1")]
    ['return became return None', 'not a <= 1 became a <= 1', '<= became <', '<= became >', '1 became 2']
    """
    tree = ast.parse(source)
    left_out, functions, lines = _left_out(tree), _functions(tree), _lines(tree)
    return [
        Mutant((number, choice), _line(node), what, functions.get(id(node)), lines.get(id(node), (0, 0)))
        for number, node in enumerate(ast.walk(tree))
        if id(node) not in left_out
        for choice, (what, _) in enumerate(_changes(node))
    ]


def mutated(source: str, mutant: Mutant) -> ast.Module:
    """Return the module with that one change made."""
    tree = ast.parse(source)
    number, choice = mutant.place
    node = next(node for at, node in enumerate(ast.walk(tree)) if at == number)
    _, replacement = list(_changes(node))[choice]
    return ast.fix_missing_locations(_Replace(node, replacement()).visit(tree))  # type: ignore[no-any-return]


def _line(node: ast.AST) -> int:
    at = node.target if isinstance(node, ast.comprehension) else node
    return int(at.lineno)  # type: ignore[attr-defined]


def _functions(tree: ast.Module) -> dict[int, int]:
    """Node in the body of a function -> line at which the outermost such function begins, with its decorators."""
    found: dict[int, int] = {}
    for node in ast.walk(tree):  # from the outside to the inside
        if isinstance(node, ast.FunctionDef):
            line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            for part in (part for statement in node.body for part in ast.walk(statement)):
                found.setdefault(id(part), line)
    return found


def _lines(tree: ast.Module) -> dict[int, tuple[int, int]]:
    """Node -> the lines of the innermost statement that has it, up to the first statement within that."""
    found: dict[int, tuple[int, int]] = {}
    for node in ast.walk(tree):  # from the outside to the inside
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            found.update((id(part), (node.lineno, last)) for part in ast.walk(node))
    return found


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.copy_location(self.new, node) if node is self.old else self.generic_visit(node)


def _left_out(tree: ast.Module) -> set[int]:
    """Nodes whose change no behaviour shows: docstrings, annotations, messages, imports, code for type checkers."""
    return {id(part) for node in ast.walk(tree) for root in _silent(node) for part in ast.walk(root)}


def _silent(node: ast.AST) -> list[ast.AST]:
    """Parts of one node that no behaviour shows; each with all below it."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return [node]  # a docstring, a message, an import
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assign(targets=[ast.Name(id="__all__")]):
            return [node]
        case ast.arg(annotation=annotation) | ast.AnnAssign(annotation=annotation):
            return [annotation] if annotation is not None else []
        case ast.FunctionDef():
            return [*node.decorator_list, *([node.returns] if node.returns else [])]
        case ast.ClassDef():
            return list(node.decorator_list)
    return []


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[], ast.AST]]]:
    """The changes of one node: in words, and what makes the changed node."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            for other in COMPARISONS[type(operator)]:
                yield f"{_sign(operator)} became {_sign(other())}", _with_operator(node, at, other)
    elif isinstance(node, ast.BoolOp):
        other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        yield f"{words[0]} became {words[1]}", lambda: ast.BoolOp(other_op, copy.deepcopy(node.values))
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        swapped = ARITHMETIC[type(node.op)]
        yield (
            f"{type(node.op).__name__} became {swapped.__name__}",
            lambda: ast.BinOp(copy.deepcopy(node.left), swapped(), copy.deepcopy(node.right)),
        )
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"{ast.unparse(node)} became {ast.unparse(node.operand)}", lambda: copy.deepcopy(node.operand)
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node)
    else:
        yield from _of_statement(node)


def _of_constant(node: ast.Constant) -> Iterator[tuple[str, Callable[[], ast.AST]]]:
    value = node.value
    if isinstance(value, bool):
        yield f"{value} became {not value}", lambda: ast.Constant(not value)
    elif isinstance(value, int):
        yield f"{value} became {value + 1}", lambda: ast.Constant(value + 1)
    elif isinstance(value, str) and value.isidentifier():
        # a name that the code compares; anything longer is a message
        yield f"{value!r} became {value + '_'!r}", lambda: ast.Constant(value + "_")


def _of_statement(node: ast.AST) -> Iterator[tuple[str, Callable[[], ast.AST]]]:
    if isinstance(node, ast.Return) and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "return became return None", lambda: ast.Return(ast.Constant(None))
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
        yield f"{ast.unparse(node.test)} became its opposite", lambda: _negated(node)
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield f"{ast.unparse(node)[:60]} was left out", ast.Pass
    elif isinstance(node, ast.Continue):
        yield "continue became break", ast.Break
    elif isinstance(node, ast.Break):
        yield "break became continue", ast.Continue
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield (
            "a comprehension's condition was left out",
            lambda: ast.comprehension(copy.deepcopy(node.target), copy.deepcopy(node.iter), [], node.is_async),
        )


def _with_operator(node: ast.Compare, at: int, other: type[ast.cmpop]) -> Callable[[], ast.AST]:
    operators = [other() if number == at else operator for number, operator in enumerate(node.ops)]
    return lambda: ast.Compare(copy.deepcopy(node.left), operators, copy.deepcopy(node.comparators))


def _negated(node: ast.If | ast.IfExp | ast.While) -> ast.AST:
    changed = copy.deepcopy(node)
    changed.test = ast.UnaryOp(ast.Not(), changed.test)
    return changed


def _sign(operator: ast.cmpop) -> str:
    return ast.unparse(ast.Compare(ast.Name("a"), [operator], [ast.Name("a")])).strip("a ")
