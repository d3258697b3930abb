# SPDX-License-Identifier: Apache-2.0
"""Records what a rule does with the sizes and attributes of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .size import COMPARISONS, OPERATORS, Policy, Size, is_symbolic

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX: Final = 2**63
_INSTRUCTIONS: Final = frozenset(OPERATORS) - {"truediv"}


class NeedsValuesError(BaseException):
    """A rule is to be traced again, with these values of the call in place of what stood for them.

    It made a key or text of a size, or looked at an attribute that is no int; then the number is
    that of the attribute, inverted. Not an `Exception`: rules must not catch it.
    """

    def __init__(self, values: frozenset[int]) -> None:
        super().__init__(values)
        self.values = values


class Trace(Policy):
    """A record of a rule: instructions over numbered values, the first of which are the call's.

    Each value has a *hint*, which it is in the call by which the rule is traced. Arithmetic becomes
    instructions; a decision (`if`, `min`) becomes a condition under which the program is valid. For
    a size that becomes a key (of a dictionary, of `functools.cache`) or text, other than a
    `check`'s message, the rule runs again with a plain int, so that nothing which outlives the
    trace refers to it.

    Args:
        known: The numbers of values that the rule gets as they are; the program is for calls that
            have the same.

    Attributes:
        known: The same, and attributes that nothing can stand for.
        lines: The instructions and conditions.
        hints: The values in the traced call.
    """

    def __init__(self, known: frozenset[int] = frozenset()) -> None:
        self.lines: list[str] = []
        self.known = known
        self.hints: list[int] = []
        self._loads: list[frozenset[int]] = []  # on which each value depends
        self._numbers: dict[tuple[str, int, int], int] = {}

    def load(self, hint: int) -> Any:
        """The next value that comes from the call: a `Size`, or an int if it is known."""
        index = len(self.hints)
        self.hints.append(hint)
        self._loads.append(frozenset((index,)))
        return hint if index in self.known else Size(self, index)

    def load_attribute(self, index: int, value: Any) -> Any:
        """An attribute, by its number: loaded if it is an int, else opaque until it is known."""
        if type(value) is int:
            return self.load(value)
        if isinstance(value, bool):  # rules may compare it by identity
            self.known |= {~index}
        return value if value is None or ~index in self.known else Opaque(index)

    def run(self, rule: Callable[[], Any]) -> Any:
        """Runs a rule, all of whose values are loaded.

        Raises:
            NeedsValuesError: If it made keys or text of sizes, or looked at attributes.
        """
        for index in sorted(self.known):
            if index >= 0:
                self._assume_hint(index)
        result = super().run(rule)
        if self.texts:
            raise NeedsValuesError(frozenset().union(*(self._loads[i] for _, i in self.texts)))
        return result

    def number(self, size: Any) -> int:
        """The number of a value of this trace, or of a constant.

        Raises:
            OverflowError: If a constant has more than 64 bits.
            RuntimeError: For a size of another trace.
        """
        if is_symbolic(size):
            if size.policy is not self:
                raise RuntimeError("expected sizes of one call, got one that was kept from another")
            index: int = size.value
            return index
        value = int(size)
        if not -_MAX <= value < _MAX:
            raise OverflowError(f"expected an int of 64 bits, got {value}")
        return self._emit("const", value, 0, value, frozenset())

    def fix(self, size: Size) -> int:
        """The value; the program is then for calls that have the same."""
        self._assume_hint(size.value)
        return hint_of(size)

    def apply(self, name: str, size: Size, other: Any, reverse: bool) -> Any:
        """The result of an instruction."""
        is_int = is_symbolic(other) or type(other) in (int, bool)
        if not is_int or name not in _INSTRUCTIONS:
            return super().apply(name, size, other, reverse)
        a, b = size.value, self._beside(size.value, other)
        a, b = (b, a) if reverse else (a, b)
        is_logic = name in ("and", "or", "xor") and size.__class__ is bool is other.__class__
        kind = bool if name in COMPARISONS or is_logic else int
        return Size(self, self._instruct(name, a, b), kind)

    def truth(self, size: Size) -> bool:
        """The truth of a size, of which the program becomes one."""
        self._assume(size.value)
        return bool(self.hints[size.value])

    def text(self, size: Size, spec: str) -> str:
        """Text, which is noted."""
        hint = self.hints[size.value]
        if self.texts is not None:
            self.texts.append((str(hint), size.value))
        return format(size.__class__(hint), spec)

    def hash(self, size: Size) -> int:
        """Raises `NeedsValuesError`."""
        raise NeedsValuesError(self._loads[size.value])

    def _assume_hint(self, index: int) -> None:
        self._assume(self._instruct("eq", index, self._beside(index, self.hints[index])))

    def _beside(self, index: int, other: Any) -> int:
        """The number of an operand; for one beyond 64 bits, the rule runs again with plain ints."""
        if not is_symbolic(other) and not -_MAX <= other < _MAX:
            raise NeedsValuesError(self._loads[index])
        return self.number(other)

    def _assume(self, index: int) -> None:
        """Makes the program one for calls in which a value is as true as it is now."""
        line = self._condition(index)
        if line not in self.lines:
            self.lines.append(line)

    def _condition(self, index: int) -> str:
        return f"{'true' if self.hints[index] else 'false'} {index}"

    def _instruct(self, name: str, a: int, b: int) -> int:
        hint = int(OPERATORS[name](self.hints[a], self.hints[b]))
        return self._emit(name, a, b, hint, self._loads[a] | self._loads[b])

    def _emit(self, name: str, a: int, b: int, hint: int, loads: frozenset[int]) -> int:
        key = (name, a, b)
        if key not in self._numbers:
            self.lines.append(f"const {a}" if name == "const" else f"{name} {a} {b}")
            self._numbers[key] = len(self.hints)
            self.hints.append(hint)
            self._loads.append(loads)
        return self._numbers[key]


def hint_of(size: Any) -> int:
    """The value that a size has in the traced call."""
    return int(size.policy.hints[size.value] if is_symbolic(size) else size)


class Opaque:
    """An attribute that is no int, until the rule looks at it."""

    __slots__ = ("_index",)

    def __init__(self, index: int) -> None:
        object.__setattr__(self, "_index", index)


def _look(self: Opaque, *_: Any) -> Any:
    raise NeedsValuesError(frozenset((~object.__getattribute__(self, "_index"),)))


_OF_OBJECTS: Final = "getattribute setattr eq ne lt le gt ge hash str repr format fspath".split()
for _name in {*dir(float), *dir(str)} - {*dir(object)} | {f"__{n}__" for n in _OF_OBJECTS}:
    setattr(Opaque, _name, _look)
