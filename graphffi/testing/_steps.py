# SPDX-License-Identifier: Apache-2.0
"""The steps of a check that need no graph compiler: each gives pairs of a kind and a text."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from .._rules.reference import is_narrow
from .._values.nested import flat
from ._case import Case, View, numpy_copy, numpy_view
from ._compare import difference
from ._device import call_on
from ._guarded import Outcome, guarded_call, is_filled, try_call

if TYPE_CHECKING:
    import numpy

    from .._contract.dims import Group
    from .._definition.op import Op
    from ._processes.fresh import FreshProcess

    Problems = Iterator[tuple[str, str]]
    CaseProblems = Iterator[tuple[str, str, Case]]
    Outcomes = Mapping[Case, Outcome]

_NUM_THREADS: Final = 8
_NAME: Final = r"[A-Za-z]\w*"


def call_op(op: Op, case: Case) -> list[numpy.ndarray]:
    """Results and updated operands of a call with arrays of NumPy."""
    return [a.copy() for a in call_on(case.device, op, case.arguments(op.definition, numpy_view))]


def compare(case: Case, outcomes: Outcomes, got: Sequence[numpy.ndarray]) -> Problems:
    """Compares a path's results with those of the kernel alone."""
    outcome = outcomes[case]
    if text := difference(outcome.arrays, got, outcome.names):
        yield "paths differ", text


def op_call(op: Op, case: Case, outcomes: Outcomes) -> Problems:
    """Calls the op on arrays of NumPy: the same results."""
    yield from compare(case, outcomes, call_op(op, case))


def layout(op: Op, case: Case, outcomes: Outcomes) -> Problems:
    """Compares strided operands with row-major copies of them."""
    if all(v.strides is None and not v.offset for v in case.views()):
        return
    expected = call_on(case.device, op, case.arguments(op.definition, numpy_copy))
    outcome = outcomes[case]
    if op.definition.is_updating and any(0 in v.all_strides for v in case.views()):
        return  # elements that share memory
    if text := difference(expected, outcome.arrays, outcome.names):
        yield "layout", f"{text}; expected the result for row-major copies"


def reference(op: Op, case: Case, outcomes: Outcomes) -> Problems:
    """Compares with the op's reference, which computes in float32 at least."""
    import numpy

    definition = op.definition
    assert definition.reference is not None
    outcome = outcomes[case]

    def wide(base: numpy.ndarray, view: View) -> numpy.ndarray:
        array = numpy_copy(base, view)
        return array.astype("float32") if is_narrow(view.dtype) else array

    operands, attributes = case.build(wide), case.values
    if any(is_narrow(view.dtype) for view in case.views()):
        found = flat(definition.reference.call(definition, operands, attributes))
    else:
        specs = definition.infer(case.specs(), attributes)
        found = definition.reference.run(definition, operands, attributes, specs)
    expected = [
        numpy.asarray(one).astype(a.dtype) for one, a in zip(found, outcome.arrays, strict=True)
    ]
    if text := difference(expected, outcome.arrays, outcome.names):
        yield "reference", text


def repeat(op: Op, case: Case, outcomes: Outcomes) -> Problems:
    """Calls twice, and with other bytes in the results before."""
    first = outcomes[case]
    remedy = "declare recompute=False if the kernel draws or counts"
    again = guarded_call(op, case)
    if text := difference(first.arrays, again.arrays, first.names):
        yield "not deterministic", f"{text} in a second call; {remedy}"
        return
    other = guarded_call(op, case, fill=0x5A)
    if text := difference(first.arrays, other.arrays, first.names):
        if is_filled(case):
            yield "unwritten", f"{text}, by what was in the memory before: elements are not written"
        else:
            yield "not deterministic", f"{text} in a third call; {remedy}"
        return
    apart = guarded_call(op, case, zone=0x24)
    if text := difference(first.arrays, apart.arrays, first.names):
        yield "out of bounds", f"{text}, by what lies beside the operands: it reads outside of them"


def order(op: Op, cases: Sequence[Case], outcomes: Outcomes) -> CaseProblems:
    """Calls with other arguments in between, unless the op refuses them."""
    for other in cases:
        try_call(op, replace(other, seed=other.seed + 1))
    for one in cases[:8]:
        again, first = guarded_call(op, one), outcomes[one]
        if text := difference(first.arrays, again.arrays, first.names):
            yield "state", f"{text} after calls with other arguments", one
            return


def fresh(op: Op, cases: Sequence[Case], outcomes: Outcomes, process: FreshProcess) -> CaseProblems:
    """Compares with calls in another order, the first of which is the kernel's first at all."""
    chosen = [c for c in reversed(cases) if c.size > 0][:8]
    for one, got in zip(chosen, process.run(chosen), strict=False):
        if isinstance(got, str):
            yield "state", f"expected what it gives after other calls, got {got}", one
            return
        if text := difference(got, outcomes[one].arrays, outcomes[one].names):
            yield "state", f"{text} after calls with other arguments", one
            return


def split(op: Op, case: Case, outcomes: Outcomes) -> Problems:
    """Compares with calls on halves of each dimension that `dims` leaves free."""
    dims = op.definition.dims
    if dims is None or not case.operands or any(v.strides for v in case.views()):
        return
    for name in _free_names(op):
        yield from _split_along(op, case, outcomes[case], name)


