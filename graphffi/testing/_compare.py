# SPDX-License-Identifier: Apache-2.0
"""Compares two results, but for rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy

_TOLERANCES: Final = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 1e-4,
    "complex64": 1e-4,
    "float16": 2e-2,
    "bfloat16": 5e-2,
    # The distance of neighbours: results that are rounded to these are seldom further apart.
    "float8_e3m4": 2**-4,
    **dict.fromkeys(("float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz"), 2**-3),
    "float8_e4m3b11fnuz": 2**-3,
    **dict.fromkeys(("float8_e5m2", "float8_e5m2fnuz"), 2**-2),
    "float8_e8m0fnu": 0.0,  # powers of two: no others are near
}


def difference(
    expected: Sequence[numpy.ndarray], got: Sequence[numpy.ndarray], names: Sequence[str]
) -> str:
    """The first difference, in words; empty for none."""
    if len(expected) != len(got):
        return f"expected {len(expected)} arrays, got {len(got)}"
    for name, one, other in zip(names, expected, got, strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return (
                f"{name}: expected {one.dtype}{list(one.shape)}, got "
                f"{other.dtype}{list(other.shape)}"
            )
        if one.tobytes() != other.tobytes() and (text := _first(one, other)):
            return f"{name}: {text}"
    return ""


def _first(one: numpy.ndarray, other: numpy.ndarray) -> str:
    import numpy

    if one.dtype == bool:  # of any byte but 0, NumPy says True
        one, other = one.view("uint8"), other.view("uint8")
    tolerance = _TOLERANCES.get(one.dtype.name)
    if tolerance is None:
        wrong = one != other
    else:
        wide = "complex128" if one.dtype.kind == "c" else "float64"
        a, b = one.astype(wide), other.astype(wide)
        finite = numpy.abs(a[numpy.isfinite(a)])
        scale = min(float(finite.max(initial=0.0)), 1e30)
        with numpy.errstate(all="ignore"):
            close = numpy.abs(a - b) <= tolerance * (numpy.abs(a) + 0.01 * scale)
        wrong = ~(close | (a == b) | (numpy.isnan(a) & numpy.isnan(b)))
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in numpy.argwhere(wrong)[0])
    return f"expected {one[at]} at {list(at)}, got {other[at]}; {int(wrong.sum())} of {one.size}"
