# SPDX-License-Identifier: Apache-2.0
"""Rules of gradients that the frameworks derive from an op's reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._frameworks.framework import framework_of
from .._values.nested import flat
from .derivatives import Jvp, Vjp, is_floating

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._definition.definition import Definition
    from .derivatives import Saved


def backward_rule(definition: Definition) -> Vjp | None:
    """The way back through a call of an op: the rule that is given, or that of the reference."""
    if definition.vjp is not None or not definition.gradient or definition.reference is None:
        return definition.vjp
    return _reference_vjp(definition)


def forward_rule(definition: Definition) -> Jvp | None:
    """The rule of forward mode: the one that is given, or that of the reference."""
    if definition.jvp is not None or not definition.gradient or definition.reference is None:
        return definition.jvp
    return _reference_jvp(definition)


def _reference_vjp(definition: Definition) -> Vjp:
    """The gradient rule of an op that has a reference."""

    def backward(saved: Saved, *cotangents: Any) -> Any:
        operands = _operands(definition, saved)
        primals = _floating(operands)
        wanted = [i for i, c in enumerate(cotangents) if c is not None]
        framework: Any = framework_of(definition.name, primals)

        def function(*values: Any) -> tuple[Any, ...]:
            results = _call(definition, saved, operands, values)
            return tuple(results[i] for i in wanted)

        found = framework.vjp(function, primals, [cotangents[i] for i in wanted])
        gradients = _with_leaves(operands, found, None)
        return gradients[0] if len(gradients) == 1 else tuple(gradients)

    return Vjp(backward, tuple(operand.name for operand in definition.operands))


def _reference_jvp(definition: Definition) -> Jvp:
    """The forward-mode rule of an op that has a reference."""

    def forward(saved: Saved, *tangents: Any) -> Any:
        operands = _operands(definition, saved)
        primals = _floating(operands)
        framework: Any = framework_of(definition.name, primals)

        def function(*values: Any) -> tuple[Any, ...]:
            return tuple(_call(definition, saved, operands, values))

        found = framework.jvp(function, primals, _floating(tangents))
        return found[0] if len(found) == 1 else tuple(found)

    return Jvp(forward, tuple(operand.name for operand in definition.operands))


def _operands(definition: Definition, saved: Saved) -> list[Any]:
    return [getattr(saved, operand.name) for operand in definition.operands]


def _call(
    definition: Definition, saved: Saved, operands: Sequence[Any], values: Sequence[Any]
) -> list[Any]:
    """The results for other values of the operands that have gradients."""
    assert definition.reference is not None
    attributes = [getattr(saved, attribute.name) for attribute in definition.attributes]
    changed = _with_leaves(operands, values, lambda tensor: tensor)
    return definition.reference.call(definition, changed, attributes)


def _floating(operands: Sequence[Any]) -> list[Any]:
    """The tensors that have gradients, lists flattened."""
    return [tensor for tensor in flat(operands) if is_floating(tensor.dtype)]


def _with_leaves(
    operands: Sequence[Any], leaves: Sequence[Any], other: Callable[[Any], Any] | None
) -> list[Any]:
    """The structure of operands with other tensors in the place of those that have gradients.

    Args:
        operands: Tensors, None and lists.
        leaves: As many as `_floating` gives.
        other: What takes the place of other tensors; None: None does.
    """
    rest = iter(leaves)

    def one(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [one(item) for item in value]
        if value is not None and is_floating(value.dtype):
            return next(rest)
        return None if other is None else other(value)

    return [one(operand) for operand in operands]
