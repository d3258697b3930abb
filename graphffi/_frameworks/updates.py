# SPDX-License-Identifier: Apache-2.0
"""Checks that operands on the host can be updated: writable, and with memory of their own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .. import _core
from .._values.describe import describe, is_numpy_scalar

if TYPE_CHECKING:
    from .._contract.plan import CanonicalCall


def check_updated(call: CanonicalCall, num_results: int) -> None:
    """Refuses operands that a kernel can't update without changing others.

    Args:
        call: Its tensors are on the host.
        num_results: How many results it allocates.

    Raises:
        ValueError: If one is read-only, or shares memory with another or within itself.
    """
    tensors = [*call.inputs, *call.mutated]
    seen = [_seen(tensor) for tensor in tensors] if call.mutated else []
    for i in range(len(call.inputs), len(tensors)):
        problem = _problem(tensors[i], seen[i])
        if problem is None:
            shared = next((k for k in range(i) if _core.share_memory(seen[i], seen[k])), None)
            if shared is None:
                continue
            name = name_of(call, num_results, shared)
            problem = (
                f"memory of its own, got memory shared with {name}; pass a copy of one of them"
            )
        raise ValueError(f"{call.subject}: {name_of(call, num_results, i)}: expected {problem}")


def _seen(tensor: Any) -> _core.Tensor:
    """The memory of a tensor; of a number of NumPy, that of a copy."""
    if is_numpy_scalar(tensor):
        tensor = sys.modules["numpy"].asarray(tensor)
    return _core.from_dlpack(tensor)


def name_of(call: CanonicalCall, num_results: int, i: int) -> str:
    """The name in errors of tensor `i` of the inputs and the updated ones."""
    inputs, _, outputs = call.names.partition(" -> ")
    listed, letter, place = inputs, "i", i
    if i >= len(call.inputs):
        listed, letter, place = outputs, "o", i - len(call.inputs) + num_results
    name = listed.split(", ")[place] if call.names else f"{letter}{place}"
    return f"operand {name!r}"


def _problem(tensor: Any, seen: _core.Tensor) -> str | None:
    """Why a tensor can't be updated whatever the others are."""
    flags = getattr(tensor, "flags", None)
    if flags is not None and not flags.writeable:
        return f"a writable array to update in place, got read-only {describe(tensor)}"
    if _core.overlaps_itself(seen):
        return (
            "elements that do not overlap, got an array whose strides have them share memory; "
            "pass a copy"
        )
    return None
