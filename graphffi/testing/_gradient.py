# SPDX-License-Identifier: Apache-2.0
"""Gradients and tangents against finite differences, along random directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from .._rules.vmap import call_in_order
from .._values.nested import flat
from ._case import Case, numpy_copy

if TYPE_CHECKING:
    import numpy

    from .._definition.op import Op

_FLOATS: Final = ("float32", "float64")
_NUM_DIRECTIONS: Final = 3

Gradients = Callable[..., Sequence[Any]]
"""A framework's function. It gets an op, its arguments, with arrays of NumPy for tensors, the
positions of arrays to differentiate by among all arrays, and a cotangent or None per result. It
gives an array or None per position."""
Tangents = Callable[..., Sequence[Any]]
"""The same, but with a tangent or None (zeros) per position; gives an array or None per result."""


def check_gradient(op: Op, case: Case, gradients: Gradients) -> list[tuple[str, str]]:
    """Compares an op's gradient rule with its kernel; the op updates nothing."""
    point = _Point(op, case)
    found = gradients(op, point.arguments, point.by, point.cotangents)
    problems = []
    for index, gradient in zip(point.by, found, strict=True):
        directions = [point.direction(index) for _ in range(_NUM_DIRECTIONS)]
        wrong = [
            point.difference(index, direction, [] if gradient is None else [(gradient, direction)])
            for direction in directions
        ]
        if all(wrong):
            problems.append(("gradient", f"operand {_name(op, case, index)!r}: {wrong[0]}"))
    return problems


def check_tangent(op: Op, case: Case, tangents: Tangents) -> list[tuple[str, str]]:
    """Compares an op's forward-mode rule with its kernel; the op updates nothing."""
    point = _Point(op, case)
    problems = []
    for index in point.by:
        wrong = []
        for _ in range(_NUM_DIRECTIONS):
            direction = point.direction(index)
            directions = [direction if i == index else None for i in point.by]
            found = tangents(op, point.arguments, point.by, directions)
            pairs = [
                (tangent, cotangent)
                for tangent, cotangent in zip(found, point.cotangents, strict=True)
                if tangent is not None and cotangent is not None
            ]
            wrong.append(point.difference(index, direction, pairs))
        if all(wrong):
            problems.append(("tangent", f"operand {_name(op, case, index)!r}: {wrong[0]}"))
    return problems


class _Point:
    """Arguments, and a cotangent for each result of float32 or float64."""

    def __init__(self, op: Op, case: Case) -> None:
        import numpy

        self._op = op
        self._random = numpy.random.default_rng(case.seed + 1)
        self.arguments = case.arguments(op.definition, numpy_copy)
        self._arrays = [a for a in flat(self.arguments) if isinstance(a, numpy.ndarray)]
        self.by = [i for i, a in enumerate(self._arrays) if a.dtype.name in _FLOATS]
        self.cotangents = [
            self._normal(r) if r.dtype.name in _FLOATS else None
            for r in flat(call_in_order(op, self.arguments))
        ]

    def _normal(self, like: numpy.ndarray) -> numpy.ndarray:
        return self._random.standard_normal(like.shape).astype(like.dtype)

    def direction(self, index: int) -> numpy.ndarray:
        """A random change of an array."""
        return self._normal(self._arrays[index])

    def difference(
        self,
        index: int,
        direction: numpy.ndarray,
        pairs: Sequence[tuple[numpy.ndarray, numpy.ndarray]],
    ) -> str:
        """The disagreement of finite differences, as text; empty if they agree.

        Args:
            index: Of the array that changes.
            direction: Along which it does.
            pairs: Arrays whose products add up to what the rule says of the change.
        """
        import numpy

        array = self._arrays[index]
        is_wide = array.dtype == "float64"
        step = 1e-5 if is_wide else 1e-2
        saved = array.copy()
        values = []
        for sign in (1, -1):
            array[...] = saved + sign * step * direction
            values.append(self._total())
        array[...] = saved
        expected = (values[0] - values[1]) / (2 * step)
        products = [one.astype("float64") * other.astype("float64") for one, other in pairs]
        got = float(sum(product.sum() for product in products))
        size = abs(expected) + float(sum(numpy.abs(product).sum() for product in products))
        noise = 1e-9 if is_wide else 1e-6
        allowed = (1e-5 if is_wide else 3e-2) * size + noise / step * (abs(values[0]) + 1)
        if abs(expected - got) <= allowed:
            return ""
        return f"expected {expected:.6g} along a direction by finite differences, got {got:.6g}"

    def _total(self) -> float:
        import numpy

        return sum(
            float(numpy.vdot(r.astype("float64"), c.astype("float64")))
            for r, c in zip(
                flat(call_in_order(self._op, self.arguments)), self.cotangents, strict=True
            )
            if c is not None
        )


def _name(op: Op, case: Case, index: int) -> str:
    return case.named_views(op.definition)[index][0]
