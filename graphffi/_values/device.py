# SPDX-License-Identifier: Apache-2.0
"""Devices, by name and index."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

# DLPack's device types. "meta" has no memory and so no number there.
_DLPACK_TYPES = {
    "cpu": 1,
    "cuda": 2,
    "cuda_host": 3,
    "opencl": 4,
    "vulkan": 7,
    "metal": 8,
    "vpi": 9,
    "rocm": 10,
    "rocm_host": 11,
    "ext_dev": 12,
    "cuda_managed": 13,
    "oneapi": 14,
    "webgpu": 15,
    "hexagon": 16,
    "maia": 17,
    "trn": 18,
}
_NAMES = {number: name for name, number in _DLPACK_TYPES.items()}
# Torch's names of devices.
_ALIASES = {
    "mps": "metal",
    "xpu": "oneapi",
    "privateuseone": "ext_dev",
    "gpu": "cuda",
    "wgpu": "webgpu",
}


@dataclass(frozen=True, init=False, repr=False, order=True)
class Device:
    """A device: ``Device("cuda:0")``, ``Device("cuda", 0)``, ``Device("cpu")``.

    Also accepts another ``Device``, a ``torch.device``, a ``tvm_ffi.Device``, DLPack's pair
    ``(device_type, device_id)``, and objects that give it by ``__dlpack_device__`` and are no
    tensors.

    Attributes:
        type: ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"metal"``, ``"oneapi"``, ``"ext_dev"``, ….
        index: which one of that type; 0 where none was said.

    Raises:
        TypeError: if ``device`` is none of these.
        ValueError: if its name is unknown, or an index is malformed or said twice.

    Example:
        >>> str(Device("cuda:1")), str(Device((1, 0)))
        ('cuda:1', 'cpu')
    """

    type: str
    index: int

    def __init__(self, device: object, index: int | None = None) -> None:
        """Make a device of a name, a ``torch.device`` or a DLPack pair."""
        name, own_index = _split(device)
        if own_index is not None and index is not None and own_index != index:
            raise ValueError(f"graphffi: device: expected one index, got {device!r} and {index}")
        if own_index is None:
            own_index = 0 if index is None else index
        if not hasattr(own_index, "__index__"):
            raise TypeError(f"graphffi: device: expected an index (an int), got {own_index!r}")
        own_index = operator.index(own_index)
        if own_index < 0:
            raise ValueError(f"graphffi: device: expected an index of 0 or more, got {own_index}")
        if own_index >= 1 << 31:
            raise ValueError(f"graphffi: device: expected an index below 2**31, got {own_index}")
        object.__setattr__(self, "type", name)
        object.__setattr__(self, "index", own_index)

    @property
    def dlpack_type(self) -> int:
        """DLPack's number for the type of device."""
        if self.type not in _DLPACK_TYPES:
            raise ValueError(f"graphffi: device: expected one with memory, got {self}")
        return _DLPACK_TYPES[self.type]

    def __str__(self) -> str:
        return self.type if self.type == "cpu" and self.index == 0 else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"


def _split(device: Any) -> tuple[str, int | None]:
    if isinstance(device, Device):
        return device.type, device.index
    if isinstance(device, str):
        name, colon, digits = device.partition(":")
        if colon and not (digits.isascii() and digits.isdigit()):
            raise ValueError(f"graphffi: device: expected a name such as cuda:0, got {device!r}")
        return _known(name, device), int(digits) if colon else None
    if _is_pair(device):
        number, index = map(operator.index, device)
        if number not in _NAMES:
            raise ValueError(f"graphffi: device: expected a DLPack device type, got {number}")
        return _NAMES[number], index
    kind = type(device)
    if hasattr(kind, "__dlpack_device__") and not hasattr(kind, "__dlpack__"):
        pair = device.__dlpack_device__()
        if _is_pair(pair):
            return _split(pair)
        raise TypeError(
            f"graphffi: device: expected a DLPack pair from __dlpack_device__, got {pair!r}"
        )
    # Apache TVM derives a class of its own, which its package then makes.
    if any((base.__module__, base.__name__) == ("tvm_ffi.core", "Device") for base in kind.__mro__):
        return _split((device.dlpack_device_type(), device.index))
    if kind.__module__ == "torch" and kind.__name__ == "device":
        # The one type that a torch backend may name as it likes is PrivateUse1, DLPack's ext_dev.
        name = _ALIASES.get(device.type, device.type)
        known = name in _DLPACK_TYPES or name == "meta"
        return name if known else "ext_dev", device.index
    raise TypeError(
        f"graphffi: device: expected a name, a torch.device or a DLPack pair, got "
        f"{kind.__name__} {device!r}"
    )


def _is_pair(device: Any) -> bool:
    is_pair = isinstance(device, tuple) and len(device) == 2
    return is_pair and all(hasattr(number, "__index__") for number in device)


def _known(name: str, text: str) -> str:
    name = _ALIASES.get(name, name)
    if name in _DLPACK_TYPES or name == "meta":
        return name
    raise ValueError(f"graphffi: device: expected one of {', '.join(_DLPACK_TYPES)}, got {text!r}")
