# SPDX-License-Identifier: Apache-2.0
"""Batches whose elements are calls of their own: loops around a call.

A call with loops is one operation until it is lowered, so that a batch that is split between
devices stays so: each device loops over its own part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from graphffi_jax._sharding.varying import mesh_axes

Loops = tuple[tuple[bool, ...], ...]
"""Outermost first: for each operand, whether its next leading dimension is looped over."""


def depths(loops: Loops, num_operands: int) -> list[int]:
    """The number of leading dimensions of each operand that are looped over."""
    return [sum(level[i] for level in loops) for i in range(num_operands)]


def sizes(loops: Loops, shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """The number of times that each loop runs, by the shapes of the operands."""
    found = []
    for k, level in enumerate(loops):
        i = level.index(True)
        found.append(shapes[i][sum(outer[i] for outer in loops[:k])])
    return tuple(found)


def run(call: Callable[[list[Any]], Any], loops: Loops, arrays: Sequence[Any]) -> list[Any]:
    """Makes the calls one after another.

    Returns:
        The results, with one leading dimension for each loop.
    """
    if not loops:
        return list(call(list(arrays)))
    level, *inner = loops

    def one(items: Sequence[Any]) -> Any:
        rest = iter(items)
        return run(
            call,
            tuple(inner),
            [next(rest) if is_mapped else a for a, is_mapped in zip(arrays, level, strict=True)],
        )

    mapped = [_whole(a) for a, is_mapped in zip(arrays, level, strict=True) if is_mapped]
    return list(jax.lax.map(one, mapped))


def _whole(array: Any) -> Any:
    """The array with its first dimension whole: JAX loops over no other, if axes are explicit."""
    first, *others = mesh_axes(jax.typeof(array))
    if first is None:
        return array
    spec: Any = jax.sharding.PartitionSpec
    sharding = jax.sharding.NamedSharding(jax.typeof(array).sharding.mesh, spec(None, *others))
    reshard: Any = jax.sharding.reshard
    return reshard(array, sharding)
