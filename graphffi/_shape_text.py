# SPDX-License-Identifier: Apache-2.0
"""Shape rules as texts, such as ``like(x)`` or ``empty([m, n // 2], float32)``.

A text is an expression of Python. It may use the op's parameters, the names in its `dims` (sizes)
and `dtypes` (data types), data types by their names, and what `_CALLS` has.
"""

from __future__ import annotations

import ast
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

from ._dims import parse_dims
from ._dtype import dtype
from ._dtypes import parse_dtypes
from ._parameter import Attribute, Operand
from ._spec import empty, like

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ._dims import Group

_CALLS: Final = {"like": like, "empty": empty, "min": min, "max": max, "len": len}
_ATTRIBUTES: Final = ("shape", "ndim", "numel", "dtype", "device")
_NODES: Final = (
    *(ast.Expression, ast.Tuple, ast.List, ast.Call, ast.keyword, ast.Name, ast.Attribute),
    *(ast.Subscript, ast.Slice, ast.Starred, ast.Constant, ast.IfExp, ast.Compare, ast.BoolOp),
    *(ast.BinOp, ast.UnaryOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub),
    *(ast.And, ast.Or, ast.Not, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
    *(ast.Is, ast.IsNot, ast.Load),
)


def shape_rule(
    text: str,
    results: Sequence[str],
    subject: str,
    module: str,
    parameters: Sequence[Operand | Attribute],
    dims: str,
    dtypes: str,
) -> Callable[..., Any]:
    """The rule that a text is.

    Args:
        text: An expression for each result, with commas in between; empty for what `dims` says.
        results: Their names.
        subject: The op's name.
        module: That defines the op.
        parameters: Of the op.
        dims: Names of dimensions, or nothing.
        dtypes: Data types, or nothing.

    Raises:
        ValueError: If it does not parse, or `dims` does not say what results are like.
    """
    scope = _Scope(subject, parameters, results, dims, dtypes)
    text = text or ", ".join(scope.results())
    tree = scope.parse("shape", text)
    count = len(tree.elts) if isinstance(tree, ast.Tuple) else 1
    if count != len(results):
        raise ValueError(
            f"{subject}: shape {text!r}: expected {len(results)} expressions for "
            f"{', '.join(results)}, got {count}"
        )
    return _function(subject, module, parameters, tree)


def expression_rule(
    where: str,
    text: str,
    module: str,
    parameters: Sequence[Operand | Attribute],
    dims: str,
    dtypes: str,
) -> Callable[..., Any]:
    """A rule for one number, such as the bytes of a workspace.

    Args:
        where: The op's name and what the number is, ``ns::op: workspace``.
        text: Its expression.
        module: As for `shape_rule`, like the others.
        parameters: Likewise.
        dims: Likewise.
        dtypes: Likewise.

    Raises:
        ValueError: If it does not parse.
    """
    subject, _, what = where.rpartition(": ")
    scope = _Scope(subject, parameters, (), dims, dtypes)
    return _function(subject, module, parameters, scope.parse(what, text))


def lambda_text(
    text: str,
    results: Sequence[str],
    subject: str,
    parameters: Sequence[Operand | Attribute],
    dims: str,
    dtypes: str,
) -> str:
    """A rule as Python code, ``lambda x: graphffi.like(x)``.

    Args:
        text: As for `shape_rule`; or, without results, for `expression_rule`.
        results: As for `shape_rule`, like the others.
        subject: Likewise.
        parameters: Likewise.
        dims: Likewise.
        dtypes: Likewise.

    Raises:
        ValueError: If it does not parse.
    """
    scope = _Scope(subject, parameters, results, dims, dtypes)
    tree = scope.parse("shape", text or ", ".join(scope.results()))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("like", "empty"):
            node.func = ast.parse(f"graphffi.{ast.unparse(node.func)}", mode="eval").body
    code = ast.unparse(ast.fix_missing_locations(tree))
    return f"lambda {', '.join(p.name for p in parameters)}: {code}"


class _Scope:
    """What names mean in the texts of an op."""

    def __init__(
        self,
        subject: str,
        parameters: Sequence[Operand | Attribute],
        results: Sequence[str],
        dims: str,
        dtypes: str,
    ) -> None:
        self._subject = subject
        self._parameters = parameters
        self._operands = [p for p in parameters if isinstance(p, Operand)]
        # The rules of one number know no results; the groups of those are then left out.
        names = results or ["out"] * _num_results(dims or dtypes)
        self._dims = parse_dims(subject, dims, self._operands, names) if dims else None
        self._dtypes = parse_dtypes(subject, dtypes, self._operands, names) if dtypes else None
        self._meanings = {p.name: p.name for p in parameters}
        for meaning, expression in (*self._kinds(), *self._sizes()):
            self._meanings.setdefault(meaning, expression)

    def parse(self, what: str, text: str) -> ast.expr:
        """The expression, with names replaced by their meanings."""
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as error:
            raise self._problem(what, text, f"an expression, got {error.msg}") from None
        for node in ast.walk(tree):
            if not isinstance(node, _NODES):
                raise self._problem(
                    what, text, f"calls, sizes and arithmetic, got {ast.unparse(node)!r}"
                )
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

    def results(self) -> Iterator[str]:
        """An expression for each result, by `dims`."""
        if self._dims is None:
            raise ValueError(
                f"{self._subject}: shape: expected an expression such as like(x) for each result, "
                "got none; with dims= it may be left out"
            )
        known = {p.name: p.name for p in self._parameters if isinstance(p, Attribute)}
        known.update(reversed([*self._sizes()]))  # also where an operand has a dimension's name
        for i, group in enumerate(self._dims.results):
            sizes = [*self._leading(group)]
            for name in group.names:
                if not name.isdigit() and name not in known:
                    raise ValueError(
                        f"{self._subject}: shape: expected an expression for each result, got "
                        f"none, and no operand has the dimension {name!r}"
                    )
                sizes.append(known.get(name, name))
            yield f"empty([{', '.join(sizes)}], {self._kind_of_result(i)})"

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
            if found := dict(self._kinds()).get(group.variable):
                return found
            if len(group.allowed) == 1:
                return str(group.allowed[0])
        elif self._operands:
            return f"{_item(self._operands[0])}.dtype"
        raise ValueError(
            f"{self._subject}: shape: expected an expression for each result, got none, and dtypes "
            "does not say their data types"
        )

    def _sizes(self) -> Iterator[tuple[str, str]]:
        groups = () if self._dims is None else self._dims.operands
        for operand, group in sorted(
            zip(self._operands, groups, strict=False), key=lambda pair: pair[0].kind != "tensor"
        ):
            for i, name in enumerate(group.names):
                yield name, f"{_item(operand)}.shape[{i - len(group.names)}]"

    def _kinds(self) -> Iterator[tuple[str, str]]:
        groups = () if self._dtypes is None else self._dtypes.operands
        for operand, group in sorted(
            zip(self._operands, groups, strict=False), key=lambda pair: pair[0].kind != "tensor"
        ):
            if group.variable:
                yield group.variable, f"{_item(operand)}.dtype"

    def _problem(self, what: str, text: str, expected: str) -> ValueError:
        return ValueError(f"{self._subject}: {what} {text!r}: expected {expected}")


class _Renamed(ast.NodeTransformer):
    """Puts expressions in the place of names."""

    def __init__(self, scope: _Scope, what: str, text: str) -> None:
        self._scope, self._what, self._text = scope, what, text

    def visit_Call(self, node: ast.Call) -> ast.Call:
        node.args = [self.visit(arg) for arg in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        meaning = self._scope.meaning(self._what, self._text, node.id)
        return ast.parse(meaning, mode="eval").body


def _num_results(text: str) -> int:
    right = text.partition(";")[0].partition("->")[2]
    return len(right.split(",")) if right.strip() else 0


def _item(operand: Operand) -> str:
    return f"{operand.name}[0]" if operand.kind == "list" else operand.name


def _function(
    subject: str, module: str, parameters: Sequence[Operand | Attribute], body: ast.expr
) -> Callable[..., Any]:
    """A function of the parameters that returns an expression; its code is that of a file's."""
    names = ", ".join(p.name for p in parameters)
    source = f"def rule({names}): return {ast.unparse(ast.fix_missing_locations(body))}"
    code = compile(source, f"<{subject}>", "exec")
    inner = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
    return FunctionType(inner, {**_CALLS, "__name__": module})
