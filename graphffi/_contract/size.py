# SPDX-License-Identifier: Apache-2.0
"""Sizes that may have other values in other calls, as rules of ops see them.

A `Policy` says what becomes of operations on them: `Trace` records them for the programs of eager
calls; `Symbols` computes with a framework's symbols, and guards or proves decisions.
"""

from __future__ import annotations

import functools
import math
import operator
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_POWER: Final = 8
COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **{"and": operator.and_, "or": operator.or_, "xor": operator.xor},
    **{n: getattr(operator, n) for n in ("add", "sub", "mul", "floordiv", "mod", "truediv")},
    **{n: getattr(operator, n) for n in COMPARISONS},
}


class Policy:
    """The results of operations on sizes of one kind. By default, all is for the value at hand.

    Attributes:
        texts: Those that a rule that `run` runs makes of sizes, each with what it is made of; not
            those in a `check`'s message, which are for a reader alone. None before.
    """

    texts: list[tuple[str, Any]] | None = None

    def run(self, rule: Callable[[], Any]) -> Any:
        """Runs a rule, and notes the texts that it makes of sizes."""
        self.texts = []
        _running.policy, outer = self, getattr(_running, "policy", None)
        try:
            return rule()
        finally:
            _running.policy = outer

    def fix(self, size: Size) -> Any:
        """The value, which all that follows is for."""
        raise NotImplementedError

    def apply(self, name: str, size: Size, other: Any, reverse: bool) -> Any:
        """The result of one of `OPERATORS`; a reversed one has the size on its right."""
        own, other = self.fix(size), other._fix() if is_symbolic(other) else other
        return OPERATORS[name](other, own) if reverse else OPERATORS[name](own, other)

    def convert(self, function: Callable[..., Any], size: Size, *arguments: Any) -> Any:
        """The result of `int`, `round`, `math.ceil` or their like."""
        return function(self.fix(size), *arguments)

    def truth(self, size: Size) -> bool:
        """True if a size is not 0."""
        return bool(self.apply("ne", size, 0, False))

    def text(self, size: Size, spec: str) -> str:
        """Formatted text."""
        return format(self.fix(size), spec)

    def hash(self, size: Size) -> int:
        """The hash, by which a size is a key."""
        return hash(self.fix(size))


class Size:
    """An int, or what a rule computes of one, for `isinstance`, too.

    Args:
        policy: What operations give.
        value: What the policy knows it by: the number of a value, or a framework's symbol.
        kind: The type that it passes for: int, bool or float.
    """

    __slots__ = ("_kind", "policy", "value")

    def __init__(self, policy: Policy, value: Any, kind: type = int) -> None:
        self.policy = policy
        self.value = value
        self._kind = kind

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self._kind

    def _fix(self) -> Any:
        return self.policy.fix(self)

    def _convert(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.policy.convert(function, self, *arguments)

    def _apply(self, name: str, other: Any, reverse: bool = False) -> Any:
        return self.policy.apply(name, self, other, reverse)

    def __neg__(self) -> Any:
        # 0 - 0.0 has another sign.
        return self._apply("mul", -1) if self._kind is float else self._apply("sub", 0, True)

    def __pos__(self) -> Any:
        return Size(self.policy, self.value) if self._kind is bool else self

    def __invert__(self) -> Any:
        return ~self._fix() if self._kind is float else self._apply("sub", -1, True)

    def __abs__(self) -> Any:
        return -self if self._apply("lt", 0) else +self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __lshift__(self, count: Any) -> Any:
        return self._shift("mul", operator.lshift, operator.index(count))

    def __rshift__(self, count: Any) -> Any:
        return self._shift("floordiv", operator.rshift, operator.index(count))

    def _shift(self, name: str, operation: Any, count: int) -> Any:
        is_multiple = count >= 0 and self._kind is not float
        return self._apply(name, 1 << count) if is_multiple else operation(self._fix(), count)

    def __pow__(self, exponent: Any, modulus: Any = None) -> Any:
        is_product = modulus is None and type(exponent) is int and self._kind is not float
        if not is_product or not 0 <= exponent <= _MAX_POWER:
            return pow(self._fix(), exponent, modulus)
        result: Any = 1
        for _ in range(exponent):
            result = self * result
        return result

    def __rpow__(self, base: Any) -> Any:
        return base ** self._fix()

    def __rlshift__(self, number: Any) -> Any:
        return number << self._fix()

    def __rrshift__(self, number: Any) -> Any:
        return number >> self._fix()

    def __bool__(self) -> bool:
        return self.policy.truth(self)

    def __hash__(self) -> int:
        return self.policy.hash(self)

    def __str__(self) -> str:
        return self.policy.text(self, "")

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return self.policy.text(self, spec)

    def __getattr__(self, name: str) -> Any:
        # A copy that is being made has no kind yet.
        if not hasattr(object.__getattribute__(self, "_kind"), name):
            raise AttributeError(name)
        return getattr(self._fix(), name)


for _name in OPERATORS:
    setattr(Size, f"__{_name}__", functools.partialmethod(Size._apply, _name))
    if _name not in COMPARISONS:
        setattr(Size, f"__r{_name}__", functools.partialmethod(Size._apply, _name, reverse=True))
for _function in (operator.index, int, float, round, math.trunc, math.ceil, math.floor):
    setattr(Size, f"__{_function.__name__}__", functools.partialmethod(Size._convert, _function))


def is_symbolic(value: Any) -> bool:
    """True for a `Size`, which passes for an int."""
    return type(value) is Size


_running = threading.local()


def allow_text(message: str) -> None:
    """Says that sizes in this text are there for a reader; `check` calls it."""
    policy: Policy | None = getattr(_running, "policy", None)
    if policy is not None and policy.texts:
        policy.texts = [(text, of) for text, of in policy.texts if text not in message]
