# SPDX-License-Identifier: Apache-2.0
"""An op as a function of float32 and float64, whose gradients every framework gives alike."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from ..._values.describe import is_tensor
from ..._values.dtype import dtype
from ..._values.nested import flat, per_tensor
from ..._values.tensor import numpy_dtype
from .._case import Case, numpy_copy

if TYPE_CHECKING:
    import numpy

    from ..._definition.op import Op

_COMPLEX: Final = ("complex64", "complex128")
DIFFERENTIABLE: Final = ("float64", "float32", "float16", "bfloat16", *_COMPLEX)
"""Data types of operands and results that have gradients, and are not too coarse for them."""


class LiftedOp:
    """An op that takes float32 for narrower floats, and for complex numbers their two parts.

    It gives the results that have gradients likewise. So no rule is asked for a convention of
    complex gradients, and no framework to read data types that NumPy lacks.

    Args:
        op: That updates nothing.
        case: Of the calls.

    Attributes:
        definition: The op's.
        arguments: Of the case, in signature order; the parts of complex numbers are the last
            dimension.
    """

    def __init__(self, op: Op, case: Case) -> None:
        self._op = op
        self._kinds = [view.dtype for view in case.views()]
        self.definition = op.definition
        operands = [per_tensor(_lifted)(operand) for operand in case.build(numpy_copy)]
        self.arguments = case.in_order(op.definition, operands)

    def __call__(self, *values: Any, **by_name: Any) -> list[Any]:
        """The results, flat, of tensors of any framework."""
        kinds = iter(self._kinds)

        def lower(value: Any) -> Any:
            if isinstance(value, list):
                return [lower(item) for item in value]
            return _lowered(value, next(kinds)) if is_tensor(value) else value

        lowered = [lower(value) for value in (*values, *by_name.values())]
        named = dict(zip(by_name, lowered[len(values) :], strict=True))
        returned = flat(self._op(*lowered[: len(values)], **named))
        return [part for result in returned for part in _parts(result)]


def _lifted(array: numpy.ndarray) -> numpy.ndarray:
    import numpy

    kind = array.dtype.name
    if kind in _COMPLEX:
        return numpy.stack([array.real, array.imag], -1)
    return array.astype("float32") if _is_narrow(kind) else array


def _lowered(tensor: Any, kind: str) -> Any:
    import numpy

    if kind not in _COMPLEX:
        return _cast(tensor, kind) if _is_narrow(kind) else tensor
    if isinstance(tensor, numpy.ndarray):  # whose arithmetic makes numbers of arrays of rank 0
        return tensor.view(kind)[..., 0]
    return tensor[..., 0] + 1j * tensor[..., 1]


def _parts(result: Any) -> list[Any]:
    kind = str(dtype(result.dtype))
    if kind not in DIFFERENTIABLE:
        return []
    if kind in _COMPLEX:
        return [result.real + 0, result.imag + 0]  # PyTorch's are lazy views, NumPy reads sums
    return [_cast(result, "float32") if _is_narrow(kind) else result]


def _is_narrow(kind: str) -> bool:
    return kind.startswith(("float", "bfloat")) and kind not in ("float32", "float64")


def _cast(tensor: Any, kind: str) -> Any:
    if hasattr(tensor, "astype"):
        return tensor.astype(numpy_dtype(kind))
    return tensor.to(getattr(sys.modules["torch"], kind))
