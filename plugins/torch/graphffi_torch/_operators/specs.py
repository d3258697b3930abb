# SPDX-License-Identifier: Apache-2.0
"""Between torch tensors and the specs that shape rules see and return."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi import Device, TensorSpec, dtype
from graphffi.plugin import flat, numpy_dtype, per_tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy

    from graphffi.plugin import Definition


def _dtype_names() -> dict[torch.dtype, str]:
    names: dict[torch.dtype, str] = {}
    for candidate in vars(torch).values():
        if isinstance(candidate, torch.dtype):
            with contextlib.suppress(ValueError):
                names[candidate] = "".join((dtype(candidate),))
    return names


# Tables, because Dynamo can look up an object but not make a graphffi.dtype.
#: The names of torch's data types that kernels can be given: not the quantized ones.
DTYPE_NAMES: Final = _dtype_names()
_DTYPES: Final = {torch_dtype: dtype(name) for torch_dtype, name in DTYPE_NAMES.items()}
# Torch passes no data type to kernels whose elements have more bits than the name says.
_TORCH_DTYPES: Final = {
    str(kind): torch_dtype
    for torch_dtype, kind in _DTYPES.items()
    if kind.bits * kind.lanes == 8 * torch_dtype.itemsize
}
_devices: Final[dict[torch.device, Device]] = {}
# Devices that torch calls otherwise than DLPack.
_TORCH_DEVICES: Final = {
    "metal": "mps",
    "oneapi": "xpu",
    "rocm": "cuda",
    "ext_dev": "privateuseone",
}


def torch_dtype(value: Any) -> torch.dtype:
    """The data type of that name; one of torch's own, or a traced one, is given back.

    Raises:
        TypeError: If torch has none that it passes to kernels.
    """
    if isinstance(value, (torch.dtype, torch.fx.Proxy)):
        return value  # type: ignore[return-value]
    name = value if isinstance(value, str) else dtype(value)
    if name not in _TORCH_DTYPES:
        raise TypeError(f"graphffi: dtype: expected one that torch has, got {name!r}")
    return _TORCH_DTYPES[name]


def torch_device(value: Any, default: torch.device | None) -> torch.device | None:
    """The device of that name; one of torch's own, or a traced one, is given back.

    Returns:
        `default` for None.
    """
    if value is None:
        return default
    if isinstance(value, (torch.device, torch.fx.Proxy)):
        return value  # type: ignore[return-value]
    device = Device(value)
    kind = _TORCH_DEVICES.get(device.type, device.type)
    return torch.device(kind) if kind in ("cpu", "meta") else torch.device(kind, device.index)


@per_tensor
def spec_of(tensor: torch.Tensor | TensorSpec) -> TensorSpec:
    """The spec of a tensor as shape rules see it; sizes may be symbolic."""
    device = _devices.get(tensor.device)
    if device is None:
        _devices[tensor.device] = device = Device(tensor.device)
    return TensorSpec(tuple(tensor.shape), _DTYPES.get(tensor.dtype, tensor.dtype), device)


def concrete(argument: Any) -> Any:
    """An operator's argument with the sizes at hand in place of a tracer's symbols.

    Returns:
        A spec for a tensor or spec. Sizes that are not known yet stay symbols.
    """
    if isinstance(argument, (torch.Tensor, TensorSpec)):
        return TensorSpec(concrete(tuple(argument.shape)), argument.dtype, argument.device)
    if isinstance(argument, list):
        return [concrete(item) for item in argument]
    if isinstance(argument, tuple):
        return tuple(concrete(item) for item in argument)
    if isinstance(argument, torch.SymInt):
        hint = argument.node.hint
        return argument if hint is None else hint
    return argument


Allocation = tuple[tuple[Any, ...], torch.dtype, torch.device | None]


def allocations(
    subject: str,
    names: Iterable[str | int],
    specs: Sequence[TensorSpec],
    default_device: torch.device | None,
) -> list[Allocation]:
    """Shapes, dtypes and devices that results of these specs have in torch.

    Raises:
        TypeError: If torch lacks a data type. The text begins with `subject` and the result's name.
    """
    made: list[Allocation] = []
    for name, spec in zip(names, specs, strict=False):
        device = torch_device(spec.device, default_device)
        shape: Any = spec.shape
        is_traced = isinstance(shape, torch.fx.Proxy)
        try:
            kind = torch_dtype(spec.dtype)
        except TypeError:
            raise TypeError(
                f"{subject}: result {name!r}: expected a dtype that torch passes to kernels, got "
                f"{spec.dtype}"
            ) from None
        made.append((shape if is_traced else tuple(map(_size, shape)), kind, device))
    return made


def _size(size: Any) -> Any:
    return int(size) if type(size) is bool else size  # torch takes no bools


def empty(
    subject: str,
    names: Iterable[str | int],
    specs: Sequence[TensorSpec],
    default_device: torch.device | None,
) -> list[torch.Tensor]:
    """Tensors of these specs; without any device, where torch puts new ones."""
    rows = allocations(subject, names, specs, default_device)
    return [torch.empty(shape, dtype=dtype, device=device) for shape, dtype, device in rows]


def rule_arguments(
    definition: Definition, operands: Sequence[Any], attributes: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """An operator's tensors and other arguments as the definition's rules get them."""
    values = zip(definition.attributes, attributes, strict=True)
    return [spec_of(o) for o in operands], [a.from_graph(v) for a, v in values]


def results_of(returned: Any, count: int) -> list[Any]:
    """The tensors that an operator returned, or what symbolic_trace has in their place."""
    if isinstance(returned, torch.fx.Proxy):
        traced: Any = returned
        return [traced] if count == 1 else [traced[i] for i in range(count)]
    return flat(returned)


def to_numpy(tensor: torch.Tensor) -> numpy.ndarray:
    """A row-major copy of the contents, of ml_dtypes where NumPy lacks the data type.

    Raises:
        TypeError: If there is no such data type.
    """
    kind = numpy_dtype(DTYPE_NAMES[tensor.dtype])
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    contents = plain.reshape(-1).view(torch.uint8).numpy().view(kind)
    array: numpy.ndarray = contents.reshape(tuple(tensor.shape)).copy()
    return array
