# SPDX-License-Identifier: Apache-2.0
"""Shape rules as texts, such as ``like(x)`` or ``empty([m, n // 2], float32)``.

A text is an expression of Python. It may use the op's parameters, the names in its `dims` (sizes)
and `dtypes` (data types), data types by their names, and what `_CALLS` has.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .._definition.parameter import Attribute, Operand
from .._values.device import Device
from .._values.dtype import dtype
from .dims import parse_dims
from .dtypes import parse_dtypes
from .spec import check, empty, like

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .._definition.interface import Interface
    from .._definition.signature import Signature
    from .dims import Group

_G = TypeVar("_G")
_CALLS: Final[dict[str, Callable[..., Any]]] = {
    "like": like,
    "empty": empty,
    "min": min,
    "max": max,
    "len": len,
}
_OWN: Final = ("like", "empty", "check")  # of graphffi
_MOST_SHOWN: Final = 120
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

    def __init__(
        self, subject: str, signature: Signature | Interface, dims: str, dtypes: str
    ) -> None:
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

    def shape_rule(self, text: str, checks: Sequence[str], module: str) -> Callable[..., Any]:
        """The rule of the results' shapes.

        Args:
            text: An expression for each result, with commas in between; empty for what `dims` says.
            checks: Conditions with the texts of their errors, ``m % 2 == 0, "operand 'x': …"``.
            module: That defines the op.

        Raises:
            ValueError: If one does not parse, or `dims` does not say what results are like.
        """
        return self._function(module, self._checked(self._specs(text), checks))

    def _specs(self, text: str) -> ast.expr:
        text = text or (self._shape_text() if self._results else "()")
        with self._reading("shape", text):
            tree = self._parse("shape", text)
            specs = tree.elts if isinstance(tree, (ast.Tuple, ast.List)) else [tree]
            if len(specs) != len(self._results):
                count = f"{len(self._results)} expressions for {', '.join(self._results)}"
                raise self.problem("shape", text, f"{count}, got {len(specs)}")
            for spec in specs:
                self._check_spec("shape", text, spec)
            return tree

    def _checked(self, specs: ast.expr, checks: Sequence[str]) -> ast.expr:
        """An expression that makes checks, which give None, before it gives the specs."""
        return ast.BoolOp(ast.Or(), [*map(self._check, checks), specs]) if checks else specs

    def _check(self, text: str) -> ast.expr:
        """The call of `check` that a condition and a text stand for."""
        with self._reading("check", text):
            tree = self._parse("check", text)
        parts = tree.elts if isinstance(tree, ast.Tuple) else [tree]
        condition, message = parts[0], ast.unparse(parts[-1])
        is_condition = isinstance(condition, (ast.Compare, ast.BoolOp, ast.UnaryOp))
        if not is_condition or len(parts) != 2 or message[0] not in "'\"":
            expected = (
                "a condition and the text of its error, as in m % 2 == 0, \"operand 'x': ...\""
            )
            raise self.problem("check", text, expected)
        if any(p.name == "check" for p in self._parameters):
            raise self.problem("check", text, "no parameter of that name")
        return ast.Call(ast.Name("check", ast.Load()), parts, [])

    def expression(self, what: str, text: str, write: Callable[[ast.expr], str]) -> str:
        """An expression as `write` makes it, with names replaced by their meanings.

        Raises:
            ValueError: If it does not parse.
        """
        with self._reading(what, text):
            return write(self._parse(what, text))

    def number_rule(self, text: str, module: str) -> Callable[..., Any]:
        """The rule of the workspace's size, a number.

        Raises:
            ValueError: If it does not parse.
        """
        with self._reading("workspace", text):
            tree = self._parse("workspace", text)
            self._check_number("workspace", text, tree)
            return self._function(module, tree)

    def shape_lambda(self, text: str, checks: Sequence[str]) -> str:
        """The shape rule as Python code, ``lambda x: graphffi.like(x)``.

        Raises:
            ValueError: As `shape_rule` does.
        """
        return self._lambda(self._checked(self._specs(text), checks))

    def number_lambda(self, text: str) -> str:
        """The rule of the workspace's size as Python code.

        Raises:
            ValueError: If it does not parse.
        """
        with self._reading("workspace", text):
            return self._lambda(self._parse("workspace", text))

    def _lambda(self, tree: ast.expr) -> str:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in _OWN:
                node.func = ast.parse(f"graphffi.{ast.unparse(node.func)}", mode="eval").body
        code = ast.unparse(ast.fix_missing_locations(tree))
        return f"lambda {self._names()}: {code}"

    def _function(self, module: str, body: ast.expr) -> Callable[..., Any]:
        """A function of the parameters that returns an expression; its code is that of a file's."""
        source = f"def rule({self._names()}): return {ast.unparse(ast.fix_missing_locations(body))}"
        code = compile(source, f"<{self._subject}>", "exec")
        inner = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
        return FunctionType(inner, {**_CALLS, "check": check, "__name__": module})

    def _names(self) -> str:
        return ", ".join(p.name for p in self._parameters)

    def _parse(self, what: str, text: str) -> ast.expr:
        """The expression, with names replaced by their meanings."""
        tree = ast.parse(text.strip(), mode="eval").body
        for node in ast.walk(tree):
            if not isinstance(node, _NODES) or _is_no_value(node):
                got = ast.unparse(node) or type(node).__name__  # an operator alone has no text
                raise self.problem(what, text, f"calls, sizes and arithmetic, got {got!r}")
            if isinstance(node, ast.Attribute) and node.attr not in _ATTRIBUTES:
                known = ", ".join(_ATTRIBUTES)
                raise self.problem(what, text, f"an attribute of {known}, got {node.attr!r}")
            if isinstance(node, ast.Call) and ast.unparse(node.func) not in _CALLS:
                known = ", ".join(_CALLS)
                raise self.problem(what, text, f"a call of {known}, got {ast.unparse(node)!r}")
            if isinstance(node, ast.Call):
                self._check_call(what, text, node)
        return _Renamed(self, what, text).visit(tree)  # type: ignore[no-any-return]

    def meaning(self, what: str, text: str, name: str) -> str:
        """The expression that a name stands for."""
        if name in self._meanings:
            return self._meanings[name]
        try:
            return repr(str(dtype(name)))
        except ValueError:
            known = ", ".join(self._meanings)
            raise self.problem(
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

    @contextlib.contextmanager
    def _reading(self, what: str, text: str) -> Iterator[None]:
        """Names errors of Python's parser and compiler."""
        try:
            yield
        except SyntaxError as error:
            raise self.problem(what, text, f"an expression, got {error.msg}") from None
        except UnicodeError as error:
            raise self.problem(what, text, f"an expression, got {error}") from None
        except (RecursionError, MemoryError):
            expected = "an expression that Python's parser takes, got one with too many terms"
            raise self.problem(what, text, expected) from None

    def _check_call(self, what: str, text: str, node: ast.Call) -> None:
        """Compares a call's arguments with what the function takes."""
        name = ast.unparse(node.func)
        if any(p.name == name for p in self._parameters):
            raise self.problem(what, text, f"the function {name}, got the parameter {name!r}")
        if any(isinstance(arg, ast.Starred) for arg in node.args) or name in ("min", "max"):
            return
        keywords = [keyword.arg for keyword in node.keywords]
        try:
            if None in keywords or len({*keywords}) != len(keywords):
                raise TypeError("each keyword once, and no **")
            by_name = {str(k.arg): k.value for k in node.keywords}
            arguments = inspect.signature(_CALLS[name]).bind(*node.args, **by_name).arguments
        except TypeError as error:
            expected = f"the arguments of {name} ({error})"
            raise self.problem(what, text, f"{expected}, got {ast.unparse(node)!r}") from None
        for argument, kind in (("dtype", dtype), ("device", Device)):
            self._check_constant(what, text, arguments.get(argument), kind)
        if (
            isinstance(arguments.get("shape"), ast.Constant)
            and arguments["shape"].value is not None
        ):
            got = ast.unparse(arguments["shape"])
            raise self.problem(what, text, f"a list of sizes as shape, got {got!r}")

    def _check_constant(self, what: str, text: str, node: Any, kind: Callable[..., Any]) -> None:
        if isinstance(node, ast.Constant) and node.value is not None:
            try:
                kind(node.value)
            except (TypeError, ValueError) as error:
                raise self.problem(what, text, str(error).partition("expected ")[2]) from None

    def _check_spec(self, what: str, text: str, node: ast.expr) -> None:
        """Refuses what is no tensor: it would fail in each call."""
        if isinstance(node, ast.IfExp):
            self._check_spec(what, text, node.body)
            self._check_spec(what, text, node.orelse)
            return
        name = ast.unparse(node.value if isinstance(node, ast.Subscript) else node)
        kinds = ("list",) if isinstance(node, ast.Subscript) else ("tensor", "optional")
        is_operand = any(o.name == name and o.kind in kinds for o in self._operands)
        is_made = isinstance(node, ast.Call) and ast.unparse(node.func) in ("like", "empty")
        if not is_operand and not is_made:
            expected = "like(...), empty(...) or an operand for each result"
            raise self.problem(what, text, f"{expected}, got {ast.unparse(node)!r}")
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "like":
            given = [*node.args, *(k.value for k in node.keywords if k.arg == "x")][0]
            self._check_spec(what, text, given)

    def _check_number(self, what: str, text: str, node: ast.expr) -> None:
        """Refuses what is no int."""
        if isinstance(node, ast.IfExp):
            self._check_number(what, text, node.body)
            self._check_number(what, text, node.orelse)
            return
        kinds = {p.name: p.kind for p in self._parameters}
        is_int = (
            (isinstance(node, ast.Constant) and type(node.value) is int)
            or (isinstance(node, ast.Name) and kinds.get(node.id) in ("int", "bool"))
            or (isinstance(node, ast.Attribute) and node.attr in ("numel", "ndim"))
            or (isinstance(node, ast.Call) and ast.unparse(node.func) not in ("like", "empty"))
            or isinstance(node, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Subscript))
        )
        if not is_int:
            raise self.problem(what, text, f"a number of bytes, got {ast.unparse(node)!r}")

    def problem(self, what: str, text: str, expected: str) -> ValueError:
        """The error of a text that is not as expected."""
        shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
        return ValueError(f"{self._subject}: {what} {shown!r}: expected {expected}")


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


def _is_no_value(node: ast.AST) -> bool:
    constant = isinstance(node, ast.Constant)
    return constant and not isinstance(node.value, (int, float, str, type(None)))  # type: ignore[attr-defined]


def _item(operand: Operand) -> str:
    return f"{operand.name}[0]" if operand.kind == "list" else operand.name


def _may_be_absent(operand: Operand) -> bool:
    return operand.kind != "tensor"  # None, or a list without tensors
