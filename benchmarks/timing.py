# SPDX-License-Identifier: Apache-2.0
"""Measures calls: contenders take turns, so that a disturbance affects all of them.

Times are processor time of this process, on which other processes have little effect.
"""

from __future__ import annotations

import gc
import statistics
import time
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Contender:
    """One way to make a call; `measure` returns nanoseconds per call, measured once."""

    name: str
    measure: Callable[[], float]


@dataclass(frozen=True)
class Case:
    """Ways to make the same call, graphffi's first."""

    title: str
    contenders: Sequence[Contender]
    unit: str = "ns"
    scale: float = 1.0
    rounds: int = 15


@dataclass(frozen=True)
class Row:
    """One line of the table; `values` has one entry a round."""

    case: str
    name: str
    unit: str
    values: list[float] = field(repr=False)
    ratios: list[float] = field(repr=False)  # graphffi's value / this one, in each round

    def summary(self) -> dict[str, Any]:
        """Medians, and quartiles as the spread."""
        low, ratio, high = quartiles(self.ratios)
        return {
            "case": self.case,
            "name": self.name,
            "unit": self.unit,
            "median": statistics.median(self.values),
            "ratio": ratio,
            "ratio_quartiles": [low, high],
            "rounds": len(self.values),
        }


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def call(statement: str, namespace: dict[str, Any], calls: int = 20_000) -> Callable[[], float]:
    """Measures a statement in a loop."""
    timer = timeit.Timer(statement, globals=namespace, timer=time.process_time)
    timer.timeit(calls)
    return lambda: timer.timeit(calls) / calls * 1e9


def chain(
    build: Callable[[int], Callable[[], Any]], short: int, long: int, calls: int = 300
) -> Callable[[], float]:
    """Measures the cost of one more call in a graph, from programs with `short` and `long` calls.

    Args:
        build: Makes a program with that many calls; running it waits for its result.
        short: Calls in the short program.
        long: Calls in the long program.
        calls: How often each program runs in one measurement.
    """
    programs = [timeit.Timer(build(length), timer=time.process_time) for length in (short, long)]
    for program in programs:
        program.timeit(20)

    def measure() -> float:
        # The fastest of three turns each: a disturbance must not look like a negative cost.
        few, many = (min(p.timeit(calls) for _ in range(3)) for p in programs)
        return (many - few) / calls / (long - short) * 1e9

    return measure


def once(action: Callable[[], Any]) -> Callable[[], float]:
    """Measures by the clock: for actions of milliseconds, also in other processes."""

    def measure() -> float:
        begin = time.perf_counter()
        action()
        return (time.perf_counter() - begin) * 1e9

    return measure


def run(case: Case) -> list[Row]:
    """Measures all contenders, in turns."""
    values: list[list[float]] = [[] for _ in case.contenders]
    gc.collect()
    gc.disable()
    try:
        for _ in range(case.rounds):
            for own, contender in zip(values, case.contenders, strict=True):
                own.append(contender.measure() * case.scale)
    finally:
        gc.enable()
    return [
        Row(
            case.title,
            contender.name,
            case.unit,
            own,
            [a / b for a, b in zip(values[0], own, strict=True)],
        )
        for contender, own in zip(case.contenders, values, strict=True)
    ]
