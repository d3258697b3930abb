# SPDX-License-Identifier: Apache-2.0
"""Gradients against finite differences, along random directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ._case import Case, View, numpy_view
from ._guarded import flat

if TYPE_CHECKING:
    import numpy

    from .._op import Op

_FLOATS: Final = ("float32", "float64")
_NUM_DIRECTIONS: Final = 3

# Called with the op, its arguments, the positions of arrays to differentiate by among all arrays,
# and a cotangent or None per result; gives an array or None per position.
Gradients = Callable[..., Sequence[Any]]


def check_gradient(op: Op, case: Case, gradients: Gradients) -> list[tuple[str, str]]:
    """Compares an op's gradient rule with its kernel.

    Args:
        op: The op, which has a rule and updates nothing.
        case: The arguments.
        gradients: Of a framework.
    """
    import numpy

    random = numpy.random.default_rng(case.seed + 1)
    arguments = case.arguments(op.definition, _copied)
    arrays = [a for a in flat(arguments) if isinstance(a, numpy.ndarray)]
    by = [i for i, a in enumerate(arrays) if a.dtype.name in _FLOATS]
    results = flat(op(*arguments))
    cotangents = [
        random.standard_normal(r.shape).astype(r.dtype) if r.dtype.name in _FLOATS else None
        for r in results
    ]
    found = gradients(op, arguments, by, cotangents)
    problems = []
    for index, opt_gradient in zip(by, found, strict=True):
        is_zero = opt_gradient is None
        gradient = numpy.zeros_like(arrays[index]) if is_zero else opt_gradient
        wrong = [
            _problem(op, arguments, arrays[index], gradient, cotangents, random)
            for _ in range(_NUM_DIRECTIONS)
        ]
        if all(wrong):
            name = _name(op, case, index)
            problems.append(("gradient", f"operand {name!r}: {wrong[0]}"))
    return problems


def _copied(base: numpy.ndarray, view: View) -> numpy.ndarray:
    copied: numpy.ndarray = numpy_view(base, view).copy(order="C")
    return copied


def _problem(
    op: Op,
    arguments: list[Any],
    array: numpy.ndarray,
    gradient: numpy.ndarray,
    cotangents: Sequence[Any],
    random: numpy.random.Generator,
) -> str:
    """The difference along one direction, in words; empty for none."""
    import numpy

    is_wide = array.dtype == "float64"
    step = 1e-5 if is_wide else 1e-2
    direction = random.standard_normal(array.shape).astype(array.dtype)
    saved = array.copy()
    values = []
    for sign in (1, -1):
        array[...] = saved + sign * step * direction
        values.append(_total(op, arguments, cotangents))
    array[...] = saved
    expected = (values[0] - values[1]) / (2 * step)
    got = float(numpy.vdot(gradient.astype("float64"), direction.astype("float64")))
    size = abs(expected) + float(numpy.abs(gradient.astype("float64") * direction).sum())
    noise = 1e-9 if is_wide else 1e-6
    allowed = (1e-5 if is_wide else 3e-2) * size + noise / step * (abs(values[0]) + 1)
    if abs(expected - got) <= allowed:
        return ""
    return f"expected {expected:.6g} along a direction by finite differences, got {got:.6g}"


def _total(op: Op, arguments: list[Any], cotangents: Sequence[Any]) -> float:
    import numpy

    results = flat(op(*arguments))
    return sum(
        float(numpy.vdot(r.astype("float64"), c.astype("float64")))
        for r, c in zip(results, cotangents, strict=True)
        if c is not None
    )


def _name(op: Op, case: Case, index: int) -> str:
    names = []
    for operand, value in zip(op.definition.operands, case.operands, strict=True):
        if isinstance(value, tuple):
            names += [f"{operand.name}[{i}]" for i in range(len(value))]
        elif value is not None:
            names.append(operand.name)
    return names[index]
