# SPDX-License-Identifier: Apache-2.0
"""Between torch tensors and the specs that shape rules see and return."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Final

import torch
from graphffi import Device, TensorSpec, dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

# Names of DLPack's that torch spells in its own way.
_TORCH_DTYPES: Final = {"float4_e2m1fnx2": "float4_e2m1fn_x2"}
_TORCH_DEVICES: Final = {"metal": "mps", "oneapi": "xpu", "rocm": "cuda", "ext_dev": "privateuseone"}


@functools.cache
def torch_dtype(name: str) -> torch.dtype:
    """The data type of that name.

    Raises:
        TypeError: If torch has none.
    """
    found = getattr(torch, _TORCH_DTYPES.get(name, name), None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"graphffi: dtype: expected one that torch has, got {name!r}")
    return found


@functools.cache
def dtype_names() -> dict[torch.dtype, str]:
    """The names of torch's data types that kernels can be given: not the quantized ones."""
    names: dict[torch.dtype, str] = {}
    for candidate in vars(torch).values():
        if isinstance(candidate, torch.dtype):
            with contextlib.suppress(ValueError):
                names[candidate] = str(dtype(candidate))
    return names


@functools.cache
def torch_device(name: str) -> torch.device:
    """The device of that name."""
    kind, _, index = name.partition(":")
    kind = _TORCH_DEVICES.get(kind, kind)
    return torch.device(kind, int(index)) if index and kind != "meta" else torch.device(kind)


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    """What a shape rule sees of `tensor`; sizes may be symbolic."""
    return TensorSpec(tuple(tensor.shape), _dtype_of(tensor.dtype), _device_of(tensor.device))


def specs_of(operand: torch.Tensor | Sequence[torch.Tensor] | None) -> Any:
    """The same for an operand: a spec, None, or a list of specs."""
    if operand is None:
        return None
    if isinstance(operand, (list, tuple)):
        return [spec_of(tensor) for tensor in operand]
    return spec_of(operand)  # type: ignore[arg-type]


def allocation(spec: TensorSpec) -> tuple[tuple[Any, ...], torch.dtype, torch.device]:
    """Shape, dtype and device that a result of that spec has in torch."""
    device = "cpu" if spec.device is None else str(Device(spec.device))
    return tuple(spec.shape), torch_dtype(str(dtype(spec.dtype))), torch_device(device)


@functools.cache
def _dtype_of(torch_dtype: torch.dtype) -> dtype:
    return dtype(torch_dtype)


@functools.cache
def _device_of(torch_device: torch.device) -> Device:
    return Device(torch_device)
