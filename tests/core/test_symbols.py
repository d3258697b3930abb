# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes in conditions: they compute and compare what ints do."""

from __future__ import annotations

import math
import operator
import random
from typing import Any

import pytest

from graphffi._contract.size import Size
from graphffi._contract.symbols import Symbols, UndecidedError


class Symbol(int):
    """A framework's: what is computed of it is one, too."""


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    for _method in (f"__{_name}__", f"__r{_name}__"):
        _compute = getattr(int, _method)
        setattr(Symbol, _method, lambda a, b, compute=_compute: Symbol(compute(a, b)))


def _decide(comparison: Any, a: Any, b: Any) -> bool:
    return bool(comparison(a, b))


def size(value: int) -> Size:
    """One that decides comparisons, and is known where it must be."""
    return Size(Symbols(_decide, int), Symbol(value))


def unknown(value: int) -> Size:
    """One of which nothing but comparisons is known."""

    def fix(_: Any) -> int:
        raise UndecidedError

    return Size(Symbols(_decide, fix), Symbol(value))


DECIDED = [
    *("n / 2 > 1.5", "n / 2 >= 1.5", "n / 3 < 1 / 3", "n / 3 <= 1 / 3", "n / 3 == 1 / 3"),
    *("n / 3 != 1 / 3", "1.5 < n / 2", "n / -2 > -1.5", "n / 2 == 2", "n > 1.5", "n == 2.0"),
    *("n <= 2.5", "n ** 2 > 8", "abs(n - 5) < 2", "divmod(n, 3) == (1, 1)", "bool(n / 2)"),
    *("n % 2 == 0", "min(n, 3) == 3", "n // 2 / 2 > 0.9", "n / 2 > float('nan')", "not n"),
    *("n / 2 < float('inf')", "sum([n, n]) == 6", "+n - True > 3", "max(n / 2, 2) == 2"),
    *("(n << 1) > 7", "~n < -3"),
]
OF_KNOWN_SIZES = [
    *("n * 0.5 > 1.5", "n / 2 + 1 > 2.5", "int(n / 2) > 1", "math.ceil(n / 2) == 2"),
    *("round(n / 4) == 1", "n & 1", "n ^ 1 == 3", "4 / (n + 1) > 1"),
    *("n / (n + 1) > 0.8", "2**n > 8", "math.floor(n / 2) == 1", "n / 2 == n", "n / 7 > n // 7"),
    *("n ** 0.5 > 2", "-(n / 2) < -1", "{4: 1}.get(n, 0)", "[*range(12)][n] > 3"),
]


@pytest.mark.parametrize("text", [*DECIDED, *OF_KNOWN_SIZES])
def test_a_size_is_what_an_int_is(text: str) -> None:
    for n in range(12):
        known = {"math": math, "n": n}
        assert bool(eval(text, known | {"n": size(n)})) == bool(eval(text, known))


@pytest.mark.parametrize("text", DECIDED)
def test_comparisons_need_no_known_size(text: str) -> None:
    for n in range(12):
        assert bool(eval(text, {"n": unknown(n)})) == bool(eval(text, {"n": n}))


@pytest.mark.parametrize("text", OF_KNOWN_SIZES)
def test_all_else_needs_one(text: str) -> None:
    with pytest.raises(UndecidedError):
        eval(text, {"math": math, "n": unknown(5)})


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_a_quotient_is_rounded_as_python_does(name: str) -> None:
    compare, draw = getattr(operator, name), random.Random(0)
    for _ in range(300):
        n, divisor = draw.choice([draw.randrange(2**62), draw.randrange(99)]), draw.randrange(1, 50)
        exact = n / divisor
        for other in (exact, math.nextafter(exact, math.inf), math.nextafter(exact, 0)):
            assert compare(unknown(n) / divisor, other) == compare(exact, other)


def test_a_division_by_zero_is_pythons() -> None:
    with pytest.raises(ZeroDivisionError):
        size(3) / 0
