# SPDX-License-Identifier: Apache-2.0
"""Types of arrays over a mesh: along which axes they are split, over which their values vary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax

_Tracer: Final = jax.core.Tracer
_ShapedArray: Final[Any] = jax.core.ShapedArray
_ANY: Final[Any] = jax.sharding.PartitionSpec.UNCONSTRAINED


def varying_axes(aval: Any) -> frozenset[str]:
    """The axes over which values of this type vary; none outside of `jax.shard_map`."""
    axes: Any = getattr(aval, "vma", None)
    if axes is None:  # since 0.10
        axes = getattr(getattr(aval, "manual_axis_type", None), "varying", None)
    return axes or frozenset()


def unreduced_axes(aval: Any) -> frozenset[str]:
    """The axes over which values of this type are terms of a sum that nobody has taken yet."""
    spec = getattr(getattr(aval, "sharding", None), "spec", None)
    kinds = (getattr(aval, "manual_axis_type", None), spec)
    found: frozenset[str] = frozenset()
    return found.union(*(getattr(kind, "unreduced", ()) for kind in kinds))


def mesh_axes(aval: Any) -> list[Any]:
    """The mesh axes along which each dimension is split: a name, a tuple of names, or None."""
    sharding = getattr(aval, "sharding", None)
    found = [] if sharding is None else [e if e and e is not _ANY else None for e in sharding.spec]
    return [*found, *[None] * (len(aval.shape) - len(found))]


def result_aval(
    shape: tuple[Any, ...], dtype: Any, operands: Sequence[Any], opt_sharding: Any
) -> Any:
    """The type of a result.

    Args:
        shape: Its shape.
        dtype: Its dtype.
        operands: Types of the operands.
        opt_sharding: Of the result, where meshes have explicit axes.
    """
    # Inside of shard_map: over a mesh axis over which any operand varies, so do all results.
    alike = max(operands, key=lambda a: len(varying_axes(a)), default=None)
    if alike is None or not varying_axes(alike):
        options = {} if opt_sharding is None else {"sharding": opt_sharding}
        return _ShapedArray(shape, dtype, **options)
    spec: Any = jax.sharding.PartitionSpec
    replicated = jax.sharding.NamedSharding(alike.sharding.mesh, spec(*[None] * len(shape)))
    return alike.update(
        shape=shape, dtype=dtype, weak_type=False, sharding=opt_sharding or replicated
    )


def vary_alike(arrays: list[Any]) -> list[Any]:
    """Has all arrays vary over the axes over which any of them does, as JAX's own operations do.

    So the gradient of an array that is the same everywhere is the sum over the parts of the others.

    Args:
        arrays: Arrays, lists of arrays and None.

    Returns:
        The same structure.
    """
    axes: frozenset[str] = frozenset()
    for value in arrays:  # eager calls come here, too
        for array in value if isinstance(value, list) else (value,):
            if isinstance(array, _Tracer):
                axes |= varying_axes(array.aval)
    return jax.tree.map(lambda leaf: vary(leaf, axes), arrays) if axes else arrays


def _axes_of(array: Any) -> frozenset[str]:
    if not isinstance(array, _Tracer):
        return frozenset()
    return varying_axes(array.aval) | unreduced_axes(array.aval)  # the latter are refused by name


def vary(array: Any, axes: frozenset[str]) -> Any:
    """The array, varying over these axes, too."""
    missing = tuple(sorted(axes - _axes_of(array)))
    if not missing:
        return array
    lax: Any = jax.lax
    if hasattr(lax, "pcast"):
        return lax.pcast(array, missing, to="varying")
    return lax.pvary(array, missing)
