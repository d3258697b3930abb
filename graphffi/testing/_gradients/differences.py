# SPDX-License-Identifier: Apache-2.0
"""Gradients and tangents against finite differences, along random directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..._rules.vmap import call_in_order
from ..._values.nested import flat
from .._case import Case
from .._guarded import Outcome
from .lifted import DIFFERENTIABLE, LiftedOp

if TYPE_CHECKING:
    import numpy

    from ..._definition.op import Op

_NUM_DIRECTIONS: Final = 3
_NUM_SMALL: Final = 6  # cases, beside those that differ from others in a respect

Gradients = Callable[..., Sequence[Any]]
"""A framework's function. It gets an op, its arguments, with arrays of NumPy for tensors, the
positions of arrays to differentiate by among all arrays, and a cotangent or None per result. It
gives an array or None per position."""
Tangents = Callable[..., Sequence[Any]]
"""The same, but with a tangent or None (zeros) per position; gives an array or None per result."""


@dataclass(frozen=True)
class _Precision:
    """The steps and tolerances of finite differences in a data type.

    Args:
        step: Of the coarser one of two differences.
        tolerance: Relative, of a rule.
        noise: Relative, of results.
    """

    step: float
    tolerance: float
    noise: float


_WIDE: Final = _Precision(2e-5, 1e-5, 1e-9)
_SINGLE: Final = _Precision(2e-2, 3e-2, 1e-6)
_PRECISIONS: Final = {
    "float64": _WIDE, "complex128": _WIDE, "float32": _SINGLE, "complex64": _SINGLE,
    "float16": _Precision(2**-4, 0.1, 2**-11), "bfloat16": _Precision(2**-3, 0.15, 2**-8),
}  # fmt: skip


def differentiable(cases: Sequence[Case], outcomes: Mapping[Case, Outcome]) -> list[Case]:
    """Cases whose gradients finite differences can tell, the exact and small ones first.

    Each attribute has each of its values in one, each operand each of its data types; optional
    operands are absent in one, lists have each of their lengths.
    """
    usable = [
        case
        for case in cases
        if case.size
        and all(view.strides is None for view in case.views())
        and any(view.dtype in DIFFERENTIABLE for view in case.views())
        and _are_finite(outcomes[case])
    ]
    usable.sort(key=lambda case: (_precision(case, outcomes[case]).step, case.size))
    chosen: dict[Any, Case] = {}
    for case in usable:
        for place in enumerate(map(repr, (*case.attributes, *map(_kinds, case.operands)))):
            chosen.setdefault(place, case)
    return list(dict.fromkeys([*chosen.values(), *usable[:_NUM_SMALL]]))


def _kinds(operand: Any) -> Any:
    if isinstance(operand, tuple):
        return [view.dtype for view in operand]
    return operand and operand.dtype


def _are_finite(outcome: Outcome) -> bool:
    import numpy

    found = [a for a in outcome.arrays if a.dtype.name in DIFFERENTIABLE]
    return bool(found) and all(numpy.isfinite(array).all() for array in found)


def _precision(case: Case, outcome: Outcome) -> _Precision:
    """The one of the coarsest data type: kernels may compute in it."""
    kinds = [view.dtype for view in case.views()] + [a.dtype.name for a in outcome.arrays]
    found = [_PRECISIONS[kind] for kind in kinds if kind in _PRECISIONS]
    return max(found, key=lambda precision: precision.step)


def check_gradient(
    op: Op, case: Case, outcome: Outcome, gradients: Gradients
) -> list[tuple[str, str]]:
    """Compares an op's gradient rule with its kernel; the op updates nothing."""
    point = _Point(op, case, outcome)
    found = gradients(point.op, point.op.arguments, point.by, point.cotangents)
    problems = []
    for index, gradient in zip(point.by, found, strict=True):
        told = []
        for _ in range(_NUM_DIRECTIONS):
            direction = point.direction(index)
            pairs = [] if gradient is None else [(gradient, direction)]
            told.append(point.difference(index, direction, pairs))
        problems += _problems("gradient", _name(op, case, index), told)
    return problems


