# SPDX-License-Identifier: Apache-2.0
"""``graphffi bench``: what calls of an op cost, beside the framework's own way to call it."""

from __future__ import annotations

import gc
import statistics
import time
import timeit
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from .._command.progress import Progress
from .._rules.vmap import call_in_order
from ._case import Case, numpy_view
from ._command import targets_of
from ._examine import load_plugins
from ._generate import Generator
from ._guarded import guarded_call
from ._worker import find_op

if TYPE_CHECKING:
    from .._definition.op import Op

_ROUNDS: Final = 9
_SECONDS: Final = 0.02  # of one measurement


@dataclass(frozen=True)
class Contest:
    """Two ways to make the same call.

    Args:
        path: Where: ``torch``, ``torch.compile``, …
        call: Of the op.
        other: The other way; None where a framework has none.
        name: Of that.
    """

    path: str
    call: Callable[[], Any]
    other: Callable[[], Any] | None = None
    name: str = ""


@dataclass(frozen=True)
class Row:
    """A measurement: processor time of a call, in microseconds; medians."""

    op: str
    arguments: str
    path: str
    call: float
    other: float | None = None
    name: str = ""
    ratio: float | None = None  # the median of each round's

    def __str__(self) -> str:
        text = f"  {self.path:<16}{self.call:10.2f} us"
        if self.other is None:
            return text
        return f"{text}   {self.name:<26}{self.other:10.2f} us   ratio {self.ratio:.2f}"


def bench_command(target: str, namespace: str | None, *, frameworks: Sequence[str]) -> list[Row]:
    """Measures the ops that a target names, on the smallest input that each takes.

    Args:
        target: As for `check_command`.
        namespace: Of a library's ops.
        frameworks: Beside NumPy; those that are not installed are left out.

    Raises:
        ValueError: If there is no such op, or an op takes no input that is made for it.
    """
    rows = []
    for at in targets_of("bench", target, namespace):
        op = find_op(at)
        case = _case(op)
        arguments = case.describe(op.definition)
        contests = _contests(op, case, frameworks)
        with Progress(op.name, len(contests), "paths") as progress:
            for i, contest in enumerate(contests):
                progress(i, contest.path)
                rows.append(Row(op.name, arguments, contest.path, **_measured(contest)))
    return rows


def _case(op: Op) -> Case:
    """The smallest row-major one that has elements."""
    refusal: Exception | None = None

    def takes(case: Case) -> bool:
        nonlocal refusal
        try:
            guarded_call(op, case)
        # Kernels and rules refuse inputs that are not theirs with any error.
        except Exception as error:
            refusal = error
            return False
        return True

    for case in Generator(op.definition, takes).cases():
        if case.size and all(v.strides is None and not v.offset for v in case.views()):
            return case
    last = f"; the last one was refused: {refusal}" if refusal else ""
    raise ValueError(f"{op.name}: bench: expected an input that the op takes, got none{last}")


def _contests(op: Op, case: Case, frameworks: Sequence[str]) -> list[Contest]:
    arguments = case.arguments(op.definition, numpy_view)
    found = [Contest("numpy", lambda: call_in_order(op, arguments))]
    for plugin in load_plugins(frameworks):
        found += plugin.contests(op, case)
    return found


def _measured(contest: Contest) -> dict[str, Any]:
    """In turns, so that what disturbs one disturbs both."""
    calls = [call for call in (contest.call, contest.other) if call is not None]
    timers = [timeit.Timer(call, timer=time.process_time) for call in calls]
    counts = [_count(timer) for timer in timers]
    gc.collect()
    rounds = [
        [timer.timeit(count) / count * 1e6 for timer, count in zip(timers, counts, strict=True)]
        for _ in range(_ROUNDS)
    ]
    own = statistics.median(values[0] for values in rounds)
    if contest.other is None:
        return {"call": own}
    return {
        "call": own,
        "other": statistics.median(values[1] for values in rounds),
        "name": contest.name,
        "ratio": statistics.median(values[0] / values[1] for values in rounds),
    }


def _count(timer: timeit.Timer) -> int:
    """The number of calls that take long enough to be measured."""
    timer.timeit(3)
    count = 1
    while timer.timeit(count) < _SECONDS:
        count *= 2
    return count


def lines_of(rows: Sequence[Row]) -> list[str]:
    """A table for people."""
    lines: list[str] = []
    title = ""
    for row in rows:
        if (head := f"{row.op}({row.arguments})") != title:
            title = head
            lines.append(title)
        lines.append(str(row))
    return lines


def facts_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For ``--json``."""
    return [asdict(row) for row in rows]
