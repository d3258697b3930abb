# SPDX-License-Identifier: Apache-2.0
"""Checks that operands on the host can be updated: writable, and with memory of their own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from .. import _core
from .._values.describe import describe

if TYPE_CHECKING:
    from .._contract.plan import CanonicalCall

_MAX_WORK: Final = 10_000  # of NumPy's search for a shared element, which is exponential


def check_updated(call: CanonicalCall, num_results: int) -> None:
    """Refuses operands that a kernel can't update without changing others.

    Args:
        call: Its tensors are on the host.
        num_results: How many results it allocates.

    Raises:
        ValueError: If one is read-only, or shares memory with another or within itself.
    """
    tensors = [*call.inputs, *call.mutated]
    for i in range(len(call.inputs), len(tensors)):
        problem = _problem(tensors[i])
        if problem is None:
            shared = next((k for k in range(i) if _share_memory(tensors[i], tensors[k])), None)
            if shared is None:
                continue
            name = name_of(call, num_results, shared)
            problem = (
                f"memory of its own, got memory shared with {name}; pass a copy of one of them"
            )
        raise ValueError(f"{call.subject}: {name_of(call, num_results, i)}: expected {problem}")


def name_of(call: CanonicalCall, num_results: int, i: int) -> str:
    """The name in errors of tensor `i` of the inputs and the updated ones."""
    inputs, _, outputs = call.names.partition(" -> ")
    listed, letter, place = inputs, "i", i
    if i >= len(call.inputs):
        listed, letter, place = outputs, "o", i - len(call.inputs) + num_results
    name = listed.split(", ")[place] if call.names else f"{letter}{place}"
    return f"operand {name!r}"


def _problem(tensor: Any) -> str | None:
    """Why a tensor can't be updated whatever the others are."""
    flags = getattr(tensor, "flags", None)
    if flags is not None and not flags.writeable:
        return f"a writable array to update in place, got read-only {describe(tensor)}"
    if not getattr(flags, "forc", False) and _is_expanded(tensor):
        return "elements that do not overlap, got an expanded array; pass a copy"
    return None


def _is_expanded(tensor: Any) -> bool:
    sizes = list(zip(tensor.shape, tensor.strides, strict=True))
    return all(size > 0 for size, _ in sizes) and any(s > 1 and not t for s, t in sizes)


def _share_memory(a: Any, b: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or isinstance(a, _core.Tensor) or isinstance(b, _core.Tensor):
        (begin, end), (other_begin, other_end) = _extent(a), _extent(b)
        return begin < other_end and other_begin < end
    try:
        return bool(numpy.may_share_memory(a, b) and numpy.shares_memory(a, b, max_work=_MAX_WORK))
    except RuntimeError:  # TooHardError
        return True


def _extent(tensor: Any) -> tuple[int, int]:
    """The addresses that a tensor's elements are within; none for a tensor without elements."""
    if 0 in tensor.shape:
        return 0, 0
    seen = _core.from_dlpack(tensor)
    kind = seen.dtype
    steps = [(size - 1) * t for size, t in zip(seen.shape, seen.strides, strict=True)]
    first, last = (sum(s for s in steps if s * sign > 0) for sign in (-1, 1))
    bits = kind.bits * kind.lanes
    return seen.data_ptr + first * bits // 8, seen.data_ptr + ((last + 1) * bits + 7) // 8
