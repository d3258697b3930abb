# SPDX-License-Identifier: Apache-2.0
"""What family.cc computes, written once for all frameworks: with NumPy, JAX or PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

BITS = {"float32": 32, "int8": 8, "bfloat16": 16, "float64": 64}
DEVICES = {"cpu": 1, "cuda:1": 2}


class Arrays(Protocol):
    """What the reference needs of a framework."""

    def full(self, size: int, value: float) -> Any:
        """complex128[size]."""

    def widen(self, x: Any) -> Any:
        """x as complex128[numel]."""

    def narrow(self, x: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        """complex128[n] in another dtype, of which all but complex ones take the real part."""


class ArrayModule:
    """`Arrays` of NumPy or of jax.numpy with 64-bit dtypes."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def full(self, size: int, value: float) -> Any:
        return self.module.full(size, value, "complex128")

    def widen(self, x: Any) -> Any:
        return x.reshape(-1).astype("complex128")

    def narrow(self, x: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        if dtype.startswith("complex"):
            return x.astype(dtype).reshape(shape)
        x = self.module.real(x)
        if dtype == "bool":
            return (x != 0).reshape(shape)
        if "int" in dtype:
            x = x.astype("int64")  # wraps around, where a float would not
        return x.astype(dtype).reshape(shape)


class Namespace:
    """`Arrays` of a namespace of the array API."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def full(self, size: int, value: float) -> Any:
        return self.xp.full((size,), value, dtype=self.xp.complex128)

    def widen(self, x: Any) -> Any:
        return self.xp.astype(self.xp.reshape(x, (-1,)), self.xp.complex128)

    def narrow(self, x: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        if not dtype.startswith("complex"):
            x = self.xp.real(x)
        if dtype == "bool":
            return self.xp.reshape(x != 0, shape)
        if "int" in dtype:
            x = self.xp.astype(x, self.xp.int64)  # wraps around, where a float would not
        return self.xp.reshape(self.xp.astype(x, getattr(self.xp, dtype)), shape)


class WideModule(ArrayModule):
    """`Arrays` of NumPy that rounds nothing: for differences."""

    def __init__(self) -> None:
        super().__init__(np)

    def narrow(self, x: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        is_complex, is_real = dtype.startswith("complex"), dtype.startswith(("float", "bfloat"))
        return (x if is_complex else x.real if is_real else 0 * x.real).reshape(shape)


def compute(
    arrays: Arrays,
    *,
    attributes: Sequence[Any],
    sources: Sequence[Any],
    factors: Sequence[Any],
    updated: Sequence[Any],
    results: Sequence[tuple[int, tuple[int, ...], str]],
    dtypes: Sequence[str],
) -> list[Any]:
    """The results and then the updated tensors.

    Args:
        arrays: The framework.
        attributes: In the order of the plan, as are the tensors.
        sources: All tensors that are read.
        factors: Those that are multiplied.
        updated: Those that are updated.
        results: The number in the plan, shape and dtype of each result.
        dtypes: Those of the updated tensors.
    """
    sizes = [math.prod(shape) for _, shape, _ in results] + [math.prod(u.shape) for u in updated]
    size = max(sizes, default=0)
    total = sum(place * number(value) for place, value in enumerate(attributes, 1))
    base = arrays.full(size, total)

    def cycle(x: Any) -> Any:
        return arrays.widen(x)[np.arange(size) % math.prod(x.shape)]

    for weight, source in enumerate(sources, 1):
        if 0 not in source.shape:
            base = base + weight * cycle(source)
    if factors and not any(0 in factor.shape for factor in factors):
        base = base + math.prod(cycle(factor) for factor in factors)
    fresh = [
        arrays.narrow(base[: math.prod(shape)] + place, dtype, shape)
        for place, shape, dtype in results
    ]
    return fresh + [
        arrays.narrow(0.5 * arrays.widen(u) + base[: math.prod(u.shape)], dtype, tuple(u.shape))
        for u, dtype in zip(updated, dtypes, strict=True)
    ]


def number(value: Any) -> float:
    """What family.cc makes of an attribute."""
    if value is None:
        return 0.5
    if isinstance(value, list):
        return sum(place * number(item) for place, item in enumerate(value, 1))
    if isinstance(value, str):
        return BITS.get(value, DEVICES.get(value, len(value)))
    return float(value)