def check_tangent(
    op: Op, case: Case, outcome: Outcome, tangents: Tangents
) -> list[tuple[str, str]]:
    """Compares an op's forward-mode rule with its kernel; the op updates nothing."""
    point = _Point(op, case, outcome)
    problems = []
    for index in point.by:
        told = []
        for _ in range(_NUM_DIRECTIONS):
            direction = point.direction(index)
            directions = [direction if i == index else None for i in point.by]
            found = tangents(point.op, point.op.arguments, point.by, directions)
            pairs = [
                (tangent, cotangent)
                for tangent, cotangent in zip(found, point.cotangents, strict=True)
                if tangent is not None
            ]
            told.append(point.difference(index, direction, pairs))
        problems += _problems("tangent", _name(op, case, index), told)
    return problems


def _problems(kind: str, name: str, told: Sequence[str | None]) -> list[tuple[str, str]]:
    """One, if the rule is wrong along all directions that tell something, and these are most."""
    texts = [text for text in told if text is not None]
    is_wrong = 2 * len(texts) > len(told) and all(texts)
    return [(kind, f"operand {name!r}: {texts[0]}")] if is_wrong else []


class _Point:
    """Arguments, and a cotangent for each result that has gradients."""

    def __init__(self, op: Op, case: Case, outcome: Outcome) -> None:
        import numpy

        self._random = numpy.random.default_rng(case.seed + 1)
        self._precision = _precision(case, outcome)
        self.op = LiftedOp(op, case)
        self._arrays = [a for a in flat(self.op.arguments) if isinstance(a, numpy.ndarray)]
        self.by = [i for i, view in enumerate(case.views()) if view.dtype in DIFFERENTIABLE]
        results = self._results()
        self.cotangents = [self._normal(result) for result in results]
        products = _products(zip(results, self.cotangents, strict=True))
        self._total = _sum(products)
        self._noise = self._precision.noise * (_norm(products) + 1)

    def _normal(self, like: numpy.ndarray) -> numpy.ndarray:
        return self._random.standard_normal(like.shape).astype(like.dtype)

    def _results(self) -> list[numpy.ndarray]:
        lifted: Any = self.op
        return flat(call_in_order(lifted, self.op.arguments))

    def direction(self, index: int) -> numpy.ndarray:
        """A random change of an array."""
        return self._normal(self._arrays[index])

    def difference(
        self,
        index: int,
        direction: numpy.ndarray,
        pairs: Sequence[tuple[numpy.ndarray, numpy.ndarray]],
    ) -> str | None:
        """The disagreement of finite differences, as text; empty if they agree.

        Args:
            index: Of the array that changes.
            direction: Along which it does.
            pairs: Arrays whose products add up to what the rule says of the change.

        Returns:
            None where finite differences are too far from each other to tell anything.
        """
        step = self._precision.step / 2
        coarse, _ = self._slope(index, direction, 2 * step)
        expected, bend = self._slope(index, direction, step)
        noise, doubt = self._noise / step, max(abs(coarse - expected), bend)
        if not doubt <= abs(expected) / 2 + noise:  # a kink, a pole, or no number
            return None
        products = _products(pairs)
        got = _sum(products)
        allowed = self._precision.tolerance * (abs(expected) + _norm(products)) + noise + doubt
        if abs(expected - got) <= allowed:
            return ""
        return f"expected {expected:.6g} along a direction by finite differences, got {got:.6g}"

    def _slope(self, index: int, direction: numpy.ndarray, step: float) -> tuple[float, float]:
        """The slope along a direction, and half of its change from one side to the other."""
        array = self._arrays[index]
        saved = array.copy()
        totals = []
        for sign in (1, -1):
            array[...] = saved + sign * step * direction
            totals.append(_sum(_products(zip(self._results(), self.cotangents, strict=True))))
        array[...] = saved
        one, other = totals
        return (one - other) / (2 * step), abs(one - 2 * self._total + other) / (2 * step)


def _products(pairs: Iterable[tuple[numpy.ndarray, numpy.ndarray]]) -> list[numpy.ndarray]:
    return [one.astype("float64") * other.astype("float64") for one, other in pairs]


def _sum(arrays: Sequence[numpy.ndarray]) -> float:
    return float(sum(array.sum() for array in arrays))


def _norm(arrays: Sequence[numpy.ndarray]) -> float:
    return math.sqrt(sum((array**2).sum() for array in arrays))


def _name(op: Op, case: Case, index: int) -> str:
    return case.named_views(op.definition)[index][0]
