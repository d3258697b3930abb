# SPDX-License-Identifier: Apache-2.0
"""Batching rules of ops as torch.vmap applies them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from graphffi.plugin import Operand
from graphffi_torch._specs import attribute_value, specs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphffi import Op, TensorSpec


def register_vmap(op: Op) -> None:
    """Makes torch.vmap call an op by its rule.

    Args:
        op: One that has a rule, registered with torch.
    """

    def rule(info: Any, in_dims: Sequence[Any], *args: Any, **_: Any) -> tuple[Any, Any]:
        results = _call(op, info.batch_size, in_dims, args)
        if not results:
            return None, None
        return (results[0], 0) if len(results) == 1 else (tuple(results), (0,) * len(results))

    torch.library.register_vmap(op.name, rule)


def _call(op: Op, size: int, in_dims: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    definition = op.definition
    assert definition.vmap is not None
    values: list[Any] = []
    batched: list[Any] = []  # one per operand
    for i, parameter in enumerate(definition.parameters):
        # Torch leaves out arguments that have their default.
        default = None if isinstance(parameter, Operand) else parameter.default
        value, dim = (args[i], in_dims[i]) if i < len(args) else (default, None)
        if isinstance(parameter, Operand):
            batched.append(_is_batched(value, dim))
            value = _to_front(value, dim, parameter.mutated)
        else:
            value = attribute_value(parameter, value)
        values.append(value)
    _check_mutated(op, batched, values)
    returned = definition.vmap.call(
        op, size, batched, values, _repeater(size), lambda: _element(op, batched, values)
    )
    if returned is NotImplemented:
        return _loop(op, size, batched, values)
    return _fresh(op, returned)


def _fresh(op: Op, returned: Any) -> list[Any]:
    """The results among what the op returns."""
    values = returned if isinstance(returned, (tuple, list)) else (returned,)
    return list(values[: len(op.definition.results)])


def _element(op: Op, batched: Sequence[Any], values: Sequence[Any]) -> Sequence[TensorSpec]:
    """The results of the call for one element of the batch."""
    operands: list[Any] = []
    attributes: list[Any] = []
    flags = iter(batched)
    for parameter, value in zip(op.definition.parameters, values, strict=True):
        if isinstance(parameter, Operand):
            operands.append(_without_batch(specs_of(value), next(flags)))
        else:
            attributes.append(value)
    return op.definition.infer(operands, attributes)


def _without_batch(spec: Any, batched: Any) -> Any:
    if isinstance(spec, list):
        return [_without_batch(item, flag) for item, flag in zip(spec, batched, strict=True)]
    return dataclasses.replace(spec, shape=spec.shape[1:]) if batched else spec


def _is_batched(value: Any, dim: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [d is not None for d in (dim if dim is not None else [None] * len(value))]
    return dim is not None


def _to_front(value: Any, dim: Any, mutated: bool) -> Any:
    """What is updated stays a view, so that the update arrives; the rest is laid out anew."""
    if dim is None:
        return value
    if isinstance(value, (list, tuple)):
        return [_to_front(item, d, mutated) for item, d in zip(value, dim, strict=True)]
    if dim == 0:
        return value
    moved = value.movedim(dim, 0)
    return moved if mutated else moved.contiguous()


def _check_mutated(op: Op, batched: Sequence[Any], values: Sequence[Any]) -> None:
    definition = op.definition
    given = dict(zip((p.name for p in definition.parameters), values, strict=True))
    flags_of = dict(zip((o.name for o in definition.operands), batched, strict=True))
    names = [name for name, flags in flags_of.items() if _any(flags)]
    for operand in definition.operands:
        if not operand.mutated or given[operand.name] is None:
            continue
        flags = flags_of[operand.name]
        if names and not (all(flags) if isinstance(flags, list) else flags):
            raise ValueError(
                f"{op.name}: vmap: operand {operand.name!r}: expected a batched tensor, because "
                f"the op updates it and {', '.join(map(repr, names))} is batched, got one for the "
                "whole batch; expand and clone it, and pass it with in_dims=0"
            )


def _any(flags: Any) -> bool:
    return any(flags) if isinstance(flags, list) else bool(flags)


def _repeater(size: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor.expand(size, *tensor.shape).contiguous()


def _loop(op: Op, size: int, batched: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """One call per element; results are stacked, updates go to views of the batch."""
    definition = op.definition
    if size == 0:
        raise ValueError(
            f"{op.name}: vmap: expected at least one element for vmap='sequential', got an empty "
            "batch"
        )
    calls = []
    for i in range(size):
        flags = iter(batched)
        arguments = [
            _select(value, next(flags), i) if isinstance(parameter, Operand) else value
            for parameter, value in zip(definition.parameters, values, strict=True)
        ]
        calls.append(_fresh(op, op(*arguments)))
    return [torch.stack(results) for results in zip(*calls, strict=True)]


def _select(value: Any, batched: Any, i: int) -> Any:
    if isinstance(value, (list, tuple)):
        return [_select(item, flag, i) for item, flag in zip(value, batched, strict=True)]
    return value.select(0, i) if batched else value
