# SPDX-License-Identifier: Apache-2.0
"""Calls of which the fastest kernel is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._values.device import Device
from .._values.dtype import dtype

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class TunedCall:
    """Calls of one structure, and their kernel.

    Args:
        operands: Data type and shape of each operand; None, or a tuple of them for a list.
        attributes: Values; data types and devices by name.
        device: Type of the device.
        kernel: The name of the fastest one.
    """

    operands: tuple[Any, ...]
    attributes: tuple[Any, ...]
    device: str
    kernel: str

    def fits(self, operands: Sequence[Any], attributes: Sequence[Any], device: str) -> bool:
        """True if a call is one of these. Symbolic sizes are compared: a guard, or a condition.

        Raises:
            UndecidedError: If that depends on a size that is not known.
        """
        return (
            device == self.device
            and len(operands) == len(self.operands)
            and len(attributes) == len(self.attributes)
            and all(map(_has_kind, operands, self.operands))
            and all(map(_has_shape, operands, self.operands))
            and all(map(_has_value, attributes, self.attributes))
        )

    @staticmethod
    def of(
        operands: Sequence[Any], attributes: Sequence[Any], device: str, kernel: str
    ) -> TunedCall:
        """Calls with these specs and attributes."""
        return TunedCall(
            tuple(map(_operand, operands)), tuple(map(_attribute, attributes)), device, kernel
        )


def _operand(spec: Any) -> Any:
    if isinstance(spec, (list, tuple)):
        return tuple(map(_operand, spec))
    return None if spec is None else (str(dtype(spec.dtype)), *map(int, spec.shape))


def _attribute(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_attribute, value))
    return str(value) if isinstance(value, (dtype, Device)) else value


def _has_kind(spec: Any, known: Any) -> bool:
    if spec is None or known is None:
        return spec is None and known is None
    is_list = not (known and isinstance(known[0], str))
    if isinstance(spec, (list, tuple)):
        return is_list and len(spec) == len(known) and all(map(_has_kind, spec, known))
    return not is_list and (str(dtype(spec.dtype)), len(spec.shape)) == (known[0], len(known) - 1)


def _has_shape(spec: Any, known: Any) -> bool:
    if isinstance(spec, (list, tuple)):
        return all(map(_has_shape, spec, known))
    return spec is None or all(a == b for a, b in zip(spec.shape, known[1:], strict=True))


def _has_value(value: Any, known: Any) -> bool:
    if isinstance(value, (list, tuple)):
        is_list = isinstance(known, tuple) and len(value) == len(known)
        return is_list and all(map(_has_value, value, known))
    if type(value) is float and (value == 0 or value != value):
        return repr(value) == repr(known)  # -0.0 is another value, and NaN is equal to itself
    return bool(_attribute(value) == known)
