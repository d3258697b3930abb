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
    shape: tuple[Any, ...],
    dtype: Any,
    operands: Sequence[Any],
    opt_sharding: Any,
    opt_updated: Any = None,
) -> Any:
    """The type of a result.

    Args:
        shape: Its shape.
        dtype: Its dtype.
        operands: Types of the operands.
        opt_sharding: Of the result, where an operand has a mesh.
        opt_updated: The operand that it is the new value of.
    """
    options = {} if opt_sharding is None else {"sharding": opt_sharding}
    options |= _memory_space(operands if opt_updated is None else [opt_updated])
    # Inside of shard_map: over a mesh axis over which any operand varies, so do all results.
    alike = max(operands, key=lambda a: len(varying_axes(a)), default=None)
    if alike is None or not varying_axes(alike):
        return _ShapedArray(shape, dtype, **options)
    return alike.update(shape=shape, dtype=dtype, weak_type=False, **options)


def _memory_space(avals: Sequence[Any]) -> dict[str, Any]:
    """Host or device, where all arrays are in one of them: a donated one may become the result."""
    found = {getattr(aval, "memory_space", None) for aval in avals} - {None}
    return {"memory_space": found.pop()} if len(found) == 1 else {}


def unsplit(operands: Sequence[Any], ndim: int) -> jax.sharding.NamedSharding | None:
    """The sharding of an array that is whole on each device of a mesh; None if there is no mesh."""
    meshes = (getattr(getattr(aval, "sharding", None), "mesh", None) for aval in operands)
    mesh = next((m for m in meshes if m is not None and not m.empty), None)
    spec: Any = jax.sharding.PartitionSpec
    return None if mesh is None else jax.sharding.NamedSharding(mesh, spec(*[None] * ndim))


def vary_alike(arrays: list[Any]) -> list[Any]:
    """Makes all arrays vary over the axes over which any of them does, as JAX's own operations do.

    So the gradient of an array that is the same everywhere is the sum over the parts of the others.

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
