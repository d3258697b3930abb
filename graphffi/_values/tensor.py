# SPDX-License-Identifier: Apache-2.0
"""Tensors of the runtime."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .. import _core
from .dtype import dtype


def from_dlpack(x: object) -> _core.Tensor:
    """Make a tensor that shares the memory of another library's.

    Args:
        x: anything that speaks DLPack. Any shape, dtype, device and layout that DLPack can
            describe. No stream is synchronized. The tensor does not know that memory is read-only.

    Returns:
        The tensor; ``x`` itself if it is one.

    Raises:
        TypeError: if ``x`` is no tensor.
        BufferError: if it has no shape or no memory.
    """
    return _core.from_dlpack(x)


# The modules of `from_dlpack` that are not the package of the tensor's type.
_IMPORTERS = {"jax": "jax.numpy", "jaxlib": "jax.numpy"}


def importer_of(kind: type) -> Callable[[_core.Tensor], Any] | None:
    """Return the ``from_dlpack`` of the library, loaded already, that a tensor type belongs to."""
    root = kind.__module__.partition(".")[0]
    if root == "numpy":
        return numpy_from_dlpack
    function = getattr(sys.modules.get(_IMPORTERS.get(root, root)), "from_dlpack", None)
    if not callable(function):
        return None
    return functools.partial(_from_dlpack_of_jax, function) if root in _IMPORTERS else function


def _from_dlpack_of_jax(function: Callable[[_core.Tensor], Any], tensor: _core.Tensor) -> Any:
    array = function(tensor)
    check_kept("result", tensor.dtype, array.dtype)
    return array


def check_kept(subject: str, given: Any, kept: Any) -> None:
    """Refuses a data type of which JAX silently makes a narrower one.

    Args:
        subject: What errors begin with.
        given: What JAX gets: a `dtype`, or one of NumPy.
        kept: What it makes of it.

    Raises:
        TypeError: If they differ.
    """
    if dtype(given) != dtype(kept):
        raise TypeError(
            f"{subject}: expected a dtype that JAX holds without jax_enable_x64, got {given}; "
            f"use {kept}, or jax.config.update('jax_enable_x64', True)"
        )


@functools.lru_cache(maxsize=64)
def numpy_dtype(kind: Any, subject: str = "graphffi") -> Any:
    """The data type of NumPy, or of ml_dtypes where NumPy has none.

    Args:
        kind: A `dtype`, or its name.
        subject: What errors begin with.

    Raises:
        TypeError: If neither has it, or ml_dtypes is not installed.
    """
    name = str(dtype(kind))
    try:
        return import_module("numpy").dtype(name)
    except TypeError:
        pass
    try:
        return import_module("numpy").dtype(getattr(import_module("ml_dtypes"), name))
    except (ModuleNotFoundError, AttributeError):
        raise TypeError(
            f"{subject}: expected a data type of NumPy or ml_dtypes (which pip installs), "
            f"got {name}"
        ) from None


def array_of(tensor: _core.Tensor, dtype: Any, copy: bool | None) -> Any:
    """The tensor as an array, as NumPy's protocol ``__array__`` asks for one.

    Raises:
        TypeError: If its memory is not on the CPU.
        ValueError: If `copy` is False, and the array of another data type would be one.
    """
    if tensor.device.type != "cpu":
        raise TypeError(f"graphffi.Tensor: __array__: expected a tensor on the CPU, got {tensor!r}")
    numpy = import_module("numpy")
    array = numpy_from_dlpack(tensor)
    return array if dtype is None and not copy else numpy.array(array, dtype=dtype, copy=copy)


# DLPack's type codes that NumPy knows: the others are of packages such as ml_dtypes.
_NUMPY_CODES = frozenset((0, 1, 2, 5, 6))


def numpy_from_dlpack(tensor: _core.Tensor) -> Any:
    """The tensor as an array, of ml_dtypes where NumPy lacks the data type."""
    numpy = sys.modules["numpy"]
    kind = tensor.dtype
    if kind.code in _NUMPY_CODES or kind.lanes != 1 or kind.bits not in (8, 16):
        return numpy.from_dlpack(tensor)
    return numpy.from_dlpack(_core.reinterpret(tensor, f"uint{kind.bits}")).view(numpy_dtype(kind))
