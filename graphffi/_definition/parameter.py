# SPDX-License-Identifier: Apache-2.0
"""Parameters of ops: tensor operands and attributes, and what each accepts."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from typing import Any, Final, Literal

from .._contract.attribute_kind import KINDS
from .._frameworks.tracing import is_proxy
from .._values.describe import describe, is_masked, is_symbolic_size, is_tensor

OperandKind = Literal["tensor", "optional", "list"]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


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
    kind: str  #: one of KINDS
    is_list: bool = False
    optional: bool = False
    default: Any = MISSING
    by_name: bool = False

    @property
    def expected(self) -> str:
        """The expected kind of value, for error messages."""
        text = f"a list of {self.kind}s" if self.is_list else KINDS[self.kind].expected
        return f"{text} or None" if self.optional else text

    @property
    def annotation(self) -> str:
        """The type in a signature of Python: ``list[int] | None``."""
        text = f"list[{self.kind}]" if self.is_list else self.kind
        return f"{text} | None" if self.optional else text

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

    def to_graph(self, value: Any) -> Any:
        """A converted value as graphs hold it: data types and devices by name."""
        return KINDS[self.kind].to_graph(value)

    def from_graph(self, value: Any) -> Any:
        """The value that a graph holds so, for rules."""
        return KINDS[self.kind].from_graph(value)

    def _convert_scalar(self, value: Any) -> Any:
        converted = KINDS[self.kind].convert(value)
        if converted is None:
            raise TypeError(
                f"expected {self.expected}, got {describe(value)}{_constant_hint(value)}"
            )
        return converted
