# SPDX-License-Identifier: Apache-2.0
"""Sizes that are symbols of a framework, in conditions under which a kernel is chosen."""

from __future__ import annotations

import dataclasses
import operator
from typing import TYPE_CHECKING, Any

from ._spec import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    # Gets a comparison (of `operator`) and two values; says whether it holds.
    Decide = Callable[[Callable[[Any, Any], Any], Any, Any], bool]
    Fix = Callable[[Any], int]


class UndecidedError(Exception):
    """A comparison holds for some of the sizes that a graph is for, and cannot be guarded."""


class ConditionSize:
    """A symbolic size, or what a condition computes of one; comparisons are decided at once.

    Args:
        value: The framework's symbol.
        decide: Says whether a comparison holds: guards it, proves it, or raises `UndecidedError`.
        fix: Gives the value of a symbol, which the graph is for from then on; or raises that.
    """

    __slots__ = ("_decide", "_fix", "value")

    def __init__(self, value: Any, decide: Decide, fix: Fix) -> None:
        self.value = value
        self._decide = decide
        self._fix = fix

    def fixed(self) -> int:
        """The value that it has in the graph."""
        return self._fix(self.value)

    def __bool__(self) -> bool:
        return self._decide(operator.ne, self.value, 0)

    def __hash__(self) -> int:
        return hash(self.fixed())

    def __index__(self) -> int:
        return self.fixed()

    def __neg__(self) -> Any:
        return self._compute(operator.sub, 0, self)

    def _compute(self, operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        a, b = (x.value if isinstance(x, ConditionSize) else x for x in (a, b))
        result = operation(a, b)
        return result if type(result) is int else ConditionSize(result, self._decide, self._fix)

    def _compare(self, comparison: Callable[[Any, Any], Any], other: Any) -> bool:
        value = other.value if isinstance(other, ConditionSize) else other
        return self._decide(comparison, self.value, value)


def _add_operators() -> None:
    def forward(operation: Any) -> Any:
        return lambda self, other: self._compute(operation, self, other)

    def reverse(operation: Any) -> Any:
        return lambda self, other: self._compute(operation, other, self)

    def comparison(operation: Any) -> Any:
        return lambda self, other: self._compare(operation, other)

    for name in ("add", "sub", "mul", "floordiv", "mod"):
        operation = getattr(operator, name)
        setattr(ConditionSize, f"__{name}__", forward(operation))
        setattr(ConditionSize, f"__r{name}__", reverse(operation))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(ConditionSize, f"__{name}__", comparison(getattr(operator, name)))


_add_operators()


def decidable(values: Sequence[Any], decide: Decide, fix: Fix) -> list[Any]:
    """Operands or attributes with what decides comparisons in the place of symbols."""

    def size(value: Any) -> Any:
        return value if type(value) is int else ConditionSize(value, decide, fix)

    def convert(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [convert(item) for item in value]
        if isinstance(value, TensorSpec):
            return dataclasses.replace(value, shape=tuple(map(size, value.shape)))
        return value

    return [convert(value) for value in values]
