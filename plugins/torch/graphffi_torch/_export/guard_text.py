# SPDX-License-Identifier: Apache-2.0
"""Guards of sizes as texts: torch's are read, and written in Python and C++."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# Functions of torch's texts, by what they are called in ours.
_CALLS: Final = {
    **{name: name for name in ("min", "max", "abs", "int", "float")},
    **{"math.trunc": "int", "torch.sym_float": "float"},
    **{"math.floor": "floor", "math.ceil": "ceil"},
}
#: Where these texts are evaluated.
GLOBALS: Final = {"floor": math.floor, "ceil": math.ceil}
_CPP_CALLS: Final = {
    **{"min": "Min", "max": "Max", "abs": "Abs", "int": "Truncated", "float": "double"},
    **{"floor": "Floor", "ceil": "Ceil"},
}
_CPP_OPERATORS: Final[Mapping[type[ast.AST], str]] = {
    **{ast.USub: "-", ast.Not: "!", ast.And: "&&", ast.Or: "||"},
    **{ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="},
}
_CPP_FUNCTIONS: Final[Mapping[type[ast.AST], str]] = {
    **{ast.Add: "Sum", ast.Sub: "Difference", ast.Mult: "Product", ast.Div: "Quotient"},
    **{ast.FloorDiv: "FloorDiv", ast.Mod: "Mod", ast.Pow: "Power"},
}


class UnreadableGuardError(Exception):
    """A guard of an unknown form, or of other things than sizes of tensors."""


@dataclass(frozen=True)
class SizeGuard:
    """One guard.

    Args:
        text: An expression of Python, such as ``(1 + x.shape[0]) // 2 == y.shape[0]``.
        inputs: The names in it, each once.
    """

    text: str
    inputs: tuple[str, ...]

    @staticmethod
    def read(text: str, names: Mapping[str, str], symbols: Mapping[str, str]) -> SizeGuard:
        """A guard as torch writes it.

        Args:
            text: ``((1 + L['x'].size()[0]) // 2) == s17``.
            names: Of inputs, by the texts that torch has for them.
            symbols: What torch's symbols are, ``y.shape[0]``.

        Raises:
            UnreadableGuardError: If it has another form.
        """
        reader = _Reader(names, symbols)
        tree = ast.fix_missing_locations(reader.visit(ast.parse(text, mode="eval").body))
        used = {node.value.id for node in ast.walk(tree) if _is_shape(node)}  # type: ignore[attr-defined]
        inputs = tuple(name for name in dict.fromkeys(names.values()) if name in used)
        return SizeGuard(ast.unparse(tree), inputs)

    def cpp(self, positions: Mapping[str, int]) -> str:
        """An expression of C++, with ``size(0, 1)`` for the second size of the first operand.

        Args:
            positions: Of the operands, by name.
        """
        return _cpp(ast.parse(self.text, mode="eval").body, positions)


def _is_shape(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "shape"


class _Reader(ast.NodeTransformer):
    """Writes ``L['x'].size()[0]`` as ``x.shape[0]``, and refuses what it does not know."""

    def __init__(self, names: Mapping[str, str], symbols: Mapping[str, str]) -> None:
        self._names = names
        self._symbols = symbols

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=source, attr="size"), args=[]),
                slice=ast.Constant(value=int()),
            ) if type(name := self._names.get(ast.unparse(source))) is str:
                return ast.Subscript(ast.Attribute(ast.Name(name), "shape"), node.slice)
        raise UnreadableGuardError

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self._symbols:
            raise UnreadableGuardError
        return ast.parse(self._symbols[node.id], mode="eval").body

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = _CALLS.get(ast.unparse(node.func))
        if called is None or node.keywords:
            raise UnreadableGuardError
        return ast.Call(ast.Name(called), [self.visit(argument) for argument in node.args], [])

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """``a < b < c`` is ``a < b and b < c``."""
        parts = [node.left, *node.comparators]
        read: list[ast.expr] = [
            ast.Compare(self.visit(a), [self.visit(op)], [self.visit(b)])
            for a, op, b in zip(parts, node.ops, parts[1:], strict=False)
        ]
        return read[0] if len(read) == 1 else ast.BoolOp(ast.And(), read)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        is_number = isinstance(node, ast.Constant) and (
            type(node.value) in (float, bool) or (type(node.value) is int and node.value < 2**63)
        )
        is_known = isinstance(node, (ast.BinOp, ast.UnaryOp, ast.BoolOp))
        is_operator = type(node) in _CPP_OPERATORS or type(node) in _CPP_FUNCTIONS
        if not (is_number or is_known or is_operator):
            raise UnreadableGuardError
        return super().generic_visit(node)


def _cpp(node: ast.AST, positions: Mapping[str, int]) -> str:
    def of(part: ast.AST) -> str:
        return _cpp(part, positions)

    match node:
        case ast.Constant(value=value):
            return repr(value) if isinstance(value, float) else f"int64_t{{{int(value)}}}"  # type: ignore[arg-type]
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name)), slice=dimension):
            return f"size({positions[name]}, {ast.unparse(dimension)})"
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return f"{_CPP_CALLS[name]}({', '.join(map(of, arguments))})"
        case ast.UnaryOp(op=op, operand=operand):
            return f"{_CPP_OPERATORS[type(op)]}({of(operand)})"
        case ast.BoolOp(op=op, values=values):
            return f" {_CPP_OPERATORS[type(op)]} ".join(f"({of(value)})" for value in values)
        case ast.BinOp(left=left, op=op, right=right):
            return f"{_CPP_FUNCTIONS[type(op)]}({of(left)}, {of(right)})"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return f"({of(left)} {_CPP_OPERATORS[type(op)]} {of(right)})"
    raise AssertionError(ast.dump(node))
