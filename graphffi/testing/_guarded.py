# SPDX-License-Identifier: Apache-2.0
"""A call whose results and operands lie between guard zones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .. import _core
from .._contract.plan import passes_results
from .._contract.spec import TensorSpec
from .._kernels.op_kernel import call_device
from .._values.tensor import numpy_dtype
from ._case import Case, View, numpy_view, row_major
from ._device import arrays_of, bytes_of, call_on, copy_to_device

if TYPE_CHECKING:
    import numpy

    from .._definition.definition import Definition
    from .._definition.op import Op

_ZONE: Final = 4096  # bytes before and after
_ZONE_BYTE: Final = 0xDB
# Errors of debug mode, and the kinds of findings that they are.
_DEBUG_ERRORS: Final = {
    "expected no view of it after the call": "kept view",
    "expected writes within its": "out of bounds",
    "expected the call to leave it unchanged": "undeclared write",
}


@dataclass
class Outcome:
    """The result of a call.

    Args:
        arrays: Results, then updated operands.
        names: Theirs.
        problems: Pairs of a finding's kind and text.
    """

    arrays: list[numpy.ndarray]
    names: list[str]
    problems: list[tuple[str, str]]


@dataclass
class _Guarded:
    """An array in the middle of a buffer."""

    buffer: numpy.ndarray  # of bytes
    base: numpy.ndarray
    array: numpy.ndarray
    zone: int
    tensor: Any  # what kernels get: the array, or the same in a copy of the buffer
    opt_copy: Any = None  # on another device

    def fetch(self) -> None:
        """Reads the copy back; ends the process if the device does not work any more."""
        if self.opt_copy is not None:
            self.buffer[:] = bytes_of(self.opt_copy)

    def stray(self) -> str:
        """The number of bytes of the zones that were written, in words; empty for none."""
        zones = (("before its beginning", self.buffer[:_ZONE]), ("after its end", self._end()))
        counts = [(int((zone != self.zone).sum()), where) for where, zone in zones]
        return " and ".join(f"{n} bytes {where}" for n, where in counts if n)

    def _end(self) -> numpy.ndarray:
        return self.buffer[_ZONE + self.base.nbytes :]


def guard(base: numpy.ndarray, view: View, zone: int = _ZONE_BYTE) -> _Guarded:
    """A copy of a flat array between zones of a byte, and a view of it."""
    import numpy

    buffer = numpy.full(2 * _ZONE + max(base.nbytes, 1), zone, "uint8")
    middle = buffer[_ZONE : _ZONE + base.nbytes].view(base.dtype)
    middle[:] = base
    array = numpy_view(middle, view)
    if view.device == "cpu":
        return _Guarded(buffer, middle, array, zone, array)
    return _Guarded(buffer, middle, array, zone, *copy_to_device(buffer, _ZONE, view))


def kind_of(error: Exception) -> str | None:
    """The kind of finding that an error of a call is; None for an input that is refused."""
    if getattr(error, "kind", "") == "InternalError":
        return "internal error"
    found = [kind for sign, kind in _DEBUG_ERRORS.items() if sign in str(error)]
    return found[0] if found and type(error) is RuntimeError else None


def try_call(op: Op, case: Case) -> Outcome | None:
    """The outcome of a call with elements that the op may refuse; None if it does."""
    try:
        return guarded_call(op, case)
    # Rules and kernels are the user's, and refuse an input with any error.
    except Exception as error:
        if kind_of(error) is not None:
            raise
        return None


def is_filled(case: Case) -> bool:
    """True if `guarded_call` gives the kernel the results' memory."""
    return all(v.all_strides == row_major(v.shape) for v in case.views())


