# SPDX-License-Identifier: Apache-2.0
"""Ops with several kernels: which one a call runs, and what is refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphffi
from tests.core.array_calls import calling, compiled, ones, value

numbers = itertools.count()


def filling(value: float) -> Callable[[Any, Any], None]:
    """A kernel of which each value makes another."""

    def kernel(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = value

    return kernel


def define(**options: Any) -> graphffi.Op:
    return graphffi.define_op(
        options.pop("name", f"add_kernel::op{next(numbers)}"),
        schema=options.pop("schema", "(Tensor x, int n=0) -> Tensor"),
        infer=lambda x, n: graphffi.like(x),
        **options,
    )


def add(op: graphffi.Op, value: float, **options: Any) -> None:
    op.add_kernel(filling(value), plan="x, out", name=f"k{value:g}", **options)


def test_the_first_kernel_that_fits_runs(arrays: Any) -> None:
    op = define()
    add(op, 1, when=lambda x, n: x.shape[0] > 4)
    add(op, 2, when=lambda x, n: x.shape[0] > 2)
    add(op, 3)
    add(op, 4, when=lambda x, n: x.shape[0] == 1)
    for _ in range(2):
        assert [value(op(ones(arrays, n))) for n in (5, 4, 3, 2, 1)] == [1, 2, 2, 3, 3]


def test_a_kernel_of_the_definition_is_the_first(arrays: Any) -> None:
    op = define(kernel=filling(1), plan="x, out")
    add(op, 2)
    assert value(op(ones(arrays, 2))) == 1


def test_conditions_may_look_at_attributes(arrays: Any) -> None:
    op = define()
    add(op, 1, when=lambda x, n: n > 4)
    add(op, 2)
    assert [value(op(ones(arrays, 2), n)) for n in (5, 4, 6)] == [1, 2, 1]


def test_devices_choose(arrays: Any) -> None:
    op = define()
    add(op, 1, device="cuda")
    add(op, 2, device="cpu")
    assert value(op(ones(arrays, 2))) == 2


def test_a_kernel_that_is_added_later_is_seen_by_compiled_code(arrays: Any) -> None:
    op = define()
    add(op, 1, when=lambda x, n: x.shape[0] > 2)
    function = compiled(arrays, calling(op))
    assert value(function(ones(arrays, 3))) == 1
    with pytest.raises(NotImplementedError):
        op(ones(arrays, 2))
    add(op, 2)
    assert [value(function(ones(arrays, n))) for n in (3, 2)] == [1, 2]


def test_each_kernel_has_its_own_plan(arrays: Any) -> None:
    def no_input(out: Any) -> None:
        np.from_dlpack(out)[...] = 1

    def all_of_it(n: int, out: Any, x: Any) -> None:
        np.from_dlpack(out)[...] = n + np.from_dlpack(x)

    op = define()
    op.add_kernel(no_input, plan="out", when=lambda x, n: n == 0)
    op.add_kernel(all_of_it, plan="n, out, x")
    assert [value(op(ones(arrays, 2), n)) for n in (0, 7)] == [1, 8]


def test_a_call_that_no_kernel_fits_names_all_and_why(arrays: Any) -> None:
    op = define()
    add(op, 1, device="cuda")
    add(op, 2, dtypes={"x": ("float16", "int32")})
    add(op, 3, when=lambda x, n: x.shape[0] > 4)
    text = (
        re.escape(
            f"{op.name}: kernels: expected one that fits the call, got 'k1': expected device cuda, "
            "got cpu; 'k2': expected float16 or int32 for operand 'x', got float32; 'k3': expected "
            "its condition lambda (test_add_kernel.py:"
        )
        + r"\d+\) to hold, got a call for which it does not; add one with add_kernel(\n|$)"
    )
    for function in (op, compiled(arrays, calling(op))):
        with pytest.raises(NotImplementedError, match=text):
            function(ones(arrays, 3))


def test_an_op_without_kernels_says_so(arrays: Any) -> None:
    op = define()
    with pytest.raises(NotImplementedError, match="got an op without kernels; add one with"):
        op(ones(arrays, 3))


def test_the_same_kernel_again_is_fine() -> None:
    op = define()
    kernel = filling(1)
    for _ in range(2):
        op.add_kernel(kernel, plan="x, out", device="cpu")
    assert [k.name for k in op.definition.kernels] == ["cpu.kernel"]


def test_another_kernel_of_that_name_is_refused() -> None:
    op = define()
    add(op, 1)
    with pytest.raises(ValueError, match=r"add_kernel: expected the kernel 'k1' .* another plan;"):
        op.add_kernel(filling(1), plan="out, x", name="k1")
    with pytest.raises(ValueError, match=r"another kernel code, when; pass another name=, or over"):
        op.add_kernel(filling(2), plan="x, out", name="k1", when=lambda x, n: True)
    assert len(op.definition.kernels) == 1


def test_the_definition_again_keeps_what_was_added() -> None:
    op = define(name="add_kernel::again")
    add(op, 1)
    rule = op.definition.rule
    again = graphffi.define_op(op.name, schema="(Tensor x, int n=0) -> Tensor", infer=rule)
    assert again is op
    assert len(op.definition.kernels) == 1


def test_an_override_drops_what_was_added(arrays: Any) -> None:
    op = define(name=f"add_kernel::override_{arrays.name}")
    add(op, 1)
    assert value(op(ones(arrays, 2))) == 1
    define(name=op.name, kernel=filling(5), plan="x, out", override=True)
    assert value(op(ones(arrays, 2))) == 5


def test_a_digest_covers_each_kernel() -> None:
    op = define()
    digests = [op.definition.digest]
    for options in ({}, {"device": "cpu"}, {"when": lambda x, n: n == 1}):
        op.add_kernel("add_kernel.function", plan="x, out", name=f"k{len(digests)}", **options)
        digests.append(op.definition.digest)
    assert len(set(digests)) == 4


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"when": 1}, TypeError, "add_kernel: when: expected a callable, got 1"),
        ({"device": "cuda:1"}, ValueError, "expected a type of devices, such as 'cuda', got"),
        ({"dtypes": "float32"}, TypeError, "dtypes: expected data types by operand, got 'float32'"),
        ({"dtypes": {"y": "int8"}}, ValueError, "expected names of operands, got 'y'; operands: x"),
        ({"plan": "y"}, ValueError, "plan 'y': expected a known name, got 'y'"),
        ({"workspace": -1}, ValueError, "workspace: expected bytes"),
        ({"device": "gpus"}, ValueError, "add_kernel: device: expected one of cpu, cuda"),
        ({"dtypes": {"x": "half"}}, TypeError, "add_kernel: dtypes: operand 'x': dtype: expected"),
        ({"plan": 1}, TypeError, "plan: expected a str, got int 1"),
        ({"name": 1}, TypeError, "name: expected a str, got int 1"),
        ({"name": "a\0b"}, ValueError, r"name: expected printable text, got 'a\x00b'"),
        ({"name": "\udc80"}, ValueError, r"name: expected printable text, got '\udc80'"),
        ({"plan": "x\0"}, ValueError, r"plan: expected printable text, got 'x\x00'"),
        ({"dtypes": {"x": ()}}, ValueError, "operand 'x': expected data types, got none"),
    ],
)
def test_wrong_options_are_refused_and_change_nothing(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    op = define()
    with pytest.raises(error, match=re.escape(text)):
        op.add_kernel("add_kernel.function", **options)
    assert op.definition.kernels == ()


def test_options_of_a_kernel_need_one() -> None:
    with pytest.raises(ValueError, match="expected kernel= with options of a kernel"):
        define(plan="x, out")


def test_explain_says_which_kernel_runs_and_why_no_other(arrays: Any) -> None:
    op = define()
    assert op.explain(ones(arrays, 2)) == f"{op.name} has no kernels"
    add(op, 1, device="cuda")
    add(op, 2)
    add(op, 3)
    lines = [line.partition("): ")[2] for line in op.explain(ones(arrays, 2)).splitlines()]
    assert lines == ["expected device cuda, got cpu", "runs", "fits, too, but was added later"]


def test_a_forced_kernel_runs_until_the_block_ends(arrays: Any) -> None:
    op = define()
    add(op, 1)
    add(op, 2, when=lambda x, n: x.shape[0] > 2)
    function = compiled(arrays, calling(op))
    assert value(function(ones(arrays, 3))) == 1
    with op.use_kernel("k2"):
        assert value(op(ones(arrays, 3))) == value(function(ones(arrays, 3))) == 2
        with pytest.raises(NotImplementedError, match="expected to run kernel 'k2', got 'k2': exp"):
            op(ones(arrays, 2))
        assert "expected to run kernel 'k2'" in op.explain(ones(arrays, 3))
    assert value(op(ones(arrays, 3))) == value(function(ones(arrays, 3))) == 1


def test_blocks_that_force_kernels_may_end_in_any_order(arrays: Any) -> None:
    op = define()
    for number in (1, 2, 3):
        add(op, number)
    first, second = op.use_kernel("k2"), op.use_kernel("k3")
    first.__enter__(), second.__enter__()  # in two threads, for example
    first.__exit__(None, None, None)
    assert value(op(ones(arrays, 1))) == 3
    second.__exit__(None, None, None)
    assert value(op(ones(arrays, 1))) == 1


def test_an_op_that_is_replaced_in_a_block_runs_its_new_kernel(arrays: Any) -> None:
    op = define(name=f"add_kernel::in_block_{arrays.name}")
    for number in (1, 2):
        add(op, number)
    with op.use_kernel("k1"):
        with op.use_kernel("k2"):
            define(name=op.name, kernel=filling(3), plan="x, out", override=True)
            assert value(op(ones(arrays, 1))) == 3
        assert value(op(ones(arrays, 1))) == 3
    assert value(op(ones(arrays, 1))) == 3


def test_an_unknown_kernel_is_not_forced() -> None:
    op = define()
    add(op, 1)
    with pytest.raises(ValueError, match="use_kernel: expected one of 'k1', got 'k2'"):
        with op.use_kernel("k2"):
            pass


def test_the_environment_forces_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHFFI_KERNELS", "add_kernel::other=k1, add_kernel::forced=k2")
    op = define(name="add_kernel::forced")
    add(op, 1)
    text = "run kernel 'k2', got an unknown name; known kernels: 'k1'"
    with pytest.raises(NotImplementedError, match=f"{text}$"):
        op(np.ones(2, np.float32))
    add(op, 2)
    assert value(op(np.ones(2, np.float32))) == 2
    for text in ("forced", "add_kernel::forced=", "=k2", "add_kernel:forced=k2"):
        monkeypatch.setenv("GRAPHFFI_KERNELS", f"add_kernel::other=k1,{text}")
        with pytest.raises(ValueError, match=r"GRAPHFFI_KERNELS: expected namespace::op=kernel, …"):
            define(name="add_kernel::not_forced")
