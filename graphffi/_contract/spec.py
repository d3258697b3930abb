# SPDX-License-Identifier: Apache-2.0
"""Tensors without data, which shape rules see and return."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from .._frameworks.tracing import is_proxy
from .._values.describe import describe, is_numpy_scalar, is_tensor
from .._values.device import Device
from .._values.dtype import dtype as make_dtype
from .._values.nested import per_tensor
from .size import allow_text

if TYPE_CHECKING:
    from collections.abc import Sequence

_T = TypeVar("_T")
_MOST_ELEMENTS: Final = 2**59


@dataclass(frozen=True)
class TensorSpec:
    """Shape, dtype and device of a tensor.

    Args:
        shape: Sizes, outermost first; ints, or the symbolic sizes of a framework that traces.
        dtype: A `graphffi.dtype` in shape rules; elsewhere whatever names one (a framework's
            dtype, its name).
        device: A `graphffi.Device`, a framework's device, or None where the framework places
            arrays itself.
    """

    shape: tuple[Any, ...]
    dtype: Any
    device: Any = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> Any:
        """Number of elements."""
        count: Any = 1
        for size in self.shape:
            count = count * size
        return count

    def size(self, dim: int) -> Any:
        """Size of one dimension; negative ones count from the end."""
        return self.shape[dim]


class CheckError(ValueError):
    """A `check` that failed; whoever runs the rule puts the op's name in front."""


class CheckTypeError(TypeError):
    """A check of data types that failed."""


def like(x: _T, *, shape: Sequence[Any] | None = None, dtype: Any = None, device: Any = None) -> _T:
    """A result like `x`, but for what is given.

    Args:
        x: A tensor or a `TensorSpec`.
        shape: Sizes, outermost first. Default: those of `x`.
        dtype: Default: that of `x`.
        device: Default: that of `x`.

    Returns:
        The `TensorSpec` of a row-major contiguous tensor. For type checkers it is what `x` is:
        rules are annotated with the tensors that calls take and return.

    Example:
        >>> like(TensorSpec((2, 3), "float32"), dtype="bool")
        TensorSpec(shape=(2, 3), dtype='bool', device=None)
    """
    model: Any = x
    if not is_tensor(model) and not is_proxy(model):
        raise TypeError(f"graphffi: like: expected a tensor or a TensorSpec, got {describe(model)}")
    spec = TensorSpec(
        _sizes(model.shape if shape is None else shape),
        model.dtype if dtype is None else dtype,
        getattr(model, "device", None) if device is None else device,
    )
    return cast("_T", spec)


def empty(shape: Sequence[Any], dtype: Any, device: Any = None) -> Any:
    """A result of the given shape and dtype.

    Args:
        shape: Sizes, outermost first.
        dtype: A `graphffi.dtype`, its name, or a framework's dtype.
        device: Default: the device of the op's first tensor operand.

    Returns:
        The `TensorSpec` of a row-major contiguous tensor; `Any` for type checkers, since rules are
        annotated with the tensors of any framework.
    """
    return TensorSpec(_sizes(shape), dtype, device)


@per_tensor
def described(tensor: Any) -> TensorSpec:
    """The `TensorSpec` of a framework's tensor."""
    device = getattr(tensor, "device", None) or "cpu"  # NumPy before 2.0 and specs may have none
    platform = getattr(device, "platform", None)  # of JAX's devices
    return TensorSpec(tuple(tensor.shape), make_dtype(tensor.dtype), Device(platform or device))


def spec_text(tensor: Any) -> str:
    """``float32[2, 3]``, of a tensor of any framework or a spec."""
    return f"{make_dtype(tensor.dtype)}[{', '.join(map(str, tensor.shape))}]"


def _sizes(shape: Any) -> Any:
    # The number of dimensions is unknown where torch.fx.symbolic_trace traces.
    return shape if is_proxy(shape) else tuple(shape)


