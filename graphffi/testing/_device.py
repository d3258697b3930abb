# SPDX-License-Identifier: Apache-2.0
"""Calls with tensors on the CPU, which are arrays of NumPy, or on a GPU, which are PyTorch's."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from .._frameworks.plugins import PLUGINS
from .._rules.vmap import call_in_order
from .._values.device import Device
from .._values.nested import flat, per_tensor
from .._values.tensor import numpy_from_dlpack

if TYPE_CHECKING:
    import numpy

    from .._definition.op import Op
    from ._case import View

_BROKEN: Final = 70  # status of a process whose GPU does not work any more


def _torch() -> Any:
    """The checks' part of torch's plugin, which has tensors on GPUs."""
    return importlib.import_module(f"{PLUGINS['torch']}._testing")


def check_device(op: str, device: str) -> None:
    """Refuses a device that there is none of.

    Raises:
        ValueError: If it has no tensors.
    """
    try:
        if device != "cpu":
            _torch().check_device(device)
    # Torch, its plugin and drivers raise errors of several kinds.
    except Exception as error:
        text = str(error).partition("\n")[0]
        raise ValueError(
            f"{op}: check: device: expected one of PyTorch, got {device!r}: {text}"
        ) from error


def is_known(device: Any) -> bool:
    """True for names of CPUs and of GPUs."""
    try:
        return isinstance(device, str) and Device(device).type in ("cpu", "cuda")
    except ValueError:
        return False


def call_on(device: str, op: Op, arguments: Sequence[Any]) -> list[numpy.ndarray]:
    """Results and updated operands of a call with arrays of NumPy, which it copies to a GPU."""
    if device != "cpu":
        put = per_tensor(_torch().copied_to(device))
        arguments = [put(value) for value in arguments]
    return arrays_of(device, call_in_order(op, arguments))


def arrays_of(device: str, returned: Any) -> list[numpy.ndarray]:
    """The results of an op: one that is called without an array gives tensors of graphffi."""
    import numpy

    if device != "cpu":
        found: list[numpy.ndarray] = _torch().arrays(returned)
        return found
    return [a if isinstance(a, numpy.ndarray) else numpy_from_dlpack(a) for a in flat(returned)]


def copy_to_device(buffer: numpy.ndarray, begin: int, view: View) -> tuple[Any, Any]:
    """A view into a copy of a buffer of bytes, which begins there, and the copy."""
    pair: tuple[Any, Any] = _torch().view_of_copy(buffer, begin, view)
    return pair


def bytes_of(copy: Any) -> numpy.ndarray:
    """The bytes of a copy; ends the process if a kernel broke the device, as a crash does."""
    try:
        found: numpy.ndarray = copy.cpu().numpy()
    except RuntimeError as error:
        print(str(error).partition("\n")[0], file=sys.stderr, flush=True)
        os._exit(_BROKEN)
    return found
