# SPDX-License-Identifier: Apache-2.0
"""Sizes that are symbols of a framework, in rules whose decisions are made at once."""

from __future__ import annotations

import dataclasses
import math
import operator
from numbers import Integral, Number, Real
from typing import TYPE_CHECKING, Any, Final

from ._spec import TensorSpec
from ._symbolic import COMPARISONS, OPERATORS, Size
from ._tracing import symbol_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._symbolic import Texts

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

    def __init__(self, value: Any, decide: Decide, fix: Fix, opt_texts: Texts | None) -> None:
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
        return self._binary("truediv", other)

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


def _symbol_or_value(other: Any) -> Any:
    symbol = undecided(other)
    return int(symbol) if isinstance(symbol, Integral) else symbol


def decidable(
    values: Sequence[Any], decide: Decide, fix: Fix, opt_texts: Texts | None = None
) -> list[Any]:
    """Operands or attributes with what decides comparisons in the place of symbols."""

    def size(value: Any) -> Any:
        return value if type(value) is int else ConditionSize(value, decide, fix, opt_texts)

    return [_map_sizes(size, value) for value in values]


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
