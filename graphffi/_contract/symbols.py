# SPDX-License-Identifier: Apache-2.0
"""Sizes that are symbols of a framework, in rules whose decisions are made at once."""

from __future__ import annotations

import dataclasses
import math
import operator
from numbers import Integral, Number, Real
from typing import TYPE_CHECKING, Any, Final

from .._frameworks.tracing import symbol_kind
from .size import COMPARISONS, OPERATORS, Policy, Size, is_symbolic
from .spec import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Comparison = Callable[[Any, Any], Any]

# The symbols of a framework that has no tracer compute this alone, and of ints.
_EXACT: Final = ("add", "sub", "mul", "floordiv", "mod")
# What gives an int near a number, and the method of symbols that does so.
_ROUNDING: Final[dict[Callable[..., Any], str]] = {
    **{f: f"__{f.__name__}__" for f in (round, math.ceil, math.floor, math.trunc)},
    int: "__trunc__",
}


class UndecidedError(BaseException):
    """A decision depends on sizes that a graph leaves open, and cannot be guarded.

    Not an `Exception`: rules must not catch it.
    """


class Symbols(Policy):
    """Symbolic sizes, and what a rule computes of them; comparisons are decided at once.

    Args:
        decide: Gets a comparison of `operator` and two values. Says whether it holds: guards it,
            proves it, or raises `UndecidedError`.
        fix: Gives the value of a symbol, which the graph is for from then on; or raises that.
    """

    def __init__(
        self, decide: Callable[[Comparison, Any, Any], bool], fix: Callable[[Any], Any]
    ) -> None:
        self.decide = decide
        self._fix = fix

    def seen(self, values: Sequence[Any]) -> list[Any]:
        """Operands or attributes as rules see them."""

        def size(value: Any) -> Any:
            return value if type(value) is int else Size(self, value)

        return [
            _mapped(value, size, lambda v: size(v) if symbol_kind(v) == "int" else v)
            for value in values
        ]

    def fix(self, size: Size) -> Any:
        """The value that it has in the graph."""
        return self._fix(size.value)

    def apply(self, name: str, size: Size, other: Any, reverse: bool) -> Any:
        """The answer to a comparison; a symbol, if the framework computes it."""
        own: Any = size.value
        other = _symbol_or_value(other)
        if name in COMPARISONS:
            return self._compare(OPERATORS[name], own, other)
        is_float = symbol_kind(own) == "float"
        if name == "truediv" and type(other) is int and other and not (reverse or is_float):
            of: Any = -size if other < 0 else size
            policy = _Quotients(self, abs(other))
            return Size(policy, of.value, float) if is_symbolic(of) else of / abs(other)
        if not _computes(name, own, other):
            own = self._fix(own)
        result = OPERATORS[name](other, own) if reverse else OPERATORS[name](own, other)
        kind = symbol_kind(result)
        if kind is None and type(result) is not type(size.value):
            return result
        return Size(self, result, float if kind == "float" else int)

    def convert(self, function: Callable[..., Any], size: Size, *digits: Any) -> Any:
        """A symbol for an int near a number, if the framework computes it."""
        is_int = function is int and symbol_kind(size.value) != "float"
        if digits or is_int or not _rounds(function, size.value):
            return super().convert(function, size, *digits)
        return self.rounded(function, size.value)

    def rounded(self, function: Callable[..., Any], number: Any) -> Any:
        """The int near a symbol that a function gives; `int` gives none that is symbolic."""
        return self._fix(math.trunc(number)) if function is int else Size(self, function(number))

    def text(self, size: Size, spec: str) -> str:
        """The symbol's text, where it is noted, or that of its value."""
        if self.texts is None:
            return super().text(size, spec)
        text = str(size.value)
        self.texts.append((text, size.value))
        return text

    def _compare(self, comparison: Comparison, own: Any, other: Any) -> Any:
        if type(other) in (int, type(own)) or symbol_kind(other) is not None:
            return self.decide(comparison, own, other)
        if not isinstance(other, Number):
            return NotImplemented
        if not isinstance(other, Real) or symbol_kind(own) == "float":
            return comparison(self._fix(own), other)
        # With an int instead, between which and the number there is no other int.
        if not math.isfinite(other) or (comparison in (operator.eq, operator.ne) and other % 1):
            return bool(comparison(0, other))
        is_upper = comparison in (operator.lt, operator.ge)
        return self.decide(comparison, own, math.ceil(other) if is_upper else math.floor(other))


