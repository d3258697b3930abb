# SPDX-License-Identifier: Apache-2.0
"""Shape rules as texts, such as ``like(x)`` or ``empty([m, n // 2], float32)``.

A text is an expression of Python. It may use the op's parameters, the names in its `dims` (sizes)
and `dtypes` (data types), data types by their names, and what `_CALLS` has.
"""

from __future__ import annotations

import ast
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ._dims import parse_dims
from ._dtype import dtype
from ._dtypes import parse_dtypes
from ._parameter import Attribute, Operand
from ._spec import empty, like

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ._dims import Group
    from ._signature import Signature

_G = TypeVar("_G")
_CALLS: Final = {"like": like, "empty": empty, "min": min, "max": max, "len": len}
_ATTRIBUTES: Final = ("shape", "ndim", "numel", "dtype", "device")
_NODES: Final = (
    *(ast.Expression, ast.Tuple, ast.List, ast.Call, ast.keyword, ast.Name, ast.Attribute),
    *(ast.Subscript, ast.Slice, ast.Starred, ast.Constant, ast.IfExp, ast.Compare, ast.BoolOp),
    *(ast.BinOp, ast.UnaryOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub),
    *(ast.And, ast.Or, ast.Not, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
    *(ast.Is, ast.IsNot, ast.Load),
)


class RuleTexts:
    """Rules of an op that are given as texts.

    Args:
        subject: The op's name.
        signature: Its parameters and results.
        dims: Names of dimensions, or nothing.
        dtypes: Data types, or nothing.

    Raises:
        ValueError: If `dims` or `dtypes` do not parse.
    """

    def __init__(self, subject: str, signature: Signature, dims: str, dtypes: str) -> None:
        self._subject = subject
        self._parameters = signature.parameters
        self._results = signature.results
        self._operands = [p for p in signature.parameters if isinstance(p, Operand)]
        groups = (self._operands, signature.results)
        self._dims = parse_dims(subject, dims, *groups) if dims else None
        self._dtypes = parse_dtypes(subject, dtypes, *groups) if dtypes else None
        self._meanings = {p.name: p.name for p in signature.parameters}
        for meaning, expression in (*self._kinds(), *self._sizes()):
            self._meanings.setdefault(meaning, expression)

    def shape_rule(self, text: str, module: str) -> Callable[..., Any]:
        """The rule of the results' shapes.

        Args:
            text: An expression for each result, with commas in between; empty for what `dims` says.
            module: That defines the op.

        Raises:
            ValueError: If it does not parse, or `dims` does not say what results are like.
        """
        text = text or self._shape_text()
        tree = self._parse("shape", text)
        count = len(tree.elts) if isinstance(tree, ast.Tuple) else 1
        if count != len(self._results):
            raise ValueError(
                f"{self._subject}: shape {text!r}: expected {len(self._results)} expressions for "
                f"{', '.join(self._results)}, got {count}"
            )
        return self._function(module, tree)

    def number_rule(self, text: str, module: str) -> Callable[..., Any]:
        """The rule of the workspace's size, a number.

        Raises:
            ValueError: If it does not parse.
        """
        return self._function(module, self._parse("workspace", text))

    def lambda_text(self, what: str, text: str) -> str:
        """A rule as Python code, ``lambda x: graphffi.like(x)``.

        Raises:
            ValueError: If it does not parse.
        """
        tree = self._parse(what, text or self._shape_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("like", "empty"):
                node.func = ast.parse(f"graphffi.{ast.unparse(node.func)}", mode="eval").body
        code = ast.unparse(ast.fix_missing_locations(tree))
        return f"lambda {self._names()}: {code}"

    def _function(self, module: str, body: ast.expr) -> Callable[..., Any]:
        """A function of the parameters that returns an expression; its code is that of a file's."""
        source = f"def rule({self._names()}): return {ast.unparse(ast.fix_missing_locations(body))}"
        code = compile(source, f"<{self._subject}>", "exec")
        inner = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
        return FunctionType(inner, {**_CALLS, "__name__": module})

    def _names(self) -> str:
        return ", ".join(p.name for p in self._parameters)

    def _parse(self, what: str, text: str) -> ast.expr:
        """The expression, with names replaced by their meanings."""
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as error:
            raise self._problem(what, text, f"an expression, got {error.msg}") from None
        for node in ast.walk(tree):
            if not isinstance(node, _NODES):
                got = ast.unparse(node) or type(node).__name__  # an operator alone has no text
                raise self._problem(what, text, f"calls, sizes and arithmetic, got {got!r}")
            if isinstance(node, ast.Attribute) and node.attr not in _ATTRIBUTES:
                known = ", ".join(_ATTRIBUTES)
                raise self._problem(what, text, f"an attribute of {known}, got {node.attr!r}")
            if isinstance(node, ast.Call) and ast.unparse(node.func) not in _CALLS:
                known = ", ".join(_CALLS)
                raise self._problem(what, text, f"a call of {known}, got {ast.unparse(node)!r}")
        return _Renamed(self, what, text).visit(tree)  # type: ignore[no-any-return]

    def meaning(self, what: str, text: str, name: str) -> str:
        """The expression that a name stands for."""
        if name in self._meanings:
            return self._meanings[name]
        try:
            return repr(str(dtype(name)))
        except ValueError:
            known = ", ".join(self._meanings)
            raise self._problem(
                what, text, f"a name of {known} or a data type, got {name!r}"
            ) from None

    def _shape_text(self) -> str:
        """An expression for each result, by `dims`."""
        if self._dims is None:
            raise ValueError(
                f"{self._subject}: shape: expected an expression such as like(x) for each result, "
                "got none; with dims= it may be left out"
            )
        known = {p.name: p.name for p in self._parameters if isinstance(p, Attribute)}
        known.update(reversed([*self._sizes()]))  # also where an operand has a dimension's name
        expressions = []
        for i, group in enumerate(self._dims.results):
            sizes = [*self._leading(group)]
            for name in group.names:
                if not name.isdigit() and name not in known:
                    raise ValueError(
                        f"{self._subject}: shape: expected an expression for each result, got "
                        f"none, and no operand has the dimension {name!r}"
                    )
                sizes.append(known.get(name, name))
            expressions.append(f"empty([{', '.join(sizes)}], {self._kind_of_result(i)})")
        return ", ".join(expressions)

    def _leading(self, group: Group) -> Iterator[str]:
        if not group.has_ellipsis:
            return
        assert self._dims is not None
        for operand, of_operand in zip(self._operands, self._dims.operands, strict=True):
            if of_operand.has_ellipsis and operand.kind == "tensor":
                count = len(of_operand.names)
                yield f"*{operand.name}.shape[:-{count}]" if count else f"*{operand.name}.shape"
                return
        raise ValueError(
            f"{self._subject}: shape: expected an expression for each result, got none, and no "
            "operand has the dimensions '...'"
        )

    def _kind_of_result(self, index: int) -> str:
        if self._dtypes is not None:
            group = self._dtypes.results[index]
            for variable, kind in self._kinds():
                if variable == group.variable:
                    return kind
            if len(group.allowed) == 1:
                return str(group.allowed[0])
        elif self._operands:
            return f"{_item(min(self._operands, key=_may_be_absent))}.dtype"
        raise ValueError(
            f"{self._subject}: shape: expected an expression for each result, got none, and dtypes "
            "does not say their data types"
        )

    def _sizes(self) -> Iterator[tuple[str, str]]:
        groups = () if self._dims is None else self._dims.operands
        for operand, group in self._with_operands(groups):
            for i, name in enumerate(group.names):
                yield name, f"{_item(operand)}.shape[{i - len(group.names)}]"

    def _kinds(self) -> Iterator[tuple[str, str]]:
        groups = () if self._dtypes is None else self._dtypes.operands
        for operand, group in self._with_operands(groups):
            if group.variable:
                yield group.variable, f"{_item(operand)}.dtype"

    def _with_operands(self, groups: Sequence[_G]) -> list[tuple[Operand, _G]]:
        """Groups with their operands: first those that every call has."""
        pairs = zip(self._operands, groups, strict=False)
        return sorted(pairs, key=lambda pair: _may_be_absent(pair[0]))

    def _problem(self, what: str, text: str, expected: str) -> ValueError:
        return ValueError(f"{self._subject}: {what} {text!r}: expected {expected}")


class _Renamed(ast.NodeTransformer):
    """Puts expressions in the place of names."""

    def __init__(self, texts: RuleTexts, what: str, text: str) -> None:
        self._texts, self._what, self._text = texts, what, text

    def visit_Call(self, node: ast.Call) -> ast.Call:
        node.args = [self.visit(arg) for arg in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        meaning = self._texts.meaning(self._what, self._text, node.id)
        return ast.parse(meaning, mode="eval").body


def _item(operand: Operand) -> str:
    return f"{operand.name}[0]" if operand.kind == "list" else operand.name


def _may_be_absent(operand: Operand) -> bool:
    return operand.kind != "tensor"  # None, or a list without tensors
