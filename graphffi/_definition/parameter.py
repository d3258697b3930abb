# SPDX-License-Identifier: Apache-2.0
"""Parameters of ops: tensor operands and attributes, and what each accepts."""

from __future__ import annotations

import keyword
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from .._frameworks.tracing import is_int64, is_known, is_proxy, symbol_kind
from .._values.describe import (
    NUMBERS,
    describe,
    is_masked,
    is_numpy_scalar,
    is_symbolic_size,
    is_tensor,
    plain_text,
)
from .._values.device import Device
from .._values.dtype import dtype

if TYPE_CHECKING:
    from collections.abc import Callable

OperandKind = Literal["tensor", "optional", "list"]
AttributeKind = Literal["int", "float", "bool", "str", "dtype", "device"]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

_MOST: Final = 2**1024 - 2**970 - 1  # the largest int that is a float


def is_name(text: str) -> bool:
    """True if a text can name an op or a parameter everywhere."""
    return text.isascii() and text.isidentifier() and not keyword.iskeyword(text)


@dataclass(frozen=True)
class Operand:
    """A tensor parameter: one tensor, one or None (`optional`), or a list of them.

    An operand that is not `required` has the default None. Calls give one that is `by_name` only
    by its name.
    """

    name: str
    kind: OperandKind = "tensor"
    mutated: bool = False
    required: bool = True
    by_name: bool = False

    def problem(self, value: Any) -> str | None:
        """The problem with `value`, or None."""
        if self.kind == "list":
            if not isinstance(value, (list, tuple)):
                hint = "; pass a list of the items that are traced" if is_proxy(value) else ""
                return f"expected a list of tensors, got {describe(value)}{hint}"
            for i, item in enumerate(value):
                if not is_tensor(item):
                    return f"expected a tensor at index {i}, got {describe(item)}{way_out(item)}"
            return None
        if is_tensor(value) or (value is None and self.kind == "optional"):
            return None
        expected = "a tensor" if self.kind == "tensor" else "a tensor or None"
        return f"expected {expected}, got {describe(value)}{way_out(value)}"


def way_out(value: Any) -> str:
    """The end of an error text: how to make a tensor of a value that is none."""
    if is_masked(value):
        return "; pass x.filled(), which has no mask"
    is_wrapper = hasattr(type(value), "__jax_array__")  # such as flax.nnx.Param
    return "; convert it with jax.numpy.asarray" if is_wrapper else ""


def _constant_hint(value: Any) -> str:
    if is_symbolic_size(value):
        return "; attributes are constants of a program: pass jax.numpy.asarray(size) as an operand"
    return "; attributes are plain Python values" if is_tensor(value) else ""


@dataclass(frozen=True)
class Attribute:
    """A parameter that is no tensor: a Python value, fixed when a graph is traced.

    Calls give one that is `by_name` only by its name.
    """

    name: str
    kind: AttributeKind
    is_list: bool = False
    optional: bool = False
    default: Any = MISSING
    by_name: bool = False

    @property
    def expected(self) -> str:
        """The expected kind of value, for error messages."""
        one = f"{'an' if self.kind == 'int' else 'a'} {self.kind}"
        text = f"a list of {self.kind}s" if self.is_list else one
        return f"{text} or None" if self.optional else text

    def convert(self, value: Any) -> Any:
        """The value as the plan takes it.

        Raises:
            TypeError: If it is of another kind.
            ValueError: If it is one that kernels cannot be given.
        """
        if value is None and self.optional:
            return None
        if self.is_list:
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"expected {self.expected}, got {describe(value)}")
            return [self._convert_scalar(item) for item in value]
        return self._convert_scalar(value)

    def _convert_scalar(self, value: Any) -> Any:
        converted = _CONVERT[self.kind](value)
        if converted is None:
            raise TypeError(
                f"expected {self.expected}, got {describe(value)}{_constant_hint(value)}"
            )
        return converted


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
    if is_numpy_scalar(value) and value.dtype.kind == "c":  # it would lose a part
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


_CONVERT: Final[dict[str, Callable[[Any], Any]]] = {
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
    "str": _to_str,
    "dtype": to_dtype,
    "device": to_device,
}