def _free_names(op: Op) -> list[str]:
    dims = op.definition.dims
    assert dims is not None
    groups = (*dims.operands, *dims.results)
    names = {n for g in groups for n in g.names if re.fullmatch(_NAME, n)} - dims.whole
    return sorted(names) + (["..."] if any(g.has_ellipsis for g in groups) else [])


def split_name(op: Op, case: Case, parts: int) -> str | None:
    """A name of `dims` along which a call can be split into so many equal parts."""
    dims = op.definition.dims
    if dims is None or not case.operands or any(v.strides or v.offset for v in case.views()):
        return None
    for name in _free_names(op):
        sizes = set()
        for group, operand in zip(dims.operands, case.operands, strict=True):
            for view in operand if isinstance(operand, tuple) else (operand,):
                axis = None if view is None else axis_of(group, name, len(view.shape))
                if axis is not None:
                    sizes.add(view.shape[axis])
        if sizes and all(size and size % parts == 0 for size in sizes):
            return name
    return None


def _split_along(op: Op, case: Case, whole: Outcome, name: str) -> Problems:
    import numpy

    definition, dims = op.definition, op.definition.dims
    assert dims is not None
    sizes = set()

    def part(array: Any, group: Group, half: int) -> Any:
        if isinstance(array, list):
            return [part(item, group, half) for item in array]
        axis = None if array is None else axis_of(group, name, array.ndim)
        if axis is None:
            return None if array is None else array.copy()
        sizes.add(array.shape[axis])
        middle = array.shape[axis] // 2
        index = [slice(None)] * array.ndim
        index[axis] = slice(None, middle) if half == 0 else slice(middle, None)
        return array[tuple(index)].copy()

    halves = []
    for half in (0, 1):
        operands = case.build(numpy_view)
        parts = [part(a, g, half) for a, g in zip(operands, dims.operands, strict=True)]
        if max(sizes, default=0) < 2:
            return
        halves.append(call_on(case.device, op, case.in_order(definition, parts)))
    groups = [*dims.results]
    for operand, group, value in zip(
        definition.operands, dims.operands, case.operands, strict=True
    ):
        if operand.mutated and value is not None:
            groups += [group] * (len(value) if isinstance(value, tuple) else 1)
    joined = []
    for first, second, group in zip(*halves, groups, strict=True):
        axis = axis_of(group, name, first.ndim)
        joined.append(first if axis is None else numpy.concatenate([first, second], axis))
    if text := difference(whole.arrays, joined, whole.names):
        label = "..." if name == "..." else name
        yield "dims", f"{text} from halves of dimension {label!r}, which dims leaves free"


def axis_of(group: Group, name: str, ndim: int) -> int | None:
    """The place of a name of `dims` in a tensor; for the ellipsis, the first dimension."""
    positions = group.positions(ndim)
    return positions.get("...0" if name == "..." else name)


def threads(op: Op, case: Case, outcomes: Outcomes) -> Problems:
    """Compares calls from several threads at once with calls from one."""
    others = [replace(case, seed=case.seed + i) for i in range(_NUM_THREADS)]
    taken = [other for other in others if other == case or try_call(op, other)]
    cases = [taken[i % len(taken)] for i in range(_NUM_THREADS)]
    expected = [call_op(op, one) for one in cases]
    names = outcomes[case].names
    found: list[str] = []
    begin, cpu_begin = time.monotonic(), time.process_time()
    calls = [0] * _NUM_THREADS

    def is_enough() -> bool:
        # Beside other programs, threads overlap less often: processor time counts.
        used = time.process_time() - cpu_begin
        return used > (1 if sum(calls) > 1000 else 3) or time.monotonic() - begin > 10

    barrier = threading.Barrier(_NUM_THREADS)

    def work(i: int) -> None:
        arguments = cases[i].arguments(op.definition, numpy_view)
        barrier.wait()
        while not found and not is_enough():
            calls[i] += 1
            try:
                if op.definition.is_updating:
                    arguments = cases[i].arguments(op.definition, numpy_view)
                text = difference(expected[i], call_on(case.device, op, arguments), names)
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            if text:
                found.append(text)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(_NUM_THREADS)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that kernels overlap
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.setswitchinterval(interval)
    if found:
        yield "threads", f"{found[0]} with {_NUM_THREADS} threads at once"


def ignored_attributes(
    op: Op, cases: Sequence[Case], outcomes: Outcomes, rejected: Sequence[tuple[Case, str]]
) -> Iterator[tuple[str, Case]]:
    """Attributes of which no value that was tried changes anything, with a case."""
    for i, attribute in enumerate(op.definition.attributes):
        groups: dict[Case, list[Case]] = {}
        for case in [*cases, *(case for case, _ in rejected)]:
            rest = (*case.attributes[:i], None, *case.attributes[i + 1 :])
            groups.setdefault(replace(case, attributes=rest), []).append(case)
        varied = [group for group in groups.values() if len(group) > 1]
        if not varied or any(case not in outcomes for group in varied for case in group):
            continue
        if all(_are_equal([outcomes[case] for case in group]) for group in varied):
            yield attribute.name, varied[0][0]


def _are_equal(found: Sequence[Outcome]) -> bool:
    texts = [[(a.shape, str(a.dtype), a.tobytes()) for a in outcome.arrays] for outcome in found]
    return all(text == texts[0] for text in texts)
