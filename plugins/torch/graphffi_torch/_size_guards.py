# SPDX-License-Identifier: Apache-2.0
"""The guards of exported programs: relations between the sizes of inputs that the code relies on.

Torch writes them as texts, ``((1 + L['x'].size()[0]) // 2) == L['y'].size()[0]``. The code that
AOTInductor generates (torch 2.10 to 2.15) compares no inputs with them, nor with what Inductor took
for equal while it compiled: wrong sizes give wrong results, and reads behind the end of tensors.
"""

from __future__ import annotations

import ast
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graphffi_torch._private_names import has

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import torch

_EQUAL: Final = re.compile(r"\w+\.shape\[\d+\] == \w+\.shape\[\d+\]")
_CALLS: Final = {"min": "min", "max": "max", "math.trunc": "int", "torch.sym_float": "float"}
_CPP_CALLS: Final = {"min": "Min", "max": "Max", "int": "Truncated", "float": "double"}
_CPP_OPERATORS: Final[Mapping[type[ast.AST], str]] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.USub: "-", ast.Not: "!"},
    **{ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="},
    **{ast.And: "&&", ast.Or: "||"},
}
_CPP_FUNCTIONS: Final[Mapping[type[ast.AST], str]] = {ast.FloorDiv: "FloorDiv", ast.Mod: "Mod"}


@dataclass(frozen=True)
class SizeGuard:
    """One guard.

    Args:
        text: An expression of Python, such as ``(1 + x.shape[0]) // 2 == y.shape[0]``.
        inputs: The names in it, each once.
    """

    text: str
    inputs: tuple[str, ...]

    def cpp(self, positions: Mapping[str, int]) -> str:
        """An expression of C++, with ``size(0, 1)`` for the second size of the first operand.

        Args:
            positions: Of the operands, by name.
        """
        return _cpp(ast.parse(self.text, mode="eval").body, positions)


def size_guards(
    exported: torch.export.ExportedProgram, compiled: torch.export.ExportedProgram | None = None
) -> tuple[SizeGuard, ...]:
    """The guards of a program, without those of other things than sizes of tensors.

    Sizes that are equal are none: they have the same symbol.

    Args:
        exported: The program.
        compiled: One that was made of it after AOTInductor had compiled it: what Inductor took for
            equal counts, too.
    """
    if not has("guards"):
        return ()
    texts = [*exported._guards_code]
    if compiled is not None:
        texts.extend(text for text in compiled._guards_code if "==" in text)
    names = _sources(exported)
    read = (_read(text, names) for text in texts)
    found = (guard for guard in read if guard and not _EQUAL.fullmatch(guard.text))
    return tuple(dict.fromkeys(found))


def _sources(exported: torch.export.ExportedProgram) -> dict[str, Any]:
    """The name of each input, by the texts that guards have for it."""
    inputs = exported.graph_signature.user_inputs
    signature = exported.module_call_graph[0].signature
    names = (signature and signature.forward_arg_names) or ()
    groups = exported.call_spec.in_spec.children()
    children = [child for group in groups for child in group.children()]
    found: dict[str, Any] = {}
    for write in (repr, _item):  # `x_0` is a parameter, or what `*x` takes
        paths = [
            f"L[{write(name)}]{path}"
            for name, child in zip(names, children, strict=False)
            for path in _paths(child)
        ]
        for path, name in zip(paths, inputs, strict=False):
            found.setdefault(path, name)
    for i, name in enumerate(inputs):
        found.setdefault(f"L['flat_args'][{i}]", name)
    return found


def _item(name: str) -> str:
    """``'x'][0`` for ``x_0``."""
    base, _, number = name.rpartition("_")
    return f"{base!r}][{number}" if number.isdigit() else repr(name)


def _paths(spec: Any) -> Iterator[str]:
    """The way to each leaf of a pytree, as in Python; in nodes of other kinds, no way."""
    if spec.is_leaf():
        yield ""
        return
    keys = spec.context if spec.type in (dict, OrderedDict) else range(spec.num_children)
    is_known = spec.type in (dict, OrderedDict, list, tuple)
    for i, child in enumerate(spec.children()):
        step = f"[{keys[i]!r}]" if is_known else "?"
        yield from (f"{step}{path}" for path in _paths(child))


def _read(text: str, names: Mapping[str, str]) -> SizeGuard | None:
    reader = _Reader(names)
    try:
        tree = reader.visit(ast.parse(text, mode="eval").body)
    except _UnknownError:
        return None
    inputs = tuple(name for name in dict.fromkeys(names.values()) if name in reader.found)
    return SizeGuard(ast.unparse(tree), inputs) if inputs else None


class _UnknownError(Exception):
    """A guard of other things than sizes."""


class _Reader(ast.NodeTransformer):
    """Writes ``L['x'].size()[0]`` as ``x.shape[0]``."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self.found: set[str] = set()

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=source, attr="size"), args=[]),
                slice=ast.Constant(value=int()),
            ) if type(name := self._names.get(ast.unparse(source))) is str:
                self.found.add(name)
                shape = ast.Attribute(ast.Name(name), "shape")
                return ast.Subscript(shape, node.slice)
        raise _UnknownError

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = _CALLS.get(ast.unparse(node.func))
        if called is None:
            raise _UnknownError
        return ast.Call(ast.Name(called), [self.visit(argument) for argument in node.args], [])

    def generic_visit(self, node: ast.AST) -> ast.AST:
        is_number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
        is_known = isinstance(node, (ast.BinOp, ast.UnaryOp, ast.BoolOp)) or (
            isinstance(node, ast.Compare) and len(node.ops) == 1
        )
        is_operator = type(node) in _CPP_OPERATORS or type(node) in _CPP_FUNCTIONS
        if not (is_number or is_known or is_operator):
            raise _UnknownError
        return super().generic_visit(node)


def _cpp(node: ast.AST, positions: Mapping[str, int]) -> str:
    def of(part: ast.AST) -> str:
        return _cpp(part, positions)

    match node:
        case ast.Constant(value=value):
            return f"int64_t{{{value}}}" if isinstance(value, int) else f"{value!r}"
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name)), slice=dimension):
            return f"size({positions[name]}, {ast.unparse(dimension)})"
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return f"{_CPP_CALLS[name]}({', '.join(map(of, arguments))})"
        case ast.UnaryOp(op=op, operand=operand):
            return f"{_CPP_OPERATORS[type(op)]}({of(operand)})"
        case ast.BoolOp(op=op, values=values):
            return f" {_CPP_OPERATORS[type(op)]} ".join(f"({of(value)})" for value in values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _CPP_FUNCTIONS:
            return f"{_CPP_FUNCTIONS[type(op)]}({of(left)}, {of(right)})"
        case ast.BinOp(left=left, op=op, right=right):
            return f"({of(left)} {_CPP_OPERATORS[type(op)]} {of(right)})"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return f"({of(left)} {_CPP_OPERATORS[type(op)]} {of(right)})"
    raise AssertionError(ast.dump(node))
