# SPDX-License-Identifier: Apache-2.0
"""Tensors of the runtime."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from . import _core


def from_dlpack(x: object) -> _core.Tensor:
    """Make a tensor that shares the memory of another library's.

    Args:
        x: anything that speaks DLPack. Any shape, dtype, device and layout that DLPack can
            describe. No stream is synchronized.

    Returns:
        The tensor; ``x`` itself if it is one.

    Raises:
        TypeError: if ``x`` is no tensor.
    """
    return _core.from_dlpack(x)


def importer_of(kind: type) -> Callable[[_core.Tensor], Any] | None:
    """Return the ``from_dlpack`` of the library, loaded already, that a tensor type belongs to."""
    root = kind.__module__.partition(".")[0]
    if root in ("jax", "jaxlib"):
        function: Any = import_module("jax.dlpack").from_dlpack
        return function  # type: ignore[no-any-return]
    function = getattr(sys.modules.get(root), "from_dlpack", None)
    return function if callable(function) else None
