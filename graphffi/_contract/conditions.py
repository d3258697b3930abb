# SPDX-License-Identifier: Apache-2.0
"""Sizes that are symbols of a framework, in rules whose decisions are made at once."""

from __future__ import annotations

import dataclasses
import math
import operator
from numbers import Integral, Number, Real
from typing import TYPE_CHECKING, Any, Final

from .._frameworks.tracing import symbol_kind
from .spec import TensorSpec
from .symbolic import COMPARISONS, OPERATORS, Size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .symbolic import Texts

    # Gets a comparison (of `operator`) and two values; says whether it holds.
    Decide = Callable[[Callable[[Any, Any], Any], Any, Any], bool]
    Fix = Callable[[Any], Any]

# The symbols of a framework that has no tracer compute this alone, and of ints.
_EXACT: Final = ("add", "sub", "mul", "floordiv", "mod")
_OPERATIONS: Final = {**OPERATORS, "truediv": operator.truediv}


class UndecidedError(BaseException):
    """A decision depends on sizes that a graph leaves open, and cannot be guarded.

    Not an `Exception`: rules must not catch it.
    """


class ConditionSize(Size):
    """A symbolic size, or what a rule computes of one; comparisons are decided at once.

    Args:
        value: The framework's symbol.
        decide: Says whether a comparison holds: guards it, proves it, or raises `UndecidedError`.
        fix: Gives the value of a symbol, which the graph is for from then on; or raises that.
        opt_texts: Gets the texts that are made of the symbol. Without, its value is fixed for them.
    """

    __slots__ = ("_decide", "_fix_value", "_opt_texts", "value")

    def __init__(
        self, value: Any, decide: Decide, fix: Fix, opt_texts: Texts | None = None
    ) -> None:
        self.value = value
        self._decide = decide
        self._fix_value = fix
        self._opt_texts = opt_texts

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float if symbol_kind(self.value) == "float" else int

    def _fix(self) -> Any:
        return self._fix_value(self.value)

    def fixed(self) -> Any:
        """The value that it has in the graph."""
        return self._fix()

    def _binary(self, name: str, other: Any, reverse: bool = False) -> Any:
        operation = _OPERATIONS[name]
        if name in COMPARISONS:
            return self._compare(operation, other)
        other = _symbol_or_value(other)
        own = self.value if self._computes(name, other) else self._fix()
        result = operation(other, own) if reverse else operation(own, other)
        is_symbol = type(result) is type(self.value) or symbol_kind(result) is not None
        return self._like(result) if is_symbol else result

    def _computes(self, name: str, other: Any) -> bool:
        if symbol_kind(self.value) is not None:
            return type(other) in (int, float) or symbol_kind(other) is not None
        return name in _EXACT and type(other) in (int, type(self.value))

    def _like(self, value: Any) -> ConditionSize:
        return ConditionSize(value, self._decide, self._fix_value, self._opt_texts)

    def _compare(self, comparison: Callable[[Any, Any], Any], other: Any) -> Any:
        value = _symbol_or_value(other)
        if type(value) in (int, type(self.value)) or symbol_kind(value) is not None:
            return self._decide(comparison, self.value, value)
        if not isinstance(value, Number):
            return NotImplemented
        if not isinstance(value, Real) or symbol_kind(self.value) == "float":
            return comparison(self._fix(), value)
        return self._compare_with_real(comparison, value)

    def _compare_with_real(self, comparison: Callable[[Any, Any], Any], real: Any) -> Any:
        """Compares with an int instead, between which and the number there is no other int."""
        if not math.isfinite(real) or (comparison in (operator.eq, operator.ne) and real % 1):
            return bool(comparison(0, real))
        is_upper = comparison in (operator.lt, operator.ge)
        bound = math.ceil(real) if is_upper else math.floor(real)
        return self._decide(comparison, self.value, bound)

    def __truediv__(self, other: Any) -> Any:
        divisor = _symbol_or_value(other)
        if type(divisor) is not int or divisor == 0 or symbol_kind(self.value) == "float":
            return self._binary("truediv", other)
        size = -self if divisor < 0 else self
        return Quotient(size, abs(divisor)) if is_size(size) else size / abs(divisor)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary("truediv", other, reverse=True)

    def __bool__(self) -> bool:
        return self._decide(operator.ne, self.value, 0)

    def __hash__(self) -> int:
        return hash(self._fix())

    def _as_text(self) -> Any:
        if self._opt_texts is None:
            return self._fix()
        text = str(self.value)
        self._opt_texts.note(text, self.value)
        return text

    def __format__(self, spec: str) -> str:
        return str(self) if self._opt_texts is not None else format(self._fix(), spec)


