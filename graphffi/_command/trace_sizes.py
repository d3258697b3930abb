# SPDX-License-Identifier: Apache-2.0
"""Sizes of results by the constraints of a definition, such as ``hidden == 2 * half``."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Final

_NODES: Final = (
    *(ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv),
    *(ast.Mod, ast.Call),
)


def solved(
    unknown: Collection[str], known: Collection[str], constraints: Sequence[str]
) -> dict[str, str]:
    """Expressions over known sizes for those that are not known, as far as equations give them.

    Args:
        unknown: Names.
        known: Names that expressions may use.
        constraints: Expressions of Python; only equations are read.
    """
    sides = [side for text in constraints for side in _sides(text)]
    found: dict[str, str] = {}
    missing = -1
    while missing != len(found):
        missing = len(found)
        for name, value in sides:
            if name not in found and name not in known and _names(value) <= {*known, *found}:
                found[name] = f"({ast.unparse(_Replaced(found).visit(_copy(value)))})"
    return {name: found[name] for name in unknown if name in found}


def _sides(text: str) -> list[tuple[str, ast.expr]]:
    """The names that an equation gives, with the expression for each."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return []
    if not isinstance(tree, ast.Compare) or not isinstance(tree.ops[0], ast.Eq):
        return []
    if len(tree.ops) != 1:
        return []
    left, right = tree.left, tree.comparators[0]
    return [*_given(left, right), *_given(right, left)]


def _given(side: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr]]:
    if not all(isinstance(node, _NODES) for node in ast.walk(value)):
        return []
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    if any(ast.unparse(node.func) not in ("min", "max") for node in calls):
        return []
    if isinstance(side, ast.Name):
        return [(side.id, value)]
    if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult):
        for factor, name in ((side.left, side.right), (side.right, side.left)):
            if isinstance(factor, ast.Constant) and isinstance(name, ast.Name):
                return [(name.id, ast.BinOp(value, ast.FloorDiv(), factor))]
    return []


def _names(value: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(value) if isinstance(node, ast.Name)} - {"min", "max"}


def _copy(value: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(value), mode="eval").body


class _Replaced(ast.NodeTransformer):
    """Puts expressions in the place of names."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        text = self._texts.get(node.id)
        return ast.parse(text, mode="eval").body if text else node
