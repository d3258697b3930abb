# SPDX-License-Identifier: Apache-2.0
"""Shape rules, traced into programs."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest

import graphffi
from graphffi.plugin import Definition, trace_shape_rule

FLOAT32 = (2, 32, 1)
CPU = (1, 0)


def definition(rule: Any, schema: str = "(Tensor x, Tensor y) -> Tensor") -> Definition:
    name = f"test_shape::op{len(_defined)}"
    _defined.append(name)
    return graphffi.define_op(name, schema=schema, kernel="no.kernel", infer=rule).definition


_defined: list[str] = []


def tensor(*shape: int, dtype: tuple[int, int, int] = FLOAT32) -> Any:
    return shape, dtype, CPU


def answer(rule: Any, *shapes: tuple[int, ...], trace: bool = True) -> tuple[list[int], list[str]]:
    """Sizes of the one result, and the program's lines."""
    text = trace_shape_rule(definition(rule))([tensor(*shape) for shape in shapes], [], [], trace)
    results, _, program = text.partition("program\n")
    sizes = run(results.splitlines())
    assert sizes is not None
    return sizes, program.splitlines()


def run(program: list[str], *shapes: tuple[int, ...]) -> list[int] | None:
    """What a program says of a call, computed here: None where it is not for the call."""
    values = [size for shape in shapes for size in shape]
    operators = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "floordiv": lambda a, b: a // b,
        "mod": lambda a, b: a % b,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
    }
    sizes: list[int] = []
    for line in program:
        word, *numbers = line.split()
        operands = [int(number) for number in numbers]
        if word == "const":
            values.append(operands[0])
        elif word in operators:
            values.append(int(operators[word](values[operands[0]], values[operands[1]])))
        elif word in ("true", "false"):
            if bool(values[operands[0]]) != (word == "true"):
                return None
        elif word == "result":
            sizes = [values[index] for index in operands[6:]]
    return sizes


def shaped(*sizes: Any) -> Any:
    return graphffi.empty(sizes, "float32")


def _or_one(function: Any) -> Any:
    try:
        return function()
    except Exception:
        return 1


