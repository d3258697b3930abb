# SPDX-License-Identifier: Apache-2.0
"""Arguments of calls: strided views of flat arrays, which any framework can make tensors of."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes  # noqa: F401 - makes bfloat16 known to NumPy
import numpy as np

DTYPES = (
    *("float32", "float64", "float16", "bfloat16", "complex64"),
    *("int64", "int32", "int16", "uint8", "bool"),
)


@dataclass(frozen=True)
class View:
    """A strided view of a base, which is a flat array."""

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    offset: int
    dtype: str


@dataclass
class Call:
    """Arguments of one call: views (None, lists) for operands, values for attributes."""

    bases: list[np.ndarray]
    args: list[Any]
    num_positional: int  # the others are passed by name
    omitted: frozenset[int]  # attributes that keep their default

    def build(self, make: Callable[[np.ndarray, View], Any]) -> list[Any]:
        """The arguments, with tensors made by ``make(base, view)`` of fresh copies of the bases.

        A view that occurs twice is one tensor.
        """
        bases = [base.copy() for base in self.bases]
        made: dict[int, Any] = {}

        def one(value: Any) -> Any:
            if isinstance(value, list) and value and isinstance(value[0], View):
                return [one(item) for item in value]
            if not isinstance(value, View):
                return value
            if id(value) not in made:
                made[id(value)] = make(bases[value.base], value)
            return made[id(value)]

        return [one(value) for value in self.args]

    def with_values(self, seed: int) -> Call:
        """The same call with other elements in its tensors: one more element of a batch."""
        chosen = random.Random(seed)
        return replace(self, bases=[_values(chosen, len(b), str(b.dtype)) for b in self.bases])


def numpy_view(base: np.ndarray, view: View) -> np.ndarray:
    """The view as a NumPy array."""
    strides = tuple(stride * base.itemsize for stride in view.strides)
    start = base[view.offset :] if view.shape else base[view.offset : view.offset + 1]
    return np.lib.stride_tricks.as_strided(start, view.shape, strides)


class ViewMaker:
    """Makes views of any layout, some of the memory of earlier ones."""

    def __init__(self, pattern: random.Random, chosen: random.Random) -> None:
        self.pattern = pattern  # what is 0 or 1, what has which layout, what is shared
        self.chosen = chosen  # all other sizes, and values
        self.bases: list[np.ndarray] = []
        self._shared: list[View] = []

    def make(self, ndim: int, dtype: str, mutated: bool) -> View:
        """One view; only those that nobody updates may share memory."""
        pattern = self.pattern
        shape = tuple(self._size() for _ in range(ndim))
        layouts = ("compact", "compact", "transposed", "stepped", "expanded", "same", "part")
        layout = pattern.choice(layouts)
        same = [v for v in self._shared if len(v.shape) == ndim and v.dtype == dtype]
        if layout in ("same", "part") and same and not mutated:
            view = pattern.choice(same)
            if layout == "same":
                return view
            return replace(view, shape=tuple(size - (size > 2) for size in view.shape))
        order = list(range(ndim))
        if layout == "transposed":
            pattern.shuffle(order)
        step = 2 if layout == "stepped" else 1
        strides, size = [0] * ndim, step
        expanded = {pattern.randrange(ndim)} if layout == "expanded" and ndim else set()
        for d in reversed(order):
            if d not in expanded or mutated:
                strides[d] = size
                size *= max(shape[d], 1)
        offset = pattern.randrange(3)
        view = View(len(self.bases), shape, tuple(strides), offset, dtype)
        self.bases.append(_values(self.chosen, size + offset, dtype))
        if not mutated:
            self._shared.append(view)
        return view

    def _size(self) -> int:
        fixed = self.pattern.choice((0, 1, None, None, None, None, None))
        return self.chosen.choice((2, 3, 4, 5)) if fixed is None else fixed


def _values(chosen: random.Random, count: int, dtype: str) -> np.ndarray:
    """Small integers: sums of products of them are exact in every dtype that matters."""
    values: list[complex] = [chosen.randrange(2 if dtype == "bool" else 8) for _ in range(count)]
    if dtype == "complex64":
        values = [value + 1j * chosen.randrange(4) for value in values]
    return np.array(values, dtype)


def flatten(values: Sequence[Any]) -> list[Any]:
    """Results and updated tensors of a call, one after the other, without those that are None."""
    flat: list[Any] = []
    for value in values:
        flat += flatten(value) if isinstance(value, (list, tuple)) else [value]
    return [value for value in flat if value is not None]
