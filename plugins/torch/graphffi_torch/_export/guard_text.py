# SPDX-License-Identifier: Apache-2.0
"""Guards of sizes: torch's texts are read, and written as conditions that C++ evaluates."""

from __future__ import annotations

import ast
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import graphffi_torch._C as _C

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Functions of torch's texts, by what they are called in ours.
_CALLS: Final = {
    **{name: name for name in ("min", "max", "abs", "int", "float")},
    **{"math.trunc": "int", "torch.sym_float": "float"},
    **{"math.floor": "floor", "math.ceil": "ceil"},
}
_OF_ONE: Final = {"int": "trunc", "float": "float", "floor": "floor", "ceil": "ceil"}
_OF_TWO: Final[Mapping[type[ast.AST], str]] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"},
    **{ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow"},
    **{ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"},
    **{ast.And: "both", ast.Or: "either"},
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
        tree = _Reader(names, symbols).visit(ast.parse(text, mode="eval").body)
        written = ast.unparse(ast.fix_missing_locations(tree))
        inputs = tuple(dict.fromkeys(names.values()))
        conditions = Conditions(inputs)
        conditions.value(written)
        return SizeGuard(written, tuple(name for name in inputs if name in conditions.used))


class Conditions:
    """A program of conditions: csrc/shapes/conditions.h has its text.

    Args:
        inputs: The names of tensors, in order.
        noun: Of a tensor in messages.
    """

    def __init__(self, inputs: Sequence[str] = (), noun: str = "input") -> None:
        self.inputs = tuple(inputs)
        self._positions = {name: i for i, name in enumerate(inputs)}
        self._noun = noun
        self._values: dict[str, int] = {}
        self._lines: list[str] = []
        self.used: set[str] = set()

    @property
    def text(self) -> str:
        """The program, which parses."""
        text = "".join(f"{line}\n" for line in self._lines)
        _C.Conditions(text)
        return text

    def check_guard(self, guard: SizeGuard) -> None:
        """Adds a guard as a condition."""
        names = ", ".join(f"'{name}'" for name in guard.inputs)
        got = ", ".join(f"{name}={{t{self._position(name)}}}" for name in guard.inputs)
        noun = self._noun if len(guard.inputs) == 1 else f"{self._noun}s"
        expected = f"{guard.text} as in the exported program"
        self.check(self.value(guard.text), f"{noun} {names}: expected {expected}, got {got}")

    def check(self, value: int, message: str, kind: str = "ValueError") -> None:
        """Adds a condition, with what the error says."""
        self._lines.append(f"check {value} {kind} {message}")

    def value(self, text: str) -> int:
        """The number of the value of an expression, ``x.shape[0] // 2``.

        Raises:
            UnreadableGuardError: If it has an unknown form.
        """
        return self._value(ast.parse(text, mode="eval").body)

    def give(self, instruction: str, *operands: int) -> int:
        """The number of what an instruction gives: `csrc/shapes/instructions.h` lists them."""
        line = " ".join((instruction, *map(str, operands)))
        if line not in self._values:
            self._values[line] = len(self._values)
            self._lines.append(line)
        return self._values[line]

    def size(self, name: str, dimension: int) -> int:
        """The number of a size."""
        return self.give("size", self._position(name), dimension)

    def stride(self, name: str, dimension: int) -> int:
        """The number of a stride."""
        return self.give("stride", self._position(name), dimension)

    def _position(self, name: str) -> int:
        if name not in self._positions:
            raise UnreadableGuardError
        self.used.add(name)
        return self._positions[name]

    def _value(self, node: ast.AST) -> int:
        match node:
            case ast.Constant(value=float() as number) if math.isfinite(number):
                return self.give(f"const {number!r}")
            case ast.Constant(value=bool() | int() as number) if number < 2**63:
                return self.give(f"const {int(number)}")
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=name), attr="shape"),
                slice=ast.Constant(value=int() as dimension),
            ):
                return self.size(name, dimension)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._call(name, [self._value(argument) for argument in arguments])
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.give("sub", self.give("const 0"), self._value(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.give("eq", self._value(operand), self.give("const 0"))
            case ast.BinOp(left=left, op=op, right=right):
                return self._of_two(op, self._value(left), self._value(right))
            case ast.BoolOp(op=op, values=values):
                return self._joined(op, [self._value(value) for value in values])
            case ast.Compare(left=left, ops=ops, comparators=others):
                given = [self._value(part) for part in (left, *others)]
                pairs = zip(ops, given, given[1:], strict=False)
                return self._joined(ast.And(), [self._of_two(op, a, b) for op, a, b in pairs])
        raise UnreadableGuardError

    def _call(self, name: str, arguments: list[int]) -> int:
        if name in ("min", "max") and len(arguments) > 1:
            return functools.reduce(lambda a, b: self.give(name, a, b), arguments)
        if len(arguments) != 1 or name not in (*_OF_ONE, "abs"):
            raise UnreadableGuardError
        (value,) = arguments
        if name == "abs":
            return self.give("max", value, self.give("sub", self.give("const 0"), value))
        return self.give(_OF_ONE[name], value)

    def _of_two(self, op: ast.AST, a: int, b: int) -> int:
        if type(op) not in _OF_TWO:
            raise UnreadableGuardError
        return self.give(_OF_TWO[type(op)], a, b)

    def _joined(self, op: ast.AST, values: list[int]) -> int:
        return functools.reduce(lambda a, b: self._of_two(op, a, b), values)


class _Reader(ast.NodeTransformer):
    """Writes ``L['x'].size()[0]`` as ``x.shape[0]``, and symbols as what they are."""

    def __init__(self, names: Mapping[str, str], symbols: Mapping[str, str]) -> None:
        self._names = names
        self._symbols = symbols

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=source, attr="size"), args=[])
            ):
                name: Any = self._names.get(ast.unparse(source))
                if name is not None:
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
