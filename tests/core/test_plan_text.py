# SPDX-License-Identifier: Apache-2.0
"""Plans that pass ints computed of sizes."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import graphffi
from graphffi._contract.plan import PlanTemplate
from tests.families import computed

numbers = itertools.count()
X, Y = np.ones((4, 6), np.float32), np.ones((2, 5), np.float32)


def seen(value: int, out: Any) -> None:
    np.from_dlpack(out)[...] = value


def define(plan: str, schema: str = "(Tensor x, int n=3, bool b=True)", **options: Any) -> Any:
    """An op whose result is the value that the plan passes."""
    return graphffi.define_op(
        f"plantext::op{next(numbers)}",
        schema=f"{schema} -> Tensor",
        kernel=seen,
        plan=f"{plan}, out",
        infer=lambda *_: graphffi.empty([1], "int64"),
        **options,
    )


def value_of(text: str, x: Any = X, **options: Any) -> int:
    return int(define(text, **options)(x)[0])


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_are_what_python_gives(seed: int) -> None:
    op, texts = computed.define(f"numpy{seed}", seed)
    for x, y, more in (
        (X, Y, ()),
        (np.ones((0, 7), np.float32), np.ones((1, 3), np.float32), (-5, False)),
        (np.ones((1, 300), np.float32)[:, ::3], np.ones((2, 0), np.float32), (2**40,)),
    ):
        np.testing.assert_array_equal(op(x, y, *more), computed.expected(texts, x, y, *more))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x.numel", 24), ("x.ndim", 2), ("x.shape[0]", 4), ("x.shape[-1]", 6), ("-n", -3),
        ("-(-x.numel // 128)", 1), ("(x.numel + 127) // 128", 1), ("4 * 32", 128), ("rows", 4),
        ("rows % 3 - cols", -5), ("min(n, rows, 2) + b", 3), ("max(x.ndim, n)", 3), ("-7 // 2", -4),
        ("-7 % -4", -3), ("(n - 5) * -1", 2), (" n*n ", 9), ("9223372036854775807 - n", 2**63 - 4),
    ],
)  # fmt: skip
def test_an_expression_is_computed_at_each_call(text: str, value: int) -> None:
    assert value_of(text, dims="[rows] [cols] -> [k]") == value


def test_lists_have_expressions_among_their_items() -> None:
    lists: list[Any] = []

    def keep(x: Any, values: Any, out: Any) -> None:
        lists.append([value if isinstance(value, int) else list(value) for value in values])

    op = graphffi.define_op(
        "plantext::lists",
        schema="(Tensor x, int n) -> Tensor",
        kernel=keep,
        plan="x, (n, (x.numel + n) * 2, (x.shape[0] + n), x.ndim, ()), out",
        infer=lambda x, n: graphffi.like(x),
    )
    op(X, 5)
    assert lists == [[5, 58, [9], 2, []]]


def test_tensors_without_elements_and_without_dimensions_have_sizes() -> None:
    assert value_of("x.numel * 2 + x.ndim", np.float32(1).reshape(())) == 2
    assert value_of("(x.numel + 7) // 8", np.ones((3, 0), np.float32)) == 0
    assert value_of("x.shape[1]", np.ones((0, 5), np.float32)) == 5


@pytest.mark.parametrize(
    ("text", "x", "got"),
    [
        ("n // x.shape[0]", X[:0], "plan: expected an int of 64 bits, got 3 // 0"),
        ("n % (x.shape[0] - 4)", X, "plan: expected an int of 64 bits, got 3 % 0"),
        ("n + 9223372036854775805", X, "got 3 + 9223372036854775805"),
        ("-9223372036854775807 - n", X, "got -9223372036854775807 - 3"),
        ("n * 4611686018427387904", X, "got 3 * 4611686018427387904"),
        ("(-9223372036854775807 - 1) // (n - 4)", X, "got -9223372036854775808 // -1"),
        (
            "x.shape[2]",
            X,
            "operand 'x': expected a dimension 2 for the plan, got float32[4, 6] on cpu",
        ),
        ("x.shape[-1]", X[0, 0].reshape(()), "a dimension -1 for the plan, got float32[] on cpu"),
    ],
)
def test_what_cannot_be_computed_is_an_error_of_the_call(text: str, x: Any, got: str) -> None:
    op = define(text)
    with pytest.raises(ValueError, match=rf"^{op.name}: .*{re.escape(got)}$"):
        op(x)


ARITHMETIC = (
    "ints of numel, ndim and shape[0] of tensors that each call has, of int and bool parameters, "
    "and of +, -, *, //, %, min and max, got "
)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "z + 1",
            "expected a name of x, n, b, s, f, o, xs, ns, rows, _, m or a data type, ",
        ),
        ("out.numel", "expected a name of x, n,"),
        ("x.size", "an attribute of shape, ndim, numel, dtype, device, got 'size'"),
        ("x.numel()", "a call of like, empty, min, max, len, got 'x.numel()'"),
        ("len(xs)", f"{ARITHMETIC}'len(xs)'"),
        ("xs[0].numel", f"{ARITHMETIC}'xs[0].numel'"),
        ("m + 1", f"{ARITHMETIC}'xs[0].shape[-1]'"),
        ("o.numel", f"{ARITHMETIC}'o.numel'"),
        ("x.shape", f"{ARITHMETIC}'x.shape'"),
        ("x.shape[n]", f"{ARITHMETIC}'x.shape[n]'"),
        ("x.shape[0:1]", f"{ARITHMETIC}'x.shape[0:1]'"),
        ("x.shape[100]", f"{ARITHMETIC}'x.shape[100]'"),
        ("x.ndim[0]", f"{ARITHMETIC}'x.ndim[0]'"),
        ("n.shape[0]", f"{ARITHMETIC}'n.shape[0]'"),
        ("ns[0] + 1", f"{ARITHMETIC}'ns[0]'"),
        ("x + 1", f"{ARITHMETIC}'x'"),
        ("f * 2", f"{ARITHMETIC}'f'"),
        ("s % 2", f"{ARITHMETIC}'s'"),
        ("n * 2.0", f"{ARITHMETIC}'2.0'"),
        ("n + True", f"{ARITHMETIC}'True'"),
        ("n + 9223372036854775808", f"{ARITHMETIC}'9223372036854775808'"),
        ("n / 2", "expected calls, sizes and arithmetic, got 'Div'"),
        ("n ** 2", "expected calls, sizes and arithmetic, got"),
        ("n << 2", "expected an item at character 3, got an unexpected '<'"),
        ("n if x.ndim else 1", f"{ARITHMETIC}'n if x.ndim else 1'"),
        ("n > x.ndim", f"{ARITHMETIC}'n > x.ndim'"),
        (
            "not n",
            "expected a known name, got 'not'; known names: out, x, o, xs, n, b, s, f, ns, m",
        ),
        ("min(n)", f"{ARITHMETIC}'min(n)'"),
        ("min(*ns, n)", f"{ARITHMETIC}'*ns'"),
        ("max(n, n, key=n)", f"{ARITHMETIC}'max(n, n, key=n)'"),
        ("empty([n], x.dtype)", f"{ARITHMETIC}'empty([n], x.dtype)'"),
        ("numel(x) + 1", "a call of like, empty, min, max, len, got 'numel(x)'"),
        ("floordiv(n, 2)", "a call of like, empty, min, max, len, got 'floordiv(n, 2)'"),
        ("n //", "expected an item at character"),
        ("n + " * 3000 + "n", "an expression that Python's parser takes, got one with too many"),
    ],
)
def test_another_expression_is_refused_where_the_op_is_defined(text: str, error: str) -> None:
    schema = "(Tensor x, int n, bool b, str s, float f, Tensor? o, Tensor[] xs, int[] ns)"
    with pytest.raises(ValueError, match=rf"^plantext::op\d+: plan '.*{re.escape(error)}"):
        define(text, schema=schema, dims="[rows] [_], _, [_] [m] -> [_]")


def test_a_hundred_terms_are_computed() -> None:
    assert value_of(" + ".join(["n"] * 100)) == 300
    assert value_of("1 + (" * 60 + "n" + ")" * 60) == 63


def test_a_parameter_may_be_called_like_a_function() -> None:
    assert value_of("size + numel * 2", schema="(Tensor x, int size=1, int numel=5)") == 11
    assert value_of("stream - 1", schema="(Tensor x, int stream=1)") == 0
    with pytest.raises(ValueError, match="expected the function min, got the parameter 'min'"):
        define("min(min, 2)", schema="(Tensor x, int min=1)")


def test_updated_operands_have_sizes() -> None:
    op = graphffi.define_op(
        "plantext::updated",
        schema="(Tensor(a!) x, Tensor y) -> ()",
        kernel=lambda x, n: np.from_dlpack(x).__setitem__(..., n),
        plan="x, x.numel * 10 + y.numel",
    )
    assert op(np.zeros(3, np.float32), Y).tolist() == [40] * 3


def test_a_plan_without_expressions_is_written_as_before() -> None:
    plans = {
        'x, n, b, "a, (x.numel", -1, 1e-6, -inf, (x), (n, 2), None, true, out': "i0, n0, "
        'bool(n1), "a, (x.numel", -1, 1e-6, -inf, (i0), (n0, 2), None, true, o0',
        "*inputs, stream, *outputs": "i0, stream, o0",
        "out, x.numel": "o0, int(numel(i0))",
        "out, b + x.shape[-2] // 2": "o0, int(add(n1, floordiv(size(i0, -2), 2)))",
    }
    for text, canonical in plans.items():
        op = graphffi.define_op(
            f"plantext::written{next(numbers)}",
            schema="(Tensor x, int n=3, bool b=True) -> Tensor",
            kernel=lambda *_: None,
            plan=text,
            infer=lambda x, n, b: graphffi.like(x),
        )
        definition = op.definition
        template = PlanTemplate.make(definition, definition.kernels[0], (-1,), (-1, -1))
        assert template.plan == canonical


def test_a_plan_that_passes_an_expression_for_a_tensor_does_not_fit_the_kernel() -> None:
    path = computed.kernel().partition("::")[0]
    assert graphffi.load_module(path)
    with pytest.raises(TypeError, match=r"value 0: expected DLTensor\*, got an int"):
        graphffi.define_op(
            "plantext::unfit",
            schema="(Tensor x, Tensor y) -> Tensor",
            kernel=computed.kernel(),
            plan="x.numel, (1, 2), 3, out",
            infer=lambda x, y: graphffi.like(x),
        )
