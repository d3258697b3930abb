# SPDX-License-Identifier: Apache-2.0
"""Ops that are called for more than their results."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
import graphffi_jax

seen: list[tuple[str, float]] = []


def _note(x: Any, label: str) -> None:
    seen.append((str(label), np.from_dlpack(x).sum().item()))


@pytest.fixture(scope="module")
def note() -> Any:
    return graphffi.define_op(
        "effects::note_in_jax",
        schema="(Tensor x, str label) -> ()",
        kernel=_note,
        has_side_effect=True,
        vmap="sequential",
    )


def notes(f: Callable[..., Any], *args: Any) -> list[tuple[str, float]]:
    """What a call notes. JAX orders calls by data alone."""
    seen.clear()
    jax.block_until_ready(f(*args))
    jax.effects_barrier()
    return sorted(seen)


X = jnp.ones(3)


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit, lambda f: jax.jit(jax.grad(f))])
def test_no_call_is_dropped_or_merged(note: Any, transform: Any) -> None:
    def f(x: Any) -> Any:
        assert note(x, "first") is None
        note(x + 1, "second")
        note(x, "first")
        return (x * 2).sum()

    expected = [("first", 3.0), ("first", 3.0), ("second", 6.0)]
    assert notes(transform(f), X) == expected


def test_control_flow(note: Any) -> None:
    def scan(xs: Any) -> Any:
        return jax.lax.scan(lambda c, x: (c, note(x, "scan")), 0, xs)[0]

    def loop(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, c: [c + 1, note(c, "loop")][0], x)

    def branch(x: Any) -> Any:
        def make(label: str) -> Any:
            return lambda x: [x, note(x, label)][0]

        return jax.lax.cond(x[0] > 0, make("then"), make("else"), x)

    rows = jnp.arange(6.0).reshape(3, 2)
    for transform in (lambda f: f, jax.jit):
        assert notes(transform(scan), rows) == [("scan", 1.0), ("scan", 5.0), ("scan", 9.0)]
        assert notes(transform(loop), X) == [("loop", 3.0), ("loop", 6.0), ("loop", 9.0)]
        assert notes(transform(branch), X) == [("then", 3.0)]
        assert notes(transform(branch), -X) == [("else", -3.0)]
    by_row = jax.vmap(lambda x: [x, note(x, "row")][0])
    for transform in (lambda f: f, jax.jit):
        assert notes(transform(by_row), rows) == [("row", 1.0), ("row", 5.0), ("row", 9.0)]


def test_updated_operands_put_calls_in_order() -> None:
    order: list[tuple[str, float]] = []

    def append(log: Any, label: str) -> None:
        order.append((str(label), np.from_dlpack(log).sum().item()))

    op = graphffi.define_op(
        "effects::append", schema="(Tensor(a!) log, str label) -> ()", kernel=append
    )

    def f(log: Any) -> Any:
        log = op(log, "first")
        log = jax.lax.fori_loop(0, 2, lambda i, log: op(log, "loop"), log)
        return op(log, "last")

    step = jax.jit(f, donate_argnums=0)
    log = jnp.zeros(64)
    text = step.lower(log).compile().as_text()
    assert not re.search(r"f32\[64\]\S* copy\(", text)
    address = log.unsafe_buffer_pointer()
    assert jax.block_until_ready(step(log)).unsafe_buffer_pointer() == address
    assert [label for label, _ in order] == ["first", "loop", "loop", "last"]


@pytest.mark.parametrize("call", [graphffi.call_tvm_ffi, graphffi_jax.call])
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_calls_without_an_op_are_kept(call: Any, transform: Any) -> None:
    def f(x: Any) -> Any:
        assert call(_note, x, "first", has_side_effect=True) is None
        call(_note, x, "first", has_side_effect=True)
        call(lambda x, y: _note(x, "unused"), x, out=graphffi.like(x), has_side_effect=True)
        return x * 2

    assert notes(transform(f), X) == [("first", 3.0), ("first", 3.0), ("unused", 3.0)]


def test_checkpoint_refuses(note: Any) -> None:
    with pytest.raises(NotImplementedError, match="Effects not supported"):
        jax.grad(jax.checkpoint(lambda x: [x.sum(), note(x, "twice")][0]))(X)


def test_integer_results_need_no_gradient_rule() -> None:
    op = graphffi.define_op(
        "effects::count",
        schema="(Tensor x) -> Tensor",
        kernel=lambda x, out: None,
        infer=lambda x: graphffi.empty((), "int32"),
    )
    grad = jax.grad(lambda x: (x * 2).sum() + 0.0 * op(x).astype(x.dtype))
    assert grad(X).tolist() == [2, 2, 2]


def test_an_op_that_does_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="got neither; pass has_side_effect=True for an op that"):
        graphffi.define_op("effects::nothing", schema="(Tensor x) -> ()", kernel="none")
