# SPDX-License-Identifier: Apache-2.0
"""How XLA may split a call between devices: along leading dimensions that all arrays share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jaxlib.mlir import ir

from ._library import TARGET, TARGET_GRAPH


def register_partitioning() -> None:
    """Lets XLA split calls that say how many of their leading dimensions are a batch."""
    register: Any = getattr(jax.ffi, "register_ffi_target_as_batch_partitionable", None)
    if register is not None:
        register(TARGET)
        register(TARGET_GRAPH)


def sharding_attributes(context: Any, call: Any, num_operands: int) -> dict[str, ir.Attribute]:
    """What a custom call says of the dimensions along which it may be split.

    Args:
        context: Of the lowering.
        call: The `KernelCall`.
        num_operands: How many arrays it gets.

    Returns:
        Attributes of the operation: empty for a call that can't be split, and for programs of one
        device.
    """
    made_of = call.made_of
    if made_of is None or made_of.op.definition.dims is None:
        return {}
    # XLA's partitioner forgets which results are operands, and would cut a workspace into parts.
    if call.num_mutated or call.workspace is not None:
        return {}
    if getattr(context.module_context.axis_context, "num_devices", 1) in (1, None):
        return {}
    shapes = [a.shape for a in (*context.avals_in, *context.avals_out)]
    if not all(isinstance(size, int) for shape in shapes for size in shape):
        return {}  # Shardy's rules have no symbolic sizes
    names = _names(made_of, shapes, num_operands)
    count = _num_leading(names, made_of.op.definition.dims.whole)
    if count == 0:
        return {}
    batch = ir.DictAttr.get({"num_batch_dims": ir.StringAttr.get(str(count))})
    attributes: dict[str, ir.Attribute] = {"mhlo.frontend_attributes": batch}
    # Older versions propagate shardings without Shardy, and do not take its attributes.
    if getattr(jax.config, "jax_use_shardy_partitioner", False):
        attributes["sdy.sharding_rule"] = ir.Attribute.parse(_rule(shapes, num_operands, count))
    return attributes


def _names(made_of: Any, shapes: Sequence[Any], num_operands: int) -> list[list[str]]:
    """Names of the dimensions of each operand, then of each result; unnamed ones are empty."""
    definition = made_of.op.definition
    operands = zip(definition.operands, definition.dims.operands, made_of.structure, strict=True)
    read: list[Any] = []
    updated: list[Any] = []
    for operand, group, structure in operands:
        count = 0 if structure is None else 1 if structure < 0 else structure
        (updated if operand.mutated else read).extend([group] * count)
    groups = [*read, *updated, *definition.dims.results, *updated]
    named = []
    for group, shape in zip(groups, shapes, strict=True):
        row = [""] * len(shape)
        for name, position in group.positions(len(shape)).items():
            row[position] = name
        named.append(row)
    return named


def _num_leading(names: Sequence[Sequence[str]], whole: frozenset[str]) -> int:
    """How many leading dimensions all arrays share, and the kernel does not need whole."""
    if not names:
        return 0
    count = 0
    for column in zip(*names, strict=False):
        if len(set(column)) != 1 or not column[0] or column[0] in whole:
            break
        count += 1
    # XLA does not split a call along all dimensions of an array.
    return min(count, min(len(row) for row in names) - 1) if count else 0


def _rule(shapes: Sequence[Any], num_operands: int, count: int) -> str:
    """Shardy's rule, as text: batch dimensions are common factors, the others stay whole."""
    sizes: list[int] = list(shapes[0][:count])
    groups = []
    for shape in shapes:
        factors = list(range(count))
        for size in shape[count:]:
            factors.append(len(sizes))
            sizes.append(size)
        groups.append("[" + ", ".join(map(_factor, factors)) + "]")
    needed = ", ".join(map(_factor, range(count, len(sizes))))
    left, right = ", ".join(groups[:num_operands]), ", ".join(groups[num_operands:])
    known = ", ".join(f"{_factor(i)}={size}" for i, size in enumerate(sizes))
    whole = f" need_replication={{{needed}}}" if needed else ""
    return f"#sdy.op_sharding_rule<({left})->({right}) {{{known}}}{whole}, custom>"


def _factor(index: int) -> str:
    """The names that Shardy knows: i to z, then z_1, z_2 and so on."""
    letters = "ijklmnopqrstuvwxyz"
    if index < len(letters):
        return letters[index]
    return f"z_{index - len(letters) + 1}"
