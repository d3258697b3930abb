# SPDX-License-Identifier: Apache-2.0
"""The text of plans: its tokens, and ints that are computed of sizes, ``(n + 127) // 128``."""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING, Final

from .shape_text import RuleTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .._definition.interface import Interface

# Texts: compiled where they are first used, not by every import.
_TOKEN: Final = r'(?s:"(?:[^"\\]|\\.)*"|\*?[A-Za-z_]\w*|[0-9][\w.]*|.)'
_MAY_COMPUTE: Final = r"[-+*/%.\[]|\w\s*\("
_COMPUTED: Final = (
    *(ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Subscript),
    *(ast.Call, ast.Compare, ast.BoolOp, ast.IfExp),
)
_CONVERSIONS: Final = ("int", "bool", "dtype", "device", "strided", "workspace")
_OPERATORS: Final[Mapping[type[ast.AST], str]] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod"},
}
_EXPECTED: Final = (
    "ints of numel, ndim and shape[0] of tensors that each call has, of int and bool parameters, "
    "and of +, -, *, //, %, min and max"
)


def plan_tokens(plan: str) -> list[str]:
    """Names, numbers, strings and single characters of a plan's text."""
    return re.findall(_TOKEN, plan)


def split_plan(plan: str) -> Iterator[tuple[str, bool]]:
    """The pieces of a plan's text, each with True for an item that is computed of sizes."""
    if not re.search(_MAY_COMPUTE, plan):
        yield plan, False
        return
    item = ""
    tokens = plan_tokens(plan)
    for i, token in enumerate(tokens):
        is_open = not item.strip() and token == "(" and _is_list(tokens[i:])
        is_end = token in ",)" and item.count("(") + item.count("[") == (
            item.count(")") + item.count("]")
        )
        if is_open or is_end:
            yield item, _is_computed(item)
            yield token, False
            item = ""
        else:
            item += token
    yield item, _is_computed(item)


def _is_list(tokens: list[str]) -> bool:
    """True if the parenthesis that tokens begin with is closed at the end of the item."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token == "(") - (token == ")")
        if depth == 0:
            follows = next((t for t in tokens[i + 1 :] if not t.isspace()), ",")
            return follows in ",)"
    return True  # not closed, as the plan's parser will say


def _is_computed(item: str) -> bool:
    try:
        tree = ast.parse(item.strip(), mode="eval").body
    except (RecursionError, MemoryError):
        return True  # with too many terms, as `RuleTexts` says
    except (SyntaxError, ValueError):
        return False  # the plan's parser says what is wrong
    if isinstance(tree, ast.UnaryOp):  # -1, -inf
        return ast.unparse(tree.operand) not in ("inf", "nan") and not isinstance(
            tree.operand, ast.Constant
        )
    if isinstance(tree, ast.Call) and ast.unparse(tree.func) in _CONVERSIONS:
        return False
    return isinstance(tree, _COMPUTED)


def write_computed(interface: Interface, item: str, name_of: Callable[[str], str]) -> str:
    """The canonical item of an int that is computed: ``int(floordiv(numel(i0), 128))``.

    Args:
        interface: Of the op.
        item: The expression, of which names are the op's and those of its `dims`.
        name_of: Gives the canonical plan's name for a parameter.

    Raises:
        ValueError: If the expression is anything else than arithmetic on sizes and ints.
    """
    texts = RuleTexts(interface.name, interface, interface.dims_text, "")
    return f"int({texts.expression('plan', item, _Writer(interface, texts, item, name_of).write)})"


class _Writer:
    """Writes an expression as calls of the functions that csrc/call/plan.cc knows."""

    def __init__(
        self, interface: Interface, texts: RuleTexts, item: str, name_of: Callable[[str], str]
    ) -> None:
        self._texts, self._item, self._name_of = texts, item, name_of
        self._tensors = [o.name for o in interface.operands if o.kind == "tensor"]
        self._ints = [
            a.name
            for a in interface.attributes
            if a.kind in ("int", "bool") and not a.is_list and not a.optional
        ]

    def write(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value < 1 << 63:
            return str(node.value)
        if isinstance(node, ast.Name) and node.id in self._ints:
            return self._name_of(node.id)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return self._call(_OPERATORS[type(node.op)], node.left, node.right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._call("sub", ast.Constant(0), node.operand)
        if isinstance(node, ast.Call) and not node.keywords and len(node.args) > 1:
            function = ast.unparse(node.func)
            if function in ("min", "max"):
                written = map(self.write, node.args)
                return functools.reduce(lambda a, b: f"{function}({a}, {b})", written)
        return self._size(node)

    def _call(self, function: str, left: ast.expr, right: ast.expr) -> str:
        return f"{function}({self.write(left)}, {self.write(right)})"

    def _size(self, node: ast.expr) -> str:
        function, place, of = "", "", node
        if isinstance(node, ast.Subscript):
            index, of = ast.unparse(node.slice), node.value
            if re.fullmatch(r"-?[0-9]{1,2}", index):
                function, place = "size", f", {index}"
        if isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name):
            if not place and of.attr in ("numel", "ndim"):
                function = of.attr
            elif of.attr != "shape":
                function = ""
            if function and of.value.id in self._tensors:
                return f"{function}({self._name_of(of.value.id)}{place})"
        raise self._texts.problem("plan", self._item, f"{_EXPECTED}, got {ast.unparse(node)!r}")
