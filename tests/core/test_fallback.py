# SPDX-License-Identifier: Apache-2.0
"""References where no kernel fits: in eager code and in graphs of every framework."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphffi
from tests.core.array_calls import compiled

pytest.importorskip("array_api_compat")

numbers = itertools.count()


def define(**options: Any) -> graphffi.Op:
    """An op whose kernel, for rows of 4, gives what its reference does, and 100."""
    op = graphffi.define_op(
        f"fallback::op{next(numbers)}",
        schema="(Tensor x, Tensor? y, float factor=2.0) -> (Tensor, Tensor)",
        infer=lambda x, y, factor: (graphffi.like(x), graphffi.like(x, shape=x.shape[:-1])),
        **{"fallback": "reference", **options},
    )

    def kernel(x: Any, factor: float, scaled: Any, total: Any) -> None:
        x, scaled, total = map(np.from_dlpack, (x, scaled, total))
        scaled[...] = x * factor + 100
        total[...] = x.sum(-1)

    op.add_kernel(
        kernel, name="rows", plan="x, factor, out0, out1", when=lambda x, y, factor: x.size(-1) == 4
    )

    @op.set_reference
    def reference(xp: Any, x: Any, y: Any, factor: float) -> Any:
        return x * factor + (0 if y is None else y), xp.sum(x, axis=-1)

    return op


def test_the_reference_runs_where_no_kernel_fits(arrays: Any) -> None:
    op = define()
    for call in (op, compiled(arrays, op)):
        for n, added in ((3, 0), (4, 100)):
            x = arrays.make(np.ones((2, n)))
            scaled, total = call(x, None)
            assert isinstance(scaled, arrays.kind)
            np.testing.assert_array_equal(np.asarray(scaled), np.full((2, n), 2.0 + added))
            np.testing.assert_array_equal(np.asarray(total), [n, n])
        y = arrays.make(np.ones((2, 3)))
        assert np.asarray(call(y, y)[0])[0, 0] == 3


def test_explain_says_that_the_reference_runs(arrays: Any) -> None:
    op = define()
    rows, reference = op.explain(arrays.make(np.ones((2, 3))), None).splitlines()
    assert "'rows'" in rows
    assert "to hold, got a call for which it does not" in rows
    assert reference.startswith("'reference' (")
    assert reference.endswith(": runs")
    assert op.explain(arrays.make(np.ones((2, 4))), None).endswith("fits, too, but was added later")
    other = define(fallback="")
    assert "expected fallback='reference' to run it" in other.explain(arrays.make([1.0]), None)


def test_without_fallback_it_runs_only_where_it_is_forced(arrays: Any) -> None:
    op = define(fallback="")
    x = arrays.make(np.ones((2, 4)))
    call = compiled(arrays, op)
    assert np.asarray(call(x, None)[0])[0, 0] == 102
    with op.use_kernel("reference"):
        assert np.asarray(op(x, None)[0])[0, 0] == 2
        assert np.asarray(call(x, None)[0])[0, 0] == 2
    assert np.asarray(call(x, None)[0])[0, 0] == 102
    with pytest.raises(NotImplementedError, match=r"got 'rows': .*; add one with add_kernel"):
        op(arrays.make(np.ones((2, 3))), None)


def test_a_fallback_without_reference_says_what_to_set(arrays: Any) -> None:
    op = graphffi.define_op(
        f"fallback::op{next(numbers)}",
        schema="(Tensor x) -> Tensor",
        infer=graphffi.like,
        fallback="reference",
    )
    with pytest.raises(NotImplementedError, match="add one with set_reference"):
        op(arrays.make([1.0]))
    op.set_reference(lambda xp, x: x + 1)
    assert np.asarray(op(arrays.make([1.0])))[0] == 2
    with pytest.raises(ValueError, match="fallback: expected 'reference' or nothing, got 'eager'"):
        define(fallback="eager")


def test_operands_are_updated_by_the_reference(arrays: Any) -> None:
    op = graphffi.define_op(
        f"fallback::op{next(numbers)}",
        schema="(Tensor(a!) cache, Tensor x) -> Tensor total",
        infer=lambda cache, x: graphffi.like(x),
        fallback="reference",
    )
    op.set_reference(lambda xp, cache, x: (xp.sum(x) + x, cache + x))
    for call in (op, compiled(arrays, op)):
        cache = arrays.make([1.0, 2.0])
        total, updated = call(cache, arrays.make([1.0, 1.0]))
        assert np.asarray(total).tolist() == [3, 3]
        assert np.asarray(updated).tolist() == [2, 3]
        if arrays.name != "jax":
            assert np.asarray(cache).tolist() == [2, 3]


@pytest.mark.parametrize("make", [np.asarray, graphffi.from_dlpack], ids=["array", "Tensor"])
def test_what_the_reference_returns_is_copied(make: Any) -> None:
    op = graphffi.define_op(
        f"fallback::op{next(numbers)}",
        schema="(Tensor x) -> (Tensor, Tensor)",
        infer=lambda x: (graphffi.like(x), graphffi.like(x, shape=(3, 2))),
        fallback="reference",
    )
    op.set_reference(lambda xp, x: (x, x.T))
    x = make(np.zeros((2, 3)))
    same, turned = map(np.asarray, op(x))
    assert turned.flags.c_contiguous
    np.asarray(x)[...] = 1
    same[...] += 2
    assert (same.max(), turned.max()) == (2, 0)


def test_graphffi_tensors_take_the_way_of_numpy() -> None:
    op = define()
    scaled, _ = op(graphffi.from_dlpack(np.ones((2, 3), np.float32)), None)
    assert isinstance(scaled, graphffi.Tensor)
    assert np.from_dlpack(scaled)[0, 0] == 2


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_inductor_fuses_the_reference() -> None:
    import torch
    from torch._inductor.utils import run_and_get_code

    op = define()
    function = torch.compile(lambda x: op(x + 1, None)[0] * 3, dynamic=True)
    result, (code,) = run_and_get_code(function, torch.ones(2, 3))
    assert result[0, 0] == 12
    assert "graphffi.reference" not in code
    assert function(torch.ones(5, 7))[0, 0] == 12
    assert function(torch.ones(5, 4))[0, 0] == 312


@pytest.mark.needs("torch")
def test_exported_programs_hold_what_it_computes() -> None:
    import torch

    import graphffi_torch

    op = define()

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return op(x, None)[0]

    x = torch.ones(2, 3)
    exported = torch.export.export(Model(), (x,))
    assert exported.module()(x)[0, 0] == 2
    decomposed = graphffi_torch.decompose(exported)
    names = {str(node.target) for node in decomposed.graph.nodes}
    assert not any("fallback" in name or "tvm_ffi" in name for name in names), names
    assert decomposed.module()(x)[0, 0] == 2


@pytest.mark.needs("jax")
def test_each_platform_of_a_jax_program_has_its_own() -> None:
    import jax

    op = graphffi.define_op(
        f"fallback::op{next(numbers)}",
        schema="(Tensor x) -> Tensor",
        infer=graphffi.like,
        fallback="reference",
    )
    op.add_kernel("some.kernel", device="cuda", plan="x, out")
    op.set_reference(lambda xp, x: xp.sin(x))
    text = jax.jit(op).lower(np.ones(3, np.float32)).as_text()
    assert "stablehlo.sine" in text
    assert "tvm_ffi" not in text
    traced = jax.jit(op).trace(np.ones(3, np.float32))
    text = traced.lower(lowering_platforms=("cpu", "cuda")).as_text()
    assert "stablehlo.sine" in text
    assert "some.kernel" in text


@pytest.mark.needs("jax")
def test_vmap_of_the_reference_is_that_of_the_op() -> None:
    import jax

    op = define(vmap="sequential")
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    scaled, total = jax.jit(jax.vmap(lambda x: op(x, None)))(x)
    np.testing.assert_array_equal(scaled, x * 2)
    np.testing.assert_array_equal(total, x.sum(-1))