def guarded_call(op: Op, case: Case, fill: int = 0xA5, zone: int = _ZONE_BYTE) -> Outcome:
    """Calls an op's kernel as NumPy arrays do, and looks at what it wrote over `fill`, if filled.

    Operands lie between zones of a byte.

    Raises:
        Exception: What the rule or the kernel raises.
    """
    definition = op.definition
    guarded: list[_Guarded] = []

    def make(base: numpy.ndarray, view: View) -> Any:
        guarded.append(guard(base, view, zone))
        return guarded[-1].tensor

    operands = case.build(make)
    before = [g.base.copy() for g in guarded]
    call = _call_kernel if is_filled(case) else _call_op  # which copies what is not row-major
    try:
        arrays, results = call(op, case, operands, fill)
    finally:
        for one in guarded:
            one.fetch()
    for one in results:
        one.fetch()
    on_host = {id(one.tensor): one.array for one in (*guarded, *results)}
    problems = [
        ("out of bounds", f"result {name!r}: expected writes within it, got {stray}")
        for name, result in zip(definition.results, results, strict=False)
        if (stray := result.stray())
    ]
    names = [f"result {name!r}" for name in definition.results]
    names += _updated_names(definition, case)
    problems += _operand_problems(definition, case, guarded, before)
    return Outcome([on_host.get(id(a), a).copy() for a in arrays], names, problems)


def _call_kernel(
    op: Op, case: Case, operands: list[Any], fill: int
) -> tuple[list[numpy.ndarray], list[_Guarded]]:
    """Results and updated operands; the results' buffers."""
    definition = op.definition
    specs = definition.infer(case.specs(), case.values)
    device = call_device(case.specs(), specs)
    chosen = definition.choose(case.specs(), case.values, device)
    workspace = definition.workspace_bytes(chosen, case.specs(), case.values)
    call = definition.canonical(chosen, operands, case.values, workspace)
    results = [_result(spec, fill, case.device) for spec in specs]
    passes = passes_results(call.plan, len(results))
    fresh: list[Any] = [r.tensor if passes else None for r in results]
    outputs = [*fresh, *call.mutated]
    numbers = (list(call.ints), list(call.floats), list(call.strs))
    kernel = _core.resolve_kernel(call.func)
    returned = _core.call_plan(kernel, call.plan, call.inputs, outputs, *numbers, call.subject)
    arrays = fresh if passes else _returned(returned, specs, case.device)
    return [*arrays, *call.mutated], results


def _call_op(
    op: Op, case: Case, operands: list[Any], _: int
) -> tuple[list[numpy.ndarray], list[_Guarded]]:
    return call_on(case.device, op, case.in_order(op.definition, operands)), []


def _result(spec: TensorSpec, fill: int, device: str) -> _Guarded:
    import numpy

    kind = numpy_dtype(str(spec.dtype))
    shape = tuple(int(size) for size in spec.shape)
    base = numpy.full(math.prod(shape) * kind.itemsize, fill, "uint8").view(kind)
    return guard(base, View(str(spec.dtype), shape, row_major(shape), device=device))


def _returned(returned: Any, specs: Sequence[TensorSpec], device: str) -> list[numpy.ndarray]:
    import numpy

    arrays = [numpy.array(array) for array in arrays_of(device, returned)]
    shapes = [(a.shape, str(a.dtype)) for a in arrays]
    expected = [(tuple(s.shape), str(s.dtype)) for s in specs]
    if shapes != expected:
        raise ValueError(f"shape rule: expected what the kernel returns, {shapes}, got {expected}")
    return arrays


def _updated_names(definition: Definition, case: Case) -> list[str]:
    views = case.named_views(definition)
    return [f"operand {name!r}" for name, _, is_mutated in views if is_mutated]


def _operand_problems(
    definition: Definition,
    case: Case,
    guarded: Sequence[_Guarded],
    before: Sequence[numpy.ndarray],
) -> list[tuple[str, str]]:
    problems = []
    views = case.named_views(definition)
    for (name, view, is_mutated), operand, old in zip(views, guarded, before, strict=True):
        if stray := operand.stray():
            text = f"operand {name!r}: expected no writes outside of it, got {stray}"
            problems.append(("out of bounds", text))
        new = operand.base
        if is_mutated:  # what lies between its elements has to stay
            new = new.copy()
            numpy_view(new, view)[...] = numpy_view(old, view)
        if new.tobytes() != old.tobytes():
            where = "between its elements" if is_mutated else "in it, which mutates= does not name"
            text = f"operand {name!r}: expected no writes {where}, got some"
            problems.append(("undeclared write", text))
    return problems