RULES: dict[str, Any] = {
    "like": lambda x, y: graphffi.like(x),
    "arithmetic": lambda x, y: shaped(
        x.shape[0] + 1, 200 - 2 * y.shape[0] - x.shape[1], -(-x.size(0) // 4)
    ),
    "powers and bits": lambda x, y: shaped(
        x.shape[0] ** 2, (x.shape[0] + 127) & ~127, x.shape[1] << 3, x.shape[1] >> 1, 5 ^ x.shape[0]
    ),
    "numel": lambda x, y: shaped(x.numel, math.prod(y.shape)),
    "divmod": lambda x, y: shaped(*divmod(x.shape[0], 4), 7 % x.shape[0], 100 // x.shape[1]),
    "min and max": lambda x, y: shaped(min(x.shape[0], 4), max(x.shape[1], y.shape[0])),
    "branch": lambda x, y: shaped(1) if x.shape[0] > 4 else shaped(x.shape[0], 2),
    "equal shapes": lambda x, y: shaped(1) if x.shape == y.shape else shaped(2),
    "range": lambda x, y: shaped(*(i for i in range(x.shape[0]) if i % 2 and i < 20)),
    "float": lambda x, y: shaped(int(x.shape[0] * 1.5), math.ceil(x.shape[1] / 2)),
    "quotients": lambda x, y: shaped(
        int(x.shape[0] / y.shape[0]), math.ceil(9 / x.shape[1]), round(x.shape[0] / y.shape[0] / 2)
    ),
    "failing": lambda x, y: shaped(_or_one(lambda: int(x.shape[0] / (y.shape[0] - 1)))),
    "beyond 64 bits": lambda x, y: shaped(
        _or_one(lambda: x.shape[0] * 2**64 >> 64), x.shape[0] >> 70, (x.shape[0] << 70) // 2**69
    ),
    "look-up": lambda x, y: shaped({2: 10, 6: 20}.get(x.shape[0], 30)),
    "abs and bool": lambda x, y: shaped(
        abs(x.shape[0] - x.shape[1]),
        (x.shape[0] > 3) + 1,
        bool(x.shape[1]) + 1,
        abs(x.shape[0] > 3) | +(x.shape[0] > 4) | 2,
    ),
    "isinstance": lambda x, y: shaped(*(d for d in x.shape if isinstance(d, int))),
    "gcd": lambda x, y: shaped(math.gcd(x.shape[0], 4), x.shape[1].bit_length()),
    "slice": lambda x, y: shaped(*y.shape[: x.shape[0] - 1], *sorted(x.shape)),
}
SHAPES = [
    ((2, 3), (2, 3)),
    ((6, 3), (1, 9)),
    ((6, 3), (6, 3)),
    ((7, 1), (4, 4)),
    ((128, 2), (3, 3)),
]


@pytest.mark.parametrize("name", RULES)
def test_programs_say_what_rules_say_or_that_they_are_not_for_a_call(name: str) -> None:
    rule = RULES[name]
    for traced in SHAPES:
        sizes, program = answer(rule, *traced)
        assert program, name
        assert run(program, *traced) == sizes
        for shapes in SHAPES:
            expected, _ = answer(rule, *shapes, trace=False)
            assert run(program, *shapes) in (expected, None)


@pytest.mark.parametrize("name", ["like", "arithmetic", "powers and bits", "numel", "divmod"])
def test_a_rule_without_decisions_has_one_program_for_all_sizes(name: str) -> None:
    _, program = answer(RULES[name], *SHAPES[0])
    for shapes in SHAPES:
        assert run(program, *shapes) == answer(RULES[name], *shapes, trace=False)[0]


def test_a_decision_makes_a_program_for_one_side_of_it() -> None:
    _, small = answer(RULES["branch"], (2, 3), (2, 3))
    assert run(small, (3, 9), (2, 3)) == [3, 2]
    assert run(small, (5, 9), (2, 3)) is None


def test_a_failing_check_raises_the_error_of_the_rule() -> None:
    def rule(x: Any, y: Any) -> Any:
        graphffi.check(x.shape[0] == y.shape[0], f"operand 'y': expected {x.shape[0]} rows")
        return graphffi.like(x)

    ask = trace_shape_rule(definition(rule))
    for _ in range(9):
        with pytest.raises(ValueError, match=r"^test_shape::op\d+: operand 'y': expected 2 rows$"):
            ask([tensor(2), tensor(3)], [], [], True)
    assert "program" in ask([tensor(2), tensor(2)], [], [], True)


TABLE = {"3": 30, "4": 40}


@pytest.mark.parametrize(
    "lookup",
    [
        lambda n: TABLE[str(n)],
        lambda n: TABLE[f"{n}"],
        lambda n: TABLE[f"{n + 1 - 1:d}"],
        lambda n: {3: 30, 4: 40}[n],
    ],
)
def test_keys_and_text_of_sizes_are_conditions(lookup: Any) -> None:
    def rule(x: Any, y: Any) -> Any:
        return shaped(lookup(x.shape[0]), y.shape[0])

    sizes, program = answer(rule, (3,), (5,))
    assert sizes == [30, 5]
    assert run(program, (3,), (9,)) == [30, 9]
    assert run(program, (4,), (5,)) is None
    assert answer(rule, (4,), (5,))[0] == [40, 5]


def test_a_cached_helper_of_a_rule_keeps_no_sizes() -> None:
    @functools.cache
    def doubled(n: int) -> int:
        return n * 2

    def rule(x: Any, y: Any) -> Any:
        return shaped(doubled(x.shape[0]), y.shape[0])

    assert answer(rule, (3,), (5,))[0] == [6, 5]
    assert answer(rule, (3,), (8,))[0] == [6, 8]
    assert all(type(doubled(n)) is int for n in (3, 4))


def test_a_size_that_a_rule_keeps_is_refused_in_other_calls() -> None:
    kept: list[Any] = []

    def rule(x: Any, y: Any) -> Any:
        kept.append(x.shape[0])
        return shaped(kept[0], y.shape[0])

    assert answer(rule, (3,), (5,))[0] == [3, 5]
    with pytest.raises(
        RuntimeError, match=r"^test_shape::op\d+: shape rule: expected sizes and attributes of "
    ):
        answer(rule, (4,), (5,))


def attributes_of(rule: Any, *values: Any) -> list[str]:
    schema = (
        "(Tensor x, int n, float f, bool b, str s, dtype d, Device w, int[] ns, float[] fs)"
        " -> Tensor"
    )
    ask = trace_shape_rule(definition(rule, schema))
    return str(ask([tensor(2)], [], list(values), True)).partition("program\n")[2].splitlines()


@pytest.mark.parametrize(
    ("rule", "same"),
    [
        (lambda x, n, *_: graphffi.like(x), {2}),
        (lambda x, n, f, *_: shaped(int(f)), {1, 2}),
        (lambda x, n, f, b, s, *_: shaped(len(s)), {2, 3}),
        (lambda x, n, f, b, s, *_: shaped({"a": 1, "bc": 2}[s]), {2, 3}),
        (lambda x, n, f, b, s, d, *_: graphffi.like(x, dtype=d), {2, 4}),
        (lambda x, n, f, b, s, d, w, *_: graphffi.like(x, device=w), {2, 5}),
        (lambda x, *rest: shaped(1 if rest[-1][1] > 1 else 2), {2, 9}),
        (lambda x, n, f, b, s, *_: shaped(2 if isinstance(s, str) else 3), {2, 3}),
        (lambda x, n, f, b, s, *_: graphffi.check(f > 0, f"{s}") or graphffi.like(x), {1, 2, 3}),
    ],
)
def test_programs_are_for_the_attributes_that_a_rule_looked_at(rule: Any, same: set[int]) -> None:
    lines = attributes_of(rule, 4, 1.5, True, "bc", (0, 8, 1), (2, 1), [5, 6], [0.5, 2.0])
    assert {int(line.split()[1]) for line in lines if line.startswith("same")} == same


@pytest.mark.parametrize("index", [1, 3])
def test_an_attribute_that_a_rule_keeps_is_refused_in_other_calls(index: int) -> None:
    kept: list[Any] = []

    def rule(x: Any, *attributes: Any) -> Any:
        kept.append(attributes[index])
        return shaped(1 if kept[0] else 2)

    with pytest.raises(RuntimeError, match=r"^test_shape::op\d+: shape rule: expected sizes and "):
        attributes_of(rule, 4, 1.5, True, "bc", (0, 8, 1), (2, 1), [5, 6], [0.5, 2.0])


def test_int_attributes_are_values() -> None:
    lines = attributes_of(
        lambda x, n, *rest: shaped(n, rest[-2][1] * 2), 4, 1.5, True, "", FLOAT32, CPU, [5, 6], []
    )
    assert lines[-1].split()[6:] == ["2", "1", "5"]  # x has value 0, n 1, ns 2 and 3; const is 4


def test_a_rule_that_can_not_be_traced_is_asked_each_time(caplog: Any) -> None:
    calls = 0

    def rule(x: Any, y: Any) -> Any:
        nonlocal calls
        calls += 1
        if type(x.shape[0]) is not int:
            raise RuntimeError("no symbols, please")
        return graphffi.like(x)

    ask = trace_shape_rule(definition(rule))
    with caplog.at_level("INFO", "graphffi.kernels"):
        for _ in range(6):
            assert ask([tensor(2), tensor(2)], [], [], True) == "const 2\nresult 2 32 1 1 0 1 0\n"
    assert calls == 6 + 3  # traces were tried three times
    assert len(caplog.messages) == 3
    assert "run in each call, as they can't be traced: RuntimeError('no sym" in caplog.messages[0]


def test_updated_operands_come_after_the_others() -> None:
    schema = "(Tensor(a!) cache, Tensor? absent, Tensor[] xs) -> Tensor"
    ask = trace_shape_rule(
        definition(lambda cache, absent, xs: shaped(cache.shape[0], xs[1].shape[0]), schema)
    )
    text = ask([None, [tensor(3), tensor(4)]], [tensor(5)], [], True)
    results = "const 5\nconst 4\nresult 2 32 1 1 0 2 0 1\n"
    assert text == f"{results}program\nresult 2 32 1 1 0 2 2 1\n"


@pytest.mark.parametrize("size", [-1, 1.5, "3", None])
def test_sizes_are_ints_that_are_not_negative(size: Any) -> None:
    for trace in (True, False):
        with pytest.raises(ValueError, match="result 'out': expected sizes of 0 or more, got"):
            answer(lambda x, y: shaped(size), (1,), (1,), trace=trace)


def test_a_size_that_was_divided_says_how_to_divide() -> None:
    with pytest.raises(ValueError, match=r"got \(1.5,\); divide sizes with //"):
        answer(lambda x, y: shaped(1.5), (1,), (1,), trace=False)