class _Quotients(Policy):
    """Symbolic sizes divided by a number, as Python divides: the nearest float.

    Comparisons with numbers become comparisons of the size; all else is for the size in the graph.

    Args:
        symbols: The dividends' policy.
        divisor: 1 or more.
    """

    def __init__(self, symbols: Symbols, divisor: int) -> None:
        self._symbols = symbols
        self._divisor = divisor

    def fix(self, size: Size) -> float:
        """The value that it has in the graph."""
        return float(self._symbols.fix(size) / self._divisor)

    def convert(self, function: Callable[..., Any], size: Size, *digits: Any) -> Any:
        """A symbol for an int near a number, if the framework computes it."""
        if digits or not _rounds(function, size.value):
            return super().convert(function, size, *digits)
        return self._symbols.rounded(function, size.value / self._divisor)

    def truth(self, size: Size) -> bool:
        """True if the dividend is not 0."""
        return self._symbols.truth(size)

    def apply(self, name: str, size: Size, other: Any, reverse: bool) -> Any:
        """The answer to a comparison with a number, or what the value gives."""
        is_number = not is_symbolic(other) and isinstance(other, (Integral, float))
        if name not in COMPARISONS or not is_number:
            return super().apply(name, size, other, reverse)
        return self._compare(OPERATORS[name], size.value, other)

    def _compare(self, comparison: Comparison, size: Any, other: Any) -> bool:
        if comparison in (operator.eq, operator.ne):
            is_equal = all(self._compare(c, size, other) for c in (operator.ge, operator.le))
            return is_equal is (comparison is operator.eq)
        # True from some size on, or up to it: divisions by positive numbers keep the order.
        is_rising = comparison in (operator.gt, operator.ge)
        low, high = -_MOST, _MOST
        while low < high:
            middle = (low + high) // 2
            if bool(comparison(middle / self._divisor, other)) is is_rising:
                high = middle
            else:
                low = middle + 1
        if low in (-_MOST, _MOST):  # the same for all sizes
            return is_rising is (low == -_MOST)
        return self._symbols.decide(operator.ge if is_rising else operator.lt, size, low)


_MOST: Final = 2**63


def undecided(value: Any) -> Any:
    """A size, a spec or a list of them with the framework's symbols in the place of ours."""
    return _mapped(value, _symbol, _symbol)


def _symbol(value: Any) -> Any:
    is_whole = is_symbolic(value) and isinstance(value.policy, Symbols)
    return value.value if is_whole else value


def _symbol_or_value(other: Any) -> Any:
    if is_symbolic(other):
        return _symbol(other)
    return int(other) if isinstance(other, Integral) else other


def _rounds(function: Callable[..., Any], symbol: Any) -> bool:
    """True if a framework has a symbol for an int near another one."""
    name = _ROUNDING.get(function)
    return name is not None and symbol_kind(symbol) is not None and hasattr(symbol, name)


def _computes(name: str, symbol: Any, other: Any) -> bool:
    """True if an operation on a symbol gives another one."""
    if symbol_kind(symbol) is not None:
        return type(other) in (int, float) or symbol_kind(other) is not None
    return name in _EXACT and type(other) in (int, type(symbol))


def _mapped(value: Any, of_size: Callable[[Any], Any], of_other: Callable[[Any], Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_mapped(item, of_size, of_other) for item in value]
    if isinstance(value, TensorSpec):
        return dataclasses.replace(value, shape=tuple(map(of_size, value.shape)))
    return of_other(value)