def check(condition: Any, text: str) -> None:
    """States in a shape rule what must hold, in eager, traced and exported calls alike.

    Args:
        condition: True, or a framework's symbolic boolean.
        text: In the form ``operand 'x': expected …, got …``; the op's name is put in front.

    Raises:
        ValueError: If `condition` is false.
    """
    allow_text(text)
    if not condition:
        raise CheckError(text)


def checked_result(subject: str, spec: Any, default_device: Any = None) -> TensorSpec:
    """The spec of a result to allocate, with `graphffi.dtype` and `graphffi.Device`.

    Args:
        subject: ``<op>: shape rule: result 'out'``.
        spec: What a rule or a caller says of the result.
        default_device: Where it is if the spec names no device.

    Raises:
        TypeError: If it is no `TensorSpec`, or its dtype is none.
        ValueError: For sizes that no tensor has.
    """
    if not isinstance(spec, TensorSpec):
        raise TypeError(
            f"{subject}: expected graphffi.like(...) or graphffi.empty(...), got {describe(spec)}"
        )
    kind = checked_dtype(subject, spec.dtype)
    shape = tuple(int(s) if hasattr(s, "dtype") and is_size(s) else s for s in spec.shape)
    if not all(map(is_size, shape)):
        hint = "; divide sizes with //" if any(isinstance(s, float) for s in shape) else ""
        raise ValueError(f"{subject}: expected sizes of 0 or more, got {shape}{hint}")
    if all(type(size) is int for size in shape):
        check_count(subject, shape)
    device = default_device if spec.device is None else Device(spec.device)
    return TensorSpec(shape, kind, device)


def check_count(subject: str, shape: Sequence[int]) -> None:
    """Refuses sizes of which 64 bits can't count the bytes, of the widest data type.

    XLA ends the process where it gets such.

    Raises:
        ValueError: If there are too many elements.
    """
    if math.prod(shape) >= _MOST_ELEMENTS or any(size >= 1 << 63 for size in shape):
        raise ValueError(f"{subject}: expected fewer than 2**59 elements, got {tuple(shape)}")


def checked_dtype(subject: str, kind: Any) -> make_dtype:
    """The `graphffi.dtype` of a name or of a framework's data type.

    Raises:
        TypeError: If it is no data type, or none that kernels can be given.
    """
    if getattr(kind, "names", None) == ("float0",):
        raise TypeError(
            f"{subject}: expected numbers, got float0, JAX's tangents of integers; pass zeros of a "
            "floating-point type"
        )
    is_native = getattr(kind, "isnative", True)
    try:
        made = make_dtype(kind if is_native else kind.name)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{subject}: {str(error).removeprefix('graphffi: ')}") from None
    if not is_native:
        raise TypeError(
            f"{subject}: expected a data type that kernels can take, got {made} in another byte "
            f"order; pass .astype({str(made)!r})"
        )
    return made


def checked_bytes(subject: str, size: Any) -> Any:
    """A number of bytes: an int or a framework's symbolic one.

    Raises:
        TypeError: If it is neither.
        ValueError: If it is negative, or has more than 63 bits.
    """
    is_large = type(size) is int and size >= 1 << 63
    if is_size(size) and not isinstance(size, bool) and not is_large:
        return size
    if isinstance(size, int) and not isinstance(size, bool):
        raise ValueError(f"{subject}: expected 0 to 2**63 - 1 bytes, got {size}")
    raise TypeError(f"{subject}: expected bytes (an int), got {size!r}")


def is_size(size: Any) -> bool:
    """True if it is an int of 0 or more, or may be one: a symbolic size."""
    if issubclass(type(size), int):  # symbolic ones say that they are instances
        return bool(size >= 0)
    if hasattr(size, "dtype"):  # NumPy's ints; no arrays, not even traced ones
        return is_numpy_scalar(size) and hasattr(size, "__index__") and int(size) >= 0
    return not isinstance(size, float) and hasattr(size, "__floordiv__")
