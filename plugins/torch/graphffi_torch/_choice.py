# SPDX-License-Identifier: Apache-2.0
"""Which kernel of an op a call in a graph runs: decided while the graph is traced or lowered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from graphffi.plugin import UndecidedError, decidable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphffi.plugin import Definition, OpKernel


def chosen_kernel(
    definition: Definition,
    operands: Sequence[Any],
    attributes: Sequence[Any],
    device: str,
    *,
    is_guarded: bool = True,
) -> OpKernel:
    """The kernel that a call runs.

    Args:
        definition: Of the op.
        operands: One `TensorSpec`, None or list of specs per operand; sizes may be symbolic.
        attributes: One value per attribute, as rules get them.
        device: Type of the device: see `call_device`.
        is_guarded: Whether decisions on sizes become guards, so that other sizes compile another
            graph. Exported programs have no guards: decisions have to hold for all sizes.

    Raises:
        NotImplementedError: If no kernel fits.
    """
    if not definition.has_choice:
        return definition.candidates[0]
    can_guard = is_guarded and not torch.compiler.is_exporting()
    decide, fix = (_guard, _specialize) if can_guard else (_prove, _known)
    seen = [decidable(values, decide, fix) for values in (operands, attributes)]
    return definition.choose(seen[0], seen[1], device)


def _specialize(size: Any) -> Any:
    is_unknown = isinstance(size, (torch.SymInt, torch.SymFloat)) and not size.node.has_hint()
    return _known(size) if is_unknown else _number(size)


def _known(size: Any) -> Any:
    """The value that a size has in all calls."""
    if not isinstance(size, (torch.SymInt, torch.SymFloat)):
        return size
    node = size.node
    found = node.maybe_as_int() if isinstance(size, torch.SymInt) else node.maybe_as_float()
    if found is None:
        raise UndecidedError
    return found


def _number(size: Any) -> Any:
    return float(size) if isinstance(size, torch.SymFloat) else int(size)


def _guard(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    condition = comparison(a, b)
    is_unknown = isinstance(condition, torch.SymBool) and not condition.node.has_hint()
    return _prove(comparison, a, b) if is_unknown else bool(condition)


def _prove(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    condition = comparison(a, b)
    if not isinstance(condition, torch.SymBool):
        return bool(condition)
    if statically_known_true(condition):
        return True
    negation: Any = torch.sym_not(condition)  # type: ignore[no-untyped-call]
    if statically_known_true(negation):
        return False
    raise UndecidedError
