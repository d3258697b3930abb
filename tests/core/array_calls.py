# SPDX-License-Identifier: Apache-2.0
"""Calls of ops that fill in a value, in each framework of the fixture `arrays`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphffi


def ones(arrays: Any, *shape: int) -> Any:
    return arrays.make(np.ones(shape, np.float32))


def values(result: Any) -> list[float]:
    return [float(item) for item in result.ravel()]


def value(result: Any) -> float:
    (found,) = set(values(result))
    return found


def compiled(arrays: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    if arrays.name == "torch":
        import torch

        return torch.compile(function, fullgraph=True)
    if arrays.name == "jax":
        import jax

        return jax.jit(function)
    return function


def calling(op: graphffi.Op) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        return op(x)

    return call
