# SPDX-License-Identifier: Apache-2.0
"""Splits calls between devices: the types of their results, and what XLA is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import jax
from jax.extend.mlir import ir
from jax.interpreters import mlir

from graphffi_jax._lowering.call_dims import CallDims, check_parts
from graphffi_jax._private_names import PRIVATE_NAMES, missing
from graphffi_jax._sharding.varying import mesh_axes, unreduced_axes, unsplit

_LARGE: Final = 1 << 30  # Shardy reads sizes of 31 bits


def result_shardings(
    call: Any, operands: Sequence[Any], shapes: Sequence[Any]
) -> list[jax.sharding.NamedSharding | None]:
    """The split of results, by the types of the operands: for meshes with explicit axes.

    Returns:
        One sharding for each result; all None if no operand has a mesh.

    Raises:
        ValueError: For operands that are split where the kernel needs them whole, or one dimension
            in two ways, or over two meshes; for terms of sums.
    """
    _check_reduced(call, operands, shapes)
    specs = [mesh_axes(aval) for aval in operands]
    if not any(entry is not None for spec in specs for entry in spec):
        return [unsplit(operands, len(shape)) for shape in shapes]
    dims = CallDims.of(call, [*(a.shape for a in operands), *shapes], len(operands))
    mesh = _mesh_of(call.subject, dims, operands, specs)
    check_parts(
        call.subject,
        dims,
        [a.shape for a in operands],
        [[math.prod(mesh.shape[axis] for axis in _axes(e)) for e in spec] for spec in specs],
    )
    chosen = _choose_axes(call.subject, dims, specs)
    make_spec: Any = jax.sharding.PartitionSpec
    return [
        jax.sharding.NamedSharding(
            mesh, make_spec(*(chosen.get(d) if d in array.free() else None for d in array.dims))
        )
        for array in dims.results[: len(shapes)]
    ]


def _check_reduced(call: Any, operands: Sequence[Any], shapes: Sequence[Any]) -> None:
    """Refuses terms of sums: a kernel would compute with the term of each device."""
    axes = [sorted(unreduced_axes(aval)) for aval in operands]
    if not any(axes):
        return
    dims = CallDims.of(call, [*(a.shape for a in operands), *shapes], len(operands))
    problems = (
        f"operand {array.name!r}: expected a sum over mesh axis {', '.join(map(repr, names))}, got "
        "its terms (unreduced)"
        for array, names in zip(dims.operands, axes, strict=True)
        if names
    )
    raise ValueError(
        f"{call.subject}: {'; '.join(problems)}; take the sum with jax.lax.psum or "
        "jax.sharding.reshard before the call"
    )


def _mesh_of(
    subject: str, dims: CallDims, operands: Sequence[Any], specs: Sequence[Sequence[Any]]
) -> Any:
    """The mesh over which operands are split."""
    split = [
        (array.name, aval.sharding.mesh)
        for array, aval, spec in zip(dims.operands, operands, specs, strict=True)
        if any(entry is not None for entry in spec)
    ]
    first, mesh = split[0]
    for name, other in split[1:]:
        if dict(other.shape) != dict(mesh.shape):
            raise ValueError(
                f"{subject}: operand {name!r}: expected the mesh of operand {first!r}, "
                f"{dict(mesh.shape)}, got {dict(other.shape)}; use jax.sharding.reshard"
            )
    return mesh


def _choose_axes(subject: str, dims: CallDims, specs: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """The mesh axes along which each free dimension is split."""
    chosen: dict[str, Any] = {}
    # Dimension and operand of each dimension and of each axis, which may have the same name.
    origin: dict[tuple[str, Any], tuple[str, str]] = {}
    for array, spec in zip(dims.operands, specs, strict=True):
        for name, position in array.free().items():
            entry = spec[position]
            if entry is None:
                continue
            first = chosen.setdefault(name, entry)
            for key in (("dimension", name), *(("axis", axis) for axis in _axes(entry))):
                known, where = origin.setdefault(key, (name, array.name))
                if known != name or first != entry:
                    raise ValueError(
                        f"{subject}: operand {array.name!r}: expected dimension {name!r} split as "
                        f"operand {where!r} is, along one axis of the mesh for each dimension, got "
                        f"axis {entry!r}; use jax.sharding.reshard"
                    )
    return chosen


def _axes(entry: Any) -> tuple[Any, ...]:
    return () if entry is None else entry if isinstance(entry, tuple) else (entry,)


def sharding_attributes(
    context: Any, call: Any, num_operands: int
) -> tuple[str, dict[str, ir.Attribute]]:
    """The facts about a custom call that XLA's partitioners need.

    Returns:
        The dimensions of its arrays as text, and attributes of the operation: nothing in programs
        of one device, nor where each device runs its own part anyway.
    """
    if not is_partitioned(context):
        return "", {}
    _check_partitioner(call.subject)
    shapes = [a.shape for a in (*context.avals_in, *context.avals_out)]
    dims = CallDims.of(call, shapes, num_operands)
    # Older versions propagate shardings without Shardy, and do not take its attributes.
    if not (dims.operands and dims.results and dims.names) or not getattr(
        jax.config, "jax_use_shardy_partitioner", False
    ):
        return str(dims), {}
    workspace = call.chosen.workspace
    if workspace is not None:
        shapes.append((workspace,))
    rule = _rule(dims, shapes)
    if all(isinstance(size, int) for shape in shapes for size in shape):
        return str(dims), {"sdy.sharding_rule": ir.Attribute.parse(rule)}
    _check_symbolic(call.subject)
    # Until its sizes are known, a call has more operands than its rule, which Shardy's check of the
    # attribute turns down. It is not checked in the form in which XLA hands rules to Shardy.
    text: ir.Attribute = ir.StringAttr.get(rule)
    return str(dims), {"mhlo.frontend_attributes": ir.DictAttr.get({"xla.sdy.sharding_rule": text})}


def _check_partitioner(subject: str) -> None:
    """Refuses what XLA would gather in a JAX that takes no partitioners."""
    lost = missing(PRIVATE_NAMES)
    if lost:
        raise NotImplementedError(
            f"{subject}: expected a jax that has {', '.join(lost)} for a program of several "
            f"devices, got jax {jax.__version__}; call the op in jax.shard_map"
        )


def _check_symbolic(subject: str) -> None:
    """Refuses what older versions would gather: they take no rules of calls with unknown sizes."""
    if jax.__version_info__ < (0, 9):
        raise NotImplementedError(
            f"{subject}: symbolic sizes: expected jax 0.9 or newer for a program of several "
            f"devices, got {jax.__version__}; export it with sizes that are known, or with "
            "jax.config.update('jax_use_shardy_partitioner', False)"
        )


def check_one_device(context: Any, call: Any) -> None:
    """Refuses ordered calls in programs of several devices: XLA would have to split the token."""
    count = _device_count(context.module_context.axis_context)
    if count > 1:
        raise ValueError(
            f"{call.subject}: has_side_effect='ordered': expected a program of one device, got one "
            f"of {count}; has_side_effect=True keeps all calls, in any order"
        )


def _device_count(axis_context: Any) -> int:
    if isinstance(axis_context, mlir.SPMDAxisContext):
        return int(axis_context.mesh.size)
    return getattr(axis_context, "num_devices", None) or 1


def is_partitioned(context: Any) -> bool:
    """True if XLA splits what is lowered here: not where each device runs its own part anyway."""
    return _device_count(context.module_context.axis_context) > 1 and not is_local(context)


def is_local(context: Any) -> bool:
    """True if each device runs its own part of what is lowered here: inside of `jax.shard_map`."""
    axis_context = context.module_context.axis_context
    return isinstance(axis_context, mlir.SPMDAxisContext) and set(axis_context.manual_axes) == set(
        axis_context.mesh.axis_names
    )


def _rule(dims: CallDims, shapes: Sequence[Any]) -> str:
    """Shardy's rule, as text: free dimensions are common factors, the others stay whole."""
    factors: dict[Any, int] = {}
    sizes: list[int] = []
    groups = []
    for i, (array, shape) in enumerate(zip((*dims.operands, *dims.results), shapes, strict=True)):
        row = []
        for j, (name, size) in enumerate(zip(array.dims, shape, strict=True)):
            key = name if name in array.free() else (i, j)
            if key not in factors:
                factors[key] = len(sizes)
                sizes.append(min(size, _LARGE) if isinstance(size, int) else _LARGE)
            row.append(_factor(factors[key]))
        groups.append("[" + ", ".join(row) + "]")
    needed = ", ".join(_factor(i) for key, i in factors.items() if isinstance(key, tuple))
    count = len(dims.operands)
    left, right = ", ".join(groups[:count]), ", ".join(groups[count:])
    known = ", ".join(f"{_factor(i)}={size}" for i, size in enumerate(sizes))
    whole = f" need_replication={{{needed}}}" if needed else ""
    return f"#sdy.op_sharding_rule<({left})->({right}) {{{known}}}{whole}, custom>"


def _factor(index: int) -> str:
    """The names that Shardy knows: i to z, then z_1, z_2 and so on."""
    letters = "ijklmnopqrstuvwxyz"
    if index < len(letters):
        return letters[index]
    return f"z_{index - len(letters) + 1}"
