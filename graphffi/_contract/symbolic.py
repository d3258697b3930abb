# SPDX-License-Identifier: Apache-2.0
"""Integers and other values that note what a shape rule does with them.

Each stands for one value of the call by which a rule is traced (its *hint*). Arithmetic becomes
instructions; a decision (`if`, `min`) becomes a condition under which the program is valid. A size
that becomes a key (of a dictionary, of `functools.cache`) or text, other than a `check`'s message,
is traced again as a plain int, so that nothing which outlives the trace refers to it.
"""

from __future__ import annotations

import operator
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX: Final = 2**63
_MAX_POWER: Final = 8


class NeedsValueError(BaseException):
    """A rule looked at an attribute: it is traced again with that attribute's value.

    Not an `Exception`: rules must not catch it.
    """

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class NeedsSizesError(BaseException):
    """A rule made a key or text of a size: it is traced again with plain ints for these loads."""

    def __init__(self, loads: frozenset[int]) -> None:
        super().__init__(loads)
        self.loads = loads


class Texts:
    """Texts that a rule makes of sizes. Those in a `check`'s message are for a reader alone.

    Attributes:
        made: The others: each with what it was made of.
    """

    def __init__(self) -> None:
        self.made: set[tuple[str, Any]] = set()

    def note(self, text: str, of: Any) -> None:
        """Text that was made."""
        self.made.add((text, of))

    def forgive(self, message: str) -> None:
        """Forgets text that is part of a message."""
        self.made = {(text, of) for text, of in self.made if text not in message}

    def run(self, rule: Callable[[], Any]) -> Any:
        """Runs a rule, of whose sizes texts are noted here."""
        _running.texts, outer = self, getattr(_running, "texts", None)
        try:
            return rule()
        finally:
            _running.texts = outer


class Trace:
    """A record of a rule: instructions over numbered values, the first of which are the call's.

    Args:
        fixed: The numbers of loads that the rule gets as plain ints; the program is for calls that
            have the same.

    Attributes:
        lines: The instructions and conditions.
        hints: What the values are in the traced call.
        loads: The loads on which each value depends.
        texts: Of its values.
    """

    def __init__(self, fixed: frozenset[int] = frozenset()) -> None:
        self.lines: list[str] = []
        self.hints: list[int] = []
        self.loads: list[frozenset[int]] = []
        self._known: dict[tuple[str, int, int], int] = {}
        self._fixed = fixed
        self.texts = Texts()

    def load(self, hint: int) -> Any:
        """The next value that comes from the call: a `SymbolicInt`, or an int if it is fixed."""
        index = len(self.hints)
        self.hints.append(hint)
        self.loads.append(frozenset((index,)))
        return hint if index in self._fixed else SymbolicInt(self, index)

    def run(self, rule: Callable[[], Any]) -> Any:
        """Runs a rule, all of whose values are loaded.

        Raises:
            NeedsSizesError: If it made keys or text of sizes.
        """
        for index in sorted(self._fixed):
            self.assume(self.apply("eq", index, self.const(self.hints[index])))
        result = self.texts.run(rule)
        if self.texts.made:
            raise NeedsSizesError(frozenset().union(*(self.loads[i] for _, i in self.texts.made)))
        return result

    def owns(self, value: SymbolicInt) -> bool:
        """True if a value is this trace's."""
        return value._trace is self

    def const(self, value: int) -> int:
        """The number of a constant.

        Raises:
            OverflowError: If it has more than 64 bits.
        """
        if not -_MAX <= value < _MAX:
            raise OverflowError(f"expected an int of 64 bits, got {value}")
        return self._emit("const", value, 0, value)

    def apply(self, name: str, a: int, b: int) -> int:
        """The number of the result of an instruction."""
        return self._emit(name, a, b, OPERATORS[name](self.hints[a], self.hints[b]))

    def assume(self, index: int) -> None:
        """Makes the program one for calls in which a value is as true as it is now."""
        line = f"{'true' if self.hints[index] else 'false'} {index}"
        if line not in self.lines:
            self.lines.append(line)

    def _emit(self, name: str, a: int, b: int, hint: int) -> int:
        key = (name, a, b)
        index = self._known.get(key)
        if index is None:
            self.lines.append(f"const {a}" if name == "const" else f"{name} {a} {b}")
            self.hints.append(int(hint))
            is_const = name == "const"
            self.loads.append(frozenset() if is_const else self.loads[a] | self.loads[b])
            self._known[key] = index = len(self.hints) - 1
        return index


_running = threading.local()


def allow_text(message: str) -> None:
    """Says that sizes in this text are there for a reader; `check` calls it."""
    texts: Texts | None = getattr(_running, "texts", None)
    if texts is not None:
        texts.forgive(message)


