# SPDX-License-Identifier: Apache-2.0
"""Whether operands on the host can be updated: writable, and with memory of their own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from . import _core
from ._describe import describe

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_WORK: Final = 10_000  # of NumPy's search for a shared element, which is exponential


def check_updated(subject: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Refuses operands that a kernel can't update without changing others.

    Args:
        subject: The op's or function's name.
        inputs: The tensors that the kernel only reads, by name.
        outputs: Those that it updates.

    Raises:
        ValueError: If one is read-only, or shares memory with another or within itself.
    """
    others = [(f"input {name!r}", tensor) for name, tensor in inputs.items()]
    for name, tensor in outputs.items():
        expected = f"{subject}: output {name!r}: expected"
        flags = getattr(tensor, "flags", None)
        if flags is not None and not flags.writeable:
            raise ValueError(
                f"{expected} a writable array to update in place, got read-only {describe(tensor)}"
            )
        if not getattr(flags, "forc", False) and _is_expanded(tensor):
            raise ValueError(
                f"{expected} elements that do not overlap, got an expanded array; pass a copy"
            )
        for other, read in others:
            if _share_memory(tensor, read):
                raise ValueError(
                    f"{expected} memory of its own, got memory shared with {other}; pass a copy of "
                    "one of them"
                )
        others.append((f"output {name!r}", tensor))


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
