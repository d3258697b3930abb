# SPDX-License-Identifier: Apache-2.0
"""Batching rules of ops as torch.vmap applies them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from graphffi.plugin import call_in_batch, call_in_order, flat
from graphffi_torch._operators.choice import run_rule
from graphffi_torch._operators.operator_schema import argument_values
from graphffi_torch._operators.specs import spec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphffi import TensorSpec
    from graphffi.plugin import DefinedOp


def register_vmap(op: DefinedOp) -> None:
    """Makes torch.vmap call an op by its rule."""

    def rule(info: Any, in_dims: Sequence[Any], *args: Any, **_: Any) -> tuple[Any, Any]:
        results = _call(op, info.batch_size, in_dims, args)
        if not results:
            return None, None
        return (results[0], 0) if len(results) == 1 else (tuple(results), (0,) * len(results))

    torch.library.register_vmap(op.name, rule)


def _call(op: DefinedOp, size: int, in_dims: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    definition = op.definition
    given, constants = definition.split(argument_values(definition, args, {}))
    num_left_out = len(definition.parameters) - len(args)
    dims, _ = definition.split([*in_dims[: len(args)], *[None] * num_left_out])
    batched = [_is_batched(*pair) for pair in zip(given, dims, strict=True)]
    operands = [
        _to_front(value, dim, operand.mutated)
        for operand, value, dim in zip(definition.operands, given, dims, strict=True)
    ]
    attributes = [a.from_graph(v) for a, v in zip(definition.attributes, constants, strict=True)]
    _check_mutated(op, batched, operands)
    returned = call_in_batch(
        op,
        size,
        batched,
        definition.in_order(operands, attributes),
        _repeater(size),
        lambda: _element(op, batched, operands, attributes),
    )
    if returned is NotImplemented:
        return _loop(op, size, batched, operands, attributes)
    return _fresh(op, returned)


def _fresh(op: DefinedOp, returned: Any) -> list[Any]:
    """The results among what the op returns."""
    values = returned if isinstance(returned, (tuple, list)) else (returned,)
    return list(values[: len(op.definition.results)])


def _element(
    op: DefinedOp, batched: Sequence[Any], operands: Sequence[Any], attributes: Sequence[Any]
) -> Sequence[TensorSpec]:
    """The results of the call for one element of the batch."""
    pairs = zip(operands, batched, strict=True)
    specs = [_without_batch(spec_of(operand), flag) for operand, flag in pairs]
    found: Sequence[TensorSpec] = run_rule(op.definition.infer, specs, attributes)
    return found


def _without_batch(spec: Any, batched: Any) -> Any:
    if isinstance(spec, list):
        return [_without_batch(item, flag) for item, flag in zip(spec, batched, strict=True)]
    return dataclasses.replace(spec, shape=spec.shape[1:]) if batched else spec


def _is_batched(value: Any, dim: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [d is not None for d in (dim if dim is not None else [None] * len(value))]
    return dim is not None


def _to_front(value: Any, dim: Any, mutated: bool) -> Any:
    """Moves the batch to the front; an updated tensor stays a view, so that the update arrives."""
    if dim is None:
        return value
    if isinstance(value, (list, tuple)):
        return [_to_front(item, d, mutated) for item, d in zip(value, dim, strict=True)]
    if dim == 0:
        return value
    moved = value.movedim(dim, 0)
    return moved if mutated else moved.contiguous()


def _check_mutated(op: DefinedOp, batched: Sequence[Any], operands: Sequence[Any]) -> None:
    rows = list(zip(op.definition.operands, operands, batched, strict=True))
    names = [operand.name for operand, _, flags in rows if _any(flags)]
    for operand, value, flags in rows:
        if not operand.mutated or value is None:
            continue
        if names and not (all(flags) if isinstance(flags, list) else flags):
            raise ValueError(
                f"{op.name}: vmap: operand {operand.name!r}: expected a batched tensor, because "
                f"the op updates it and {', '.join(map(repr, names))} is batched, got one for the "
                "whole batch; expand and clone it, and pass it with in_dims=0"
            )
        if names and any(t.size(0) > 1 and t.stride(0) == 0 for t in flat(value)):
            raise ValueError(
                f"{op.name}: operand {operand.name!r}: expected elements that do not overlap, got "
                "a tensor whose strides have them share memory; pass a contiguous one"
            )


def _any(flags: Any) -> bool:
    return any(flags) if isinstance(flags, list) else bool(flags)


def _repeater(size: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor.expand(size, *tensor.shape).contiguous()


def _loop(
    op: DefinedOp,
    size: int,
    batched: Sequence[Any],
    operands: Sequence[Any],
    attributes: Sequence[Any],
) -> list[Any]:
    """One call per element; results are stacked, updates go to views of the batch."""
    if size == 0:
        raise ValueError(
            f"{op.name}: vmap: expected at least one element for vmap='sequential', got an empty "
            "batch"
        )
    calls = []
    for i in range(size):
        items = [_select(*pair, i) for pair in zip(operands, batched, strict=True)]
        calls.append(_fresh(op, call_in_order(op, op.definition.in_order(items, attributes))))
    return [torch.stack(results) for results in zip(*calls, strict=True)]


def _select(value: Any, batched: Any, i: int) -> Any:
    if isinstance(value, (list, tuple)):
        return [_select(item, flag, i) for item, flag in zip(value, batched, strict=True)]
    return value.select(0, i) if batched else value