class Quotient:
    """A symbolic size divided by a number, as Python divides: the nearest float.

    Comparisons with numbers become comparisons of the size; all else is for the size in the graph.

    Args:
        size: The dividend.
        divisor: 1 or more.
    """

    __slots__ = ("_divisor", "_size")

    def __init__(self, size: ConditionSize, divisor: int) -> None:
        self._size = size
        self._divisor = divisor

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float

    def fixed(self) -> float:
        """The value that it has in the graph."""
        return float(self._size.fixed() / self._divisor)

    def __bool__(self) -> bool:
        return bool(self._size)

    def __hash__(self) -> int:
        return hash(self.fixed())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fixed(), name)

    def compare(self, comparison: Callable[[Any, Any], Any], other: Any) -> bool:
        """True if a comparison of `operator` holds."""
        if is_size(other) or not isinstance(other, (Integral, float)):
            return bool(comparison(self.fixed(), _fixed(other)))
        if comparison in (operator.eq, operator.ne):
            is_equal = self.compare(operator.ge, other) and self.compare(operator.le, other)
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
        return bool((operator.ge if is_rising else operator.lt)(self._size, low))


_MOST: Final = 2**63


def is_size(value: Any) -> bool:
    """True for a symbolic size in a rule, which passes for an int."""
    return issubclass(type(value), Size)


def _fixed(value: Any) -> Any:
    return value.fixed() if issubclass(type(value), (ConditionSize, Quotient)) else value


def _comparison(name: str) -> Callable[[Any, Any], bool]:
    operation = getattr(operator, name)
    return lambda self, other: self.compare(operation, other)


def _of_known(operation: Any, reverse: bool) -> Any:
    if reverse:
        return lambda self, other: operation(_fixed(other), self.fixed())
    return lambda self, *others: operation(self.fixed(), *map(_fixed, others))


for _name in COMPARISONS:
    setattr(Quotient, f"__{_name}__", _comparison(_name))
for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"):
    for _reverse in (False, True):
        _method = f"__{'r' if _reverse else ''}{_name}__"
        setattr(Quotient, _method, _of_known(getattr(operator, _name), _reverse))
_UNARY: Final = {
    **{"int": int, "float": float, "round": round, "str": str, "repr": repr, "format": format},
    **{"trunc": math.trunc, "ceil": math.ceil, "floor": math.floor},
    **{"neg": operator.neg, "pos": operator.pos, "abs": abs},
}
for _name, _function in _UNARY.items():
    setattr(Quotient, f"__{_name}__", _of_known(_function, False))


def _symbol_or_value(other: Any) -> Any:
    if is_size(other):
        return undecided(other)
    return int(other) if isinstance(other, Integral) else other


def decidable(
    values: Sequence[Any], decide: Decide, fix: Fix, opt_texts: Texts | None = None
) -> list[Any]:
    """Operands or attributes with what decides comparisons in the place of symbols."""

    def size(value: Any) -> Any:
        return value if type(value) is int else ConditionSize(value, decide, fix, opt_texts)

    def convert(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [convert(item) for item in value]
        return size(value) if symbol_kind(value) == "int" else _map_sizes(size, value)

    return [convert(value) for value in values]


def undecided(value: Any) -> Any:
    """A size, a spec or a list of them with the framework's symbols in the place of ours."""
    is_ours = issubclass(type(value), ConditionSize)
    return value.value if is_ours else _map_sizes(undecided, value)


def _map_sizes(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_map_sizes(function, item) for item in value]
    if isinstance(value, TensorSpec):
        return dataclasses.replace(value, shape=tuple(map(function, value.shape)))
    return value
