# SPDX-License-Identifier: Apache-2.0
"""Batching rules of ops: what a call becomes when some operands have one more dimension."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .._values.describe import counted, describe, is_tensor
from .._values.dtype import dtype
from .._values.error import name_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._contract.spec import TensorSpec
    from .._definition.defined_op import DefinedOp
    from .._definition.definition import Definition


def checked_vmap(subject: str, method: Any) -> Any:
    """The checked value of `op(vmap=...)`.

    Args:
        subject: Begins error messages.
        method: ``"broadcast"``: the op itself takes operands that all have the batch dimension in
            front; those that are not batched are repeated. If the op has `dims`, that concerns the
            operands with an ellipsis; a batch of others is looped over. ``"sequential"``: one
            call per element of the batch. A callable: the user's own, see `call_in_batch`. None:
            no rule.

    Raises:
        TypeError: If `method` is no rule.
        ValueError: If it is an unknown name.
    """
    expected = f"{subject}: vmap: expected 'broadcast', 'sequential' or a callable"
    if isinstance(method, str):
        if method not in ("broadcast", "sequential"):
            raise ValueError(f"{expected}, got {method!r}")
    elif method is not None and not callable(method):
        raise TypeError(f"{expected}, got {describe(method)}")
    return method


def call_in_batch(
    op: DefinedOp,
    size: Any,
    batched: Sequence[Any],
    values: Sequence[Any],
    repeat: Callable[[Any], Any],
    results: Callable[[], Sequence[TensorSpec]],
) -> Any:
    """Runs the batching rule of an op for one call.

    A callable gets the size of the batch, a namespace that says of each operand by name whether
    it is batched (a list of bools for a list), and the op's arguments in signature order,
    batched ones with the batch dimension in front. It returns what the op returns, everything
    with the batch dimension in front; or `NotImplemented`, to have the op called in a loop.

    Args:
        op: The op, which has one.
        size: Of the batch.
        batched: One bool per operand, a list of bools for a list, False for None.
        values: One per parameter, in signature order, batch dimensions in front.
        repeat: Puts the batch dimension in front of a tensor that has none.
        results: Gives the results of the call for one element.

    Returns:
        What the op returns, batched; or `NotImplemented`: the op is to be called in a loop.

    Raises:
        TypeError: If a result is of another dtype than that of one element.
        ValueError: If its shape is not that of one element with the batch dimension in front.
    """
    definition = op.definition
    rule = definition.vmap
    if rule == "sequential":
        return NotImplemented
    if callable(rule):
        names = (o.name for o in definition.operands)
        flags = SimpleNamespace(**dict(zip(names, batched, strict=True)))
        try:
            returned = rule(size, flags, *values)
        except Exception as error:
            name_rule(error, definition.name, "vmap")
            raise
    else:
        returned = _broadcast(op, batched, values, repeat)
    if returned is not NotImplemented:
        _check_results(definition, returned, size, results())
    return returned


def _broadcast(
    op: DefinedOp, batched: Sequence[Any], values: Sequence[Any], repeat: Callable[[Any], Any]
) -> Any:
    """One call; of operands whose `dims` have no ellipsis there must be one for the batch."""
    definition = op.definition
    dims = definition.dims
    takes = [True] * len(batched) if dims is None else [g.has_ellipsis for g in dims.operands]
    if any(_is_any(flag) and not take for flag, take in zip(batched, takes, strict=True)):
        return NotImplemented
    tensors, attributes = definition.split(values)
    repeated = [
        _repeat(tensor, flag, repeat) if take else tensor
        for tensor, flag, take in zip(tensors, batched, takes, strict=True)
    ]
    return call_in_order(op, definition.in_order(repeated, attributes))


def _is_any(flag: Any) -> bool:
    return any(flag) if isinstance(flag, list) else bool(flag)


def _repeat(value: Any, batched: Any, repeat: Callable[[Any], Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_repeat(item, flag, repeat) for item, flag in zip(value, batched, strict=True)]
    return value if value is None or batched else repeat(value)


def _check_results(
    definition: Definition, returned: Any, size: Any, expected: Sequence[TensorSpec]
) -> None:
    """Updated operands come after the results, and need no check: the op returns what it got."""
    results = definition.results
    several = len(results) + sum(o.mutated for o in definition.operands) != 1
    values = returned if several and isinstance(returned, (tuple, list)) else (returned,)
    if len(values) < len(results):
        raise TypeError(
            f"{definition.name}: vmap: expected {counted(len(results), 'result')}, "
            f"got {describe(returned)}"
        )
    for name, value, spec in zip(results, values, expected, strict=False):
        subject = f"{definition.name}: vmap: result {name!r}"
        if not is_tensor(value):
            raise TypeError(f"{subject}: expected a tensor, got {describe(value)}")
        shape = (size, *spec.shape)
        if tuple(value.shape) != shape:
            raise ValueError(
                f"{subject}: expected [{_sizes(shape)}] with the batch in front, got "
                f"[{_sizes(value.shape)}]; use vmap='sequential' or a callable"
            )
        if dtype(value.dtype) != dtype(spec.dtype):
            raise TypeError(f"{subject}: expected {dtype(spec.dtype)}, got {dtype(value.dtype)}")


def _sizes(shape: Sequence[Any]) -> str:
    return ", ".join(map(str, shape))


def call_in_order(op: DefinedOp, values: Sequence[Any]) -> Any:
    """Calls an op with one value per parameter, in signature order."""
    parameters = op.definition.parameters
    count = sum(not parameter.by_name for parameter in parameters)
    by_name = {p.name: value for p, value in zip(parameters[count:], values[count:], strict=True)}
    return op(*values[:count], **by_name)
