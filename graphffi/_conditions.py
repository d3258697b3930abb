# SPDX-License-Identifier: Apache-2.0
"""Sizes that are symbols of a framework, in conditions under which a kernel is chosen."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

from ._spec import TensorSpec
from ._tracing import symbol_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    def __str__(self) -> str:
        return str(self.value)

    def __neg__(self) -> Any:
        return self._compute(operator.sub, 0, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return -self if self.compare(operator.lt, 0) else self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, exponent: Any) -> Any:
        if type(exponent) is not int or not 0 <= exponent <= _MAX_POWER:
            return operator.pow(self.fixed(), _fixed(exponent))
        return functools.reduce(operator.mul, [self] * exponent, 1)

    def __truediv__(self, other: Any) -> Any:
        divisor = int(other) if isinstance(other, Integral) else 0
        size = -self if divisor < 0 else self
        if divisor == 0 or not isinstance(size, ConditionSize):
            return operator.truediv(self.fixed(), _fixed(other))
        return Quotient(size, abs(divisor))

    def _compute(self, operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        if not all(isinstance(x, (ConditionSize, Integral)) for x in (a, b)):
            return operation(_fixed(a), _fixed(b))
        a, b = (x.value if isinstance(x, ConditionSize) else int(x) for x in (a, b))
        result = operation(a, b)
        return result if type(result) is int else ConditionSize(result, self._decide, self._fix)

    def compare(self, comparison: Callable[[Any, Any], Any], other: Any) -> bool:
        """Whether a comparison of `operator` holds."""
        if isinstance(other, ConditionSize):
            return self._decide(comparison, self.value, other.value)
        if isinstance(other, Integral):
            return self._decide(comparison, self.value, int(other))
        if isinstance(other, float):
            return Quotient(self, 1).compare(comparison, other)
        return bool(comparison(self.fixed(), _fixed(other)))


class Quotient:
    """A symbolic size divided by a number, as Python divides: the nearest float.

    Comparisons with numbers become comparisons of the size; all else is for the size in the graph.

    Args:
        size: What is divided.
        divisor: 1 or more.
    """

    __slots__ = ("_divisor", "_size")

    def __init__(self, size: ConditionSize, divisor: int) -> None:
        self._size = size
        self._divisor = divisor

    def fixed(self) -> float:
        """The value that it has in the graph."""
        return self._size.fixed() / self._divisor

    def __bool__(self) -> bool:
        return bool(self._size)

    def __hash__(self) -> int:
        return hash(self.fixed())

    def compare(self, comparison: Callable[[Any, Any], Any], other: Any) -> bool:
        """Whether a comparison of `operator` holds."""
        if not isinstance(other, (Integral, float)):
            return bool(comparison(self.fixed(), _fixed(other)))
        if comparison in (operator.eq, operator.ne):
            is_equal = self.compare(operator.ge, other) and self.compare(operator.le, other)
            return is_equal is (comparison is operator.eq)
        # True from some size on, or up to it: divisions by positive numbers keep the order.
        is_rising = comparison in (operator.gt, operator.ge)
        low, high = -_MAX_SIZE, _MAX_SIZE
        while low < high:
            middle = (low + high) // 2
            if bool(comparison(middle / self._divisor, other)) is is_rising:
                high = middle
            else:
                low = middle + 1
        return self._size.compare(operator.ge if is_rising else operator.lt, low)


def _fixed(value: Any) -> Any:
    return value.fixed() if isinstance(value, (ConditionSize, Quotient)) else value


_MAX_SIZE: Final = 2**63
_MAX_POWER: Final = 8  # greater ones are computed of the size that the graph is for
_EXACT: Final = ("add", "sub", "mul", "floordiv", "mod")
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
# Of known sizes: frameworks have no symbols for what these give.
_BITS: Final = ("lshift", "rshift", "and_", "or_", "xor")
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **{"int": int, "float": float, "round": round},
    **{"trunc": math.trunc, "ceil": math.ceil, "floor": math.floor},
}


def _exact(operation: Any, reverse: bool) -> Any:
    if reverse:
        return lambda self, other: self._compute(operation, other, self)
    return lambda self, other: self._compute(operation, self, other)


def _of_known(operation: Any, reverse: bool) -> Any:
    if reverse:
        return lambda self, other: operation(_fixed(other), self.fixed())
    return lambda self, *others: operation(self.fixed(), *map(_fixed, others))


def _comparison(operation: Any) -> Any:
    return lambda self, other: self.compare(operation, other)


def _add_binary(kind: type, names: Iterable[str], method: Callable[[Any, bool], Any]) -> None:
    for name in names:
        operation, plain = getattr(operator, name), name.rstrip("_")
        setattr(kind, f"__{plain}__", method(operation, False))
        setattr(kind, f"__r{plain}__", method(operation, True))


def _add_unary(kind: type, functions: Mapping[str, Callable[..., Any]]) -> None:
    for name, function in functions.items():
        setattr(kind, f"__{name}__", _of_known(function, False))


_add_binary(ConditionSize, _EXACT, _exact)
_add_binary(ConditionSize, _BITS, _of_known)
_add_unary(ConditionSize, {**_FUNCTIONS, "index": operator.index, "invert": operator.invert})
_add_binary(Quotient, (*_EXACT, "truediv", "pow"), _of_known)
_add_unary(Quotient, {**_FUNCTIONS, "neg": operator.neg, "pos": operator.pos, "abs": abs})
for _name in ("truediv", "pow"):
    setattr(ConditionSize, f"__r{_name}__", _of_known(getattr(operator, _name), True))
for _name in _COMPARISONS:
    for _kind in (ConditionSize, Quotient):
        setattr(_kind, f"__{_name}__", _comparison(getattr(operator, _name)))


def decidable(values: Sequence[Any], decide: Decide, fix: Fix) -> list[Any]:
    """Operands or attributes with what decides comparisons in the place of symbols."""

    def size(value: Any) -> Any:
        return value if type(value) is int else ConditionSize(value, decide, fix)

    def convert(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [convert(item) for item in value]
        if isinstance(value, TensorSpec):
            return dataclasses.replace(value, shape=tuple(map(size, value.shape)))
        return size(value) if symbol_kind(value) == "int" else value

    return [convert(value) for value in values]