class Size:
    """An int that may have other values in other calls. `isinstance(x, int)` holds.

    Classes of sizes say what operations on them give, and what happens where only a value helps.
    """

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int

    def _fix(self) -> int:
        """The value, which all that follows is for."""
        raise NotImplementedError

    def _binary(self, name: str, other: Any, reverse: bool = False) -> Any:
        """The result of one of `OPERATORS`."""
        raise NotImplementedError

    def _as_text(self) -> Any:
        """The value or symbol of which text is made."""
        raise NotImplementedError

    def __neg__(self) -> Any:
        return self._binary("sub", 0, reverse=True)

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return self._binary("sub", -1, reverse=True)

    def __abs__(self) -> Any:
        return -self if self._binary("lt", 0) else self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __lshift__(self, count: Any) -> Any:
        fixed = operator.index(count)
        return self._binary("mul", 1 << fixed) if fixed >= 0 else self._fix() << fixed

    def __rshift__(self, count: Any) -> Any:
        fixed = operator.index(count)
        return self._binary("floordiv", 1 << fixed) if fixed >= 0 else self._fix() >> fixed

    def __pow__(self, exponent: Any, modulus: Any = None) -> Any:
        if modulus is not None or type(exponent) is not int or not 0 <= exponent <= _MAX_POWER:
            return pow(self._fix(), exponent, modulus)
        result: Any = 1
        for _ in range(exponent):
            result = self * result
        return result

    def __str__(self) -> str:
        return str(self._as_text())

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(self._as_text(), spec)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(int, name):
            raise AttributeError(name)
        return getattr(self._fix(), name)


class SymbolicInt(Size):
    """An int of the traced call."""

    __slots__ = ("_trace", "index")

    def __init__(self, trace: Trace, index: int) -> None:
        self._trace = trace
        self.index = index

    @property
    def hint(self) -> int:
        """Its value in the traced call."""
        return self._trace.hints[self.index]

    def _fix(self) -> int:
        """The value, of which the program becomes one for exactly this value."""
        hint = self.hint
        self._trace.assume(self._trace.apply("eq", self.index, self._trace.const(hint)))
        return hint

    def _binary(self, name: str, other: Any, reverse: bool = False) -> Any:
        symbolic = issubclass(type(other), SymbolicInt)
        if symbolic and other._trace is not self._trace:
            raise RuntimeError("expected sizes of one call, got one that was kept from another")
        if not symbolic and type(other) not in (int, bool):
            python = OPERATORS[name]
            return python(other, self._fix()) if reverse else python(self._fix(), other)
        index = other.index if symbolic else self._trace.const(int(other))
        a, b = (index, self.index) if reverse else (self.index, index)
        kind = SymbolicBool if self._gives_bool(name, other) else SymbolicInt
        return kind(self._trace, self._trace.apply(name, a, b))

    def _gives_bool(self, name: str, other: Any) -> bool:
        if name in COMPARISONS:
            return True
        bools = issubclass(type(self), SymbolicBool) and issubclass(
            type(other), (SymbolicBool, bool)
        )
        return bools and name in ("and", "or", "xor")

    def __bool__(self) -> bool:
        self._trace.assume(self.index)
        return bool(self.hint)

    def _as_text(self) -> Any:
        self._trace.texts.note(str(self.hint), self.index)
        return self.hint

    def __hash__(self) -> int:
        raise NeedsSizesError(self._trace.loads[self.index])


class SymbolicBool(SymbolicInt):
    """The result of a comparison of sizes; deciding on it is a condition of the program."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return bool

    def _as_text(self) -> Any:
        return bool(super()._as_text())


COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    **{name: getattr(operator, name) for name in COMPARISONS},
}


def _forward(name: str, reverse: bool) -> Callable[[Size, Any], Any]:
    return lambda self, other: self._binary(name, other, reverse)


def _fixed(name: str) -> Callable[..., Any]:
    return lambda self, *args: getattr(self._fix(), name)(*args)


for _name in OPERATORS:
    setattr(Size, f"__{_name}__", _forward(_name, False))
    if _name not in COMPARISONS:
        setattr(Size, f"__r{_name}__", _forward(_name, True))
# An operation that no class expresses asks for the value.
for _name in (
    "index int float round trunc ceil floor truediv rtruediv rpow rlshift rrshift"
).split():
    setattr(Size, f"__{_name}__", _fixed(f"__{_name}__"))


class Opaque:
    """An attribute that is no int, until the rule looks at it."""

    __slots__ = ("_index",)

    def __init__(self, index: int) -> None:
        object.__setattr__(self, "_index", index)


def _look(self: Opaque, *_: Any) -> Any:
    raise NeedsValueError(object.__getattribute__(self, "_index"))


for _name in (
    "getattribute setattr eq ne lt le gt ge hash bool str repr format int float complex index len "
    "iter next contains getitem call add radd sub rsub mul rmul truediv rtruediv floordiv "
    "rfloordiv mod rmod pow rpow neg pos abs round trunc ceil floor and rand or ror xor rxor "
    "invert lshift rlshift rshift rrshift divmod rdivmod fspath bytes enter exit"
).split():
    setattr(Opaque, f"__{_name}__", _look)
