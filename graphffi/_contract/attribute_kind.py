# SPDX-License-Identifier: Apache-2.0
"""Kinds of attributes: one table of all in which they differ."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .._frameworks.tracing import is_int64, is_known, is_proxy, symbol_kind
from .._values.describe import (
    NUMBERS,
    describe,
    is_masked,
    is_numpy_scalar,
    is_tensor,
    plain_text,
)
from .._values.device import Device
from .._values.dtype import dtype

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST: Final = 2**1024 - 2**970 - 1  # the largest int that is a float


@dataclass(frozen=True)
class AttributeKind:
    """One kind of attributes.

    Args:
        name: In errors, and in plans as the conversion of what graphs hold.
        python: The class of values, which annotations and schemas name.
        bank: The letter of the plan's names for values in graphs: ``n`` for 64-bit integers, ``f``
            for doubles, ``s`` for text.
        convert: Gives a value as kernels get it, or None for one of another kind. Raises ValueError
            and TypeError for those that kernels can't be given.
        edges: Values by which `graphffi check` tries ops.
        is_converted: Whether the kernel gets something else than what its bank holds.
    """

    name: str
    python: Any
    bank: str
    convert: Callable[[Any], Any]
    edges: tuple[Any, ...]
    is_converted: bool = False

    @property
    def expected(self) -> str:
        """The kind in errors: ``an int``."""
        return f"{'an' if self.name == 'int' else 'a'} {self.name}"

    @property
    def travels_by_name(self) -> bool:
        """True if graphs hold texts in the place of values."""
        return self.is_converted and self.bank == "s"

    def plan_item(self, name: str) -> str:
        """The plan's text for a value that has a name there."""
        return f"{self.name}({name})" if self.is_converted else name

    def from_graph(self, value: Any) -> Any:
        """The value, or list of values, that a graph holds so, for rules."""
        if value is None or not self.travels_by_name:
            return value
        if isinstance(value, (list, tuple)):
            return [self.python(item) for item in value]
        return self.python(value)

    def to_graph(self, value: Any) -> Any:
        """A converted value, or list of values, as graphs hold it."""
        if value is None or not self.travels_by_name:
            return value
        return (
            [plain_text(item) for item in value] if isinstance(value, list) else plain_text(value)
        )


def _is_scalar(value: Any) -> bool:
    """A number of Python or NumPy; no array, not even one without dimensions."""
    return not is_tensor(value) or is_numpy_scalar(value)


def _to_int(value: Any) -> Any:
    if type(value) is not int:
        if symbol_kind(value):  # frameworks keep it in their graphs
            return value
        if type(value) in NUMBERS or not _is_scalar(value) or not hasattr(value, "__index__"):
            return None
        value = operator.index(value)
    return checked_int(value)


def checked_int(value: Any) -> Any:
    """An int that kernels can be given.

    Raises:
        ValueError: If it has more than 64 bits.
    """
    if not is_int64(value):
        raise ValueError(f"expected an int of 64 bits, got {describe(value)}")
    return value


def checked_known(kind: str, value: Any) -> Any:
    """A float or bool that graphs can hold as a constant.

    Raises:
        TypeError: If it is computed while the graph runs.
    """
    if not is_known(value):
        raise TypeError(
            f"expected a {kind} that is constant in the graph, got an element of a tensor; "
            "pass the tensor, or call .item() outside of compiled code"
        )
    return value


def _to_float(value: Any) -> Any:
    if type(value) is float or symbol_kind(value):
        return checked_known("float", value)
    if isinstance(value, (bool, str)) or not _is_scalar(value) or not hasattr(value, "__float__"):
        return None
    if is_numpy_scalar(value) and value.dtype.char in "FDGmMV":  # complex, times, bytes
        return None
    # Compared first: torch.compile does not catch what float() raises.
    if type(value) is int and not -_MOST <= value <= _MOST:
        raise ValueError(f"expected a float, got {describe(value)}, which is too large")
    return float(value)


def _to_bool(value: Any) -> Any:
    if isinstance(value, bool) or symbol_kind(value):
        return checked_known("bool", value)
    return bool(value) if type(value).__name__ in ("bool_", "bool") else None


def _to_str(value: Any) -> Any:
    if is_proxy(value):
        return value
    if not isinstance(value, str):
        return None
    return checked_text(value)


def checked_text(value: str) -> str:
    """A text that kernels can be given.

    Raises:
        ValueError: If it has lone surrogates.
    """
    try:
        text = plain_text(value)
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"expected Unicode text, got {describe(value)}") from None
    return text


def to_dtype(value: Any) -> Any:
    """The data type that an attribute says, or None where it says none."""
    try:
        is_other = type(value) in NUMBERS or is_tensor(value) or is_masked(value)
        return None if is_other else dtype(value)
    except (TypeError, ValueError):
        return None


def to_device(value: Any) -> Any:
    """The device that an attribute says, or None where it says none."""
    try:
        return None if type(value) in NUMBERS else Device(value)
    except (TypeError, ValueError):
        return None


_ALL: Final = (
    AttributeKind("bool", bool, "n", _to_bool, (False, True), is_converted=True),
    AttributeKind("int", int, "n", _to_int, (0, 1, 2, -1, 3)),
    AttributeKind("float", float, "f", _to_float, (0.0, 1.0, -1.5, 1e-3, 3.0)),
    AttributeKind(
        *("dtype", dtype, "s", to_dtype),
        ("float32", "float64", "int32", "bfloat16", "bool"),
        is_converted=True,
    ),
    AttributeKind("device", Device, "s", to_device, ("cpu",), is_converted=True),
    AttributeKind("str", str, "s", _to_str, ("",)),
)
KINDS: Final = {kind.name: kind for kind in _ALL}
"""By name; kinds whose values are instances of another kind's class come before it."""


def kind_of(value: Any) -> str | None:
    """The name of a value's kind, also of a framework's symbol; None for what is of no kind."""
    symbol = symbol_kind(value)
    if symbol is not None:
        return None if symbol == "proxy" else symbol
    for name, kind in KINDS.items():
        if isinstance(value, kind.python):
            return name
    return None
