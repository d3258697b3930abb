# SPDX-License-Identifier: Apache-2.0
"""Steps of a check that look at what calls leave behind: memory, and the state after an error."""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from .._rules.vmap import call_in_order
from .._values.nested import flat
from ._case import Case, numpy_view
from ._compare import difference
from ._device import call_on
from ._guarded import guarded_call

if TYPE_CHECKING:
    from .._definition.op import Op
    from ._steps import Outcomes, Problems

_NUM_CALLS: Final = 64  # of a round
_NUM_ROUNDS: Final = 6  # the first of which fills caches
_LEAST_BYTES: Final = 16  # a call, less than which malloc does not give


class _MallInfo(ctypes.Structure):
    """The structure that `mallinfo2` of glibc returns."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost",
    )]  # fmt: skip


def leaks(op: Op, case: Case, outcomes: Outcomes) -> Problems:
    """Repeats a call: it leaves no memory of the host behind."""
    if case.device != "cpu":
        return  # CUDA and PyTorch keep memory for later calls
    arguments = case.arguments(op.definition, numpy_view)
    used = [_after_calls(lambda: call_in_order(op, arguments)) for _ in range(_NUM_ROUNDS)][1:]
    for i, (unit, least) in enumerate((("bytes", _LEAST_BYTES), ("Python objects", 1))):
        growth = min(later[i] - earlier[i] for earlier, later in itertools.pairwise(used))
        if growth >= least * _NUM_CALLS:
            yield (
                "leak",
                f"expected no memory left behind, got {growth // _NUM_CALLS} {unit} a call",
            )
            return


def _after_calls(call: Callable[[], Any]) -> tuple[int, int]:
    """Bytes that malloc has given, and Python's objects."""
    for _ in range(_NUM_CALLS):
        call()
    gc.collect()
    return _bytes_in_use(), sys.getallocatedblocks()


def _bytes_in_use() -> int:
    """0 where the C library does not say."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        return 0
    mallinfo.restype = _MallInfo
    found = mallinfo()
    return int(found.uordblks + found.hblkhd)


def errors(op: Op, case: Case, outcomes: Outcomes, good: Case) -> Problems:
    """Repeats a call that raises: with the same error, and no trace of it afterwards."""
    import numpy

    operands = case.build(numpy_view)
    before = [numpy.array(tensor) for tensor in flat(operands)]
    texts = [_error_of(op, case, operands) for _ in range(2)]
    if texts[0] != texts[1]:
        yield "unclean error", f"expected the same error again, got {texts[0]}, then {texts[1]}"
    may_change = {id(tensor) for tensor in op.definition.updated(operands)}
    for tensor, old in zip(flat(operands), before, strict=True):
        if id(tensor) not in may_change and tensor.tobytes() != old.tobytes():
            yield "unclean error", "expected operands as they were after an error, got others"
    again, first = guarded_call(op, good), outcomes[good]
    if text := difference(first.arrays, again.arrays, first.names):
        yield "unclean error", f"{text} in a call after one that raised"


def _error_of(op: Op, case: Case, operands: list[Any]) -> str:
    try:
        call_on(case.device, op, case.in_order(op.definition, operands))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "a result"
