# SPDX-License-Identifier: Apache-2.0
"""The splits of arrays by XLA's shardings, and those of them that a call takes over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from graphffi_jax._lowering.call_dims import ArrayDims, CallDims
from graphffi_jax._private_names import find_private

HloSharding: Final[Any] = find_private("jaxlib.xla_client.HloSharding")
_OpSharding: Final[Any] = find_private("jaxlib.xla_client.OpSharding")


@dataclass(frozen=True, eq=False)
class Split:
    """The split of one dimension.

    Args:
        num_parts: More than one.
        part: Which part each device has. [num_devices], int64.
    """

    num_parts: int
    part: Any

    def is_equal(self, other: Split | None) -> bool:
        """True if it is the same."""
        return other is not None and bool(np.array_equal(self.part, other.part))


def read_splits(sharding: Any, ndim: int) -> list[Split | None]:
    """The split of each dimension of an array; None for one that is whole on every device."""
    if not sharding.is_tiled():
        return [None] * ndim
    shape = list(sharding.tile_assignment_dimensions())
    devices = np.asarray(sharding.tile_assignment_devices())
    splits: list[Split | None] = []
    for size, parts in zip(shape[:ndim], np.indices(shape)[:ndim], strict=True):
        part = np.empty(len(devices), np.int64)
        part[devices] = parts.reshape(-1)
        splits.append(Split(size, part) if size > 1 else None)
    return splits


def make_sharding(splits: Sequence[Split | None], given: Any) -> Any:
    """The sharding with these splits.

    Args:
        splits: One for each dimension.
        given: A sharding, which is returned if it is the same: two of XLA's may differ in the order
            of copies.
    """
    found = [s for s in splits if s is not None]
    before = read_splits(given, len(splits))
    if all(b is None if s is None else s.is_equal(b) for s, b in zip(splits, before, strict=True)):
        return given
    if not found:
        return HloSharding.replicate()
    shape = [1 if s is None else s.num_parts for s in splits]
    num_copies = len(found[0].part) // math.prod(shape)
    devices = np.argsort(_joint(found), kind="stable").reshape((*shape, num_copies))
    replicated = _OpSharding.Type.REPLICATED
    return HloSharding.subgroup_with_device_ordering(devices, [replicated])


def choose_splits(
    dims: CallDims, shapes: Sequence[Sequence[int]], splits: Sequence[Sequence[Split | None]]
) -> dict[str, Split]:
    """The splits of a call's free dimensions, taken over from its arrays.

    Where arrays are split differently, the largest one stays where it is.
    """
    arrays = list(zip((*dims.operands, *dims.results), shapes, splits, strict=True))
    num_operands = len(dims.operands)
    order = sorted(range(len(arrays)), key=lambda i: (i >= num_operands, -math.prod(shapes[i])))
    chosen: dict[str, Split] = {}
    for array, shape, found in (arrays[i] for i in order):
        for name, position in array.free().items():
            split = found[position]
            if split is None or name in chosen:
                continue
            # XLA would fill parts up to one size, and the kernel read what it filled in.
            if shape[position] % split.num_parts == 0 and _is_grid([*chosen.values(), split]):
                chosen[name] = split
    return chosen


def splits_of(array: ArrayDims, chosen: dict[str, Split]) -> list[Split | None]:
    """The splits of an array of a call that is split like that."""
    free = array.free()
    return [chosen.get(name) if name in free else None for name in array.dims]


def _joint(splits: Sequence[Split]) -> Any:
    """One number for each device: which combination of parts it has. [num_devices], int64."""
    parts = tuple(s.part for s in splits)
    return np.ravel_multi_index(parts, tuple(s.num_parts for s in splits))


def _is_grid(splits: Sequence[Split]) -> bool:
    """True if every combination of parts is on equally many devices."""
    counts = np.bincount(_joint(splits), minlength=math.prod(s.num_parts for s in splits))
    return bool((counts == counts[0]).all())
