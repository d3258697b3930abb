# SPDX-License-Identifier: Apache-2.0
"""Ops that are called for more than their results."""

from __future__ import annotations

import contextlib
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


def _scan_rows(tell: Any, rows: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        tell(row)
        return jnp.sin(carry), carry * row

    return jax.lax.scan(step, rows[0], rows)[1]


def _map_rows(tell: Any, rows: Any) -> Any:
    return jax.lax.map(lambda row: [jnp.sin(row), tell(row)][0], rows)


def _scan_within_a_loop(tell: Any, rows: Any) -> Any:
    return jax.lax.fori_loop(0, 2, lambda i, rows: _scan_rows(lambda r: tell(r + i), rows), rows)


@pytest.mark.skipif(jax.__version_info__ < (0, 7), reason="JAX 0.6 drops the calls")
@pytest.mark.parametrize("order", ["note", "note_in_order"])
@pytest.mark.parametrize("loop", [_scan_rows, _map_rows, _scan_within_a_loop])
def test_gradients_of_loops_make_each_call(
    request: pytest.FixtureRequest, order: str, loop: Any
) -> None:
    op = request.getfixturevalue(order)

    def f(x: Any) -> Any:
        return loop(lambda row: op(row, "step"), x).sum()

    rows = jnp.arange(6.0).reshape(3, 2)
    expected = notes(f, rows)
    assert len(expected) >= 3
    for grad in (jax.grad(f), jax.jit(jax.grad(f)), lambda x: jax.linearize(f, x)[1](x)):
        assert notes(grad, rows) == expected


@pytest.mark.parametrize("kind", [True, "ordered"])
def test_export_is_refused_by_name(kind: Any) -> None:
    export = pytest.importorskip("jax.export")

    def f(x: Any) -> Any:
        graphffi_jax.call(lambda x: None, x, has_side_effect=kind)
        return x

    text = f"has_side_effect={kind!r}: expected a program that stays in this process, got one for"
    with pytest.raises(NotImplementedError, match=text):
        export.export(jax.jit(f), disabled_checks=graphffi_jax.export_checks())(X)


def test_differentiation_is_refused_with_what_can_be_done() -> None:
    op = graphffi.define_op(
        "effects::returning_in_jax",
        schema="(Tensor x) -> Tensor",
        kernel=lambda x, out: None,
        infer=graphffi.like,
        has_side_effect=True,
    )
    remedy = "got none; register one with register_.*; an op with side effects can have none"
    for transform in (
        jax.grad(lambda x: op(x).sum()),
        jax.jit(jax.grad(lambda x: op(x).sum())),
        lambda x: jax.jvp(op, (x,), (x,)),
    ):
        with pytest.raises(NotImplementedError, match=remedy):
            transform(X)


def _branch_by_element(note: Any, x: Any) -> Any:
    return jax.lax.cond(x[0] > 0, lambda x: [x, note(x, "taken")][0], lambda x: x, x)


def _loop_by_element(note: Any, x: Any) -> Any:
    return jax.lax.while_loop(lambda c: c[0] < 2, lambda c: [c + 1, note(c, "loop")][0], x)


@pytest.mark.parametrize("f", [_branch_by_element, _loop_by_element])
@pytest.mark.parametrize("order", ["note", "note_in_order"])
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_branches_that_are_not_taken_have_no_effects(
    request: pytest.FixtureRequest, f: Any, order: str, transform: Any
) -> None:
    op = request.getfixturevalue(order)
    rows = jnp.array([[1.0, 2.0], [-3.0, 4.0]])
    seen.clear()
    with pytest.raises(Exception, match=r"IO effects? not supported in"):  # as of io_callback
        transform(jax.vmap(lambda x: f(op, x)))(rows)
    assert not seen


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


@pytest.fixture(scope="module")
def note_in_order() -> Any:
    return graphffi.define_op(
        "effects::note_in_order",
        schema="(Tensor x, str label) -> ()",
        kernel=_note,
        has_side_effect="ordered",
        vmap="sequential",
    )


def in_order(f: Callable[..., Any], *args: Any) -> list[str]:
    """The labels that a call notes."""
    seen.clear()
    jax.block_until_ready(f(*args))
    jax.effects_barrier()
    return [label for label, _ in seen]


def test_ordered_calls_keep_the_order_of_the_program(note_in_order: Any) -> None:
    labels = [f"{i}" for i in range(20)]

    def straight(x: Any) -> Any:
        for i, label in enumerate(labels):
            # What comes first is ready last.
            note_in_order(jnp.sort(jnp.tile(x, 1000 * (20 - i))), label)
        return x * 2

    def loop(x: Any) -> Any:
        def body(_: Any, c: Any) -> Any:
            note_in_order(c, "a")
            note_in_order(x, "b")
            return c + 1

        jax.lax.cond(x[0] > 0, lambda: note_in_order(x, "then"), lambda: note_in_order(x, "else"))
        x = jax.lax.fori_loop(0, 3, body, x)
        note_in_order(x, "end")
        return jax.lax.scan(lambda c, x: (c, note_in_order(x, "scan")), 0, x)[0]

    expected = ["then", *["a", "b"] * 3, "end", *["scan"] * 3]
    for transform in (lambda f: f, jax.jit, lambda f: jax.jit(jax.jit(f))):
        assert in_order(transform(straight), X) == labels
        assert in_order(transform(loop), X) == expected
    rows = jnp.arange(6.0).reshape(3, 2)
    assert (
        in_order(jax.jit(jax.vmap(lambda x: [x, note_in_order(x, "row")][0])), rows) == ["row"] * 3
    )


def test_nested_batches_run_in_their_order(note_in_order: Any) -> None:
    def rows(row: Any) -> Any:
        return jax.vmap(lambda x: [x, note_in_order(x, "element")][0])(row)

    assert in_order(jax.jit(jax.vmap(rows)), jnp.arange(6.0).reshape(3, 2)) == ["element"] * 6
    assert [value for _, value in seen] == [0, 1, 2, 3, 4, 5]


def test_ordered_calls_of_several_programs(note_in_order: Any) -> None:
    def program(label: str) -> Any:
        return jax.jit(lambda x: [x + 1, note_in_order(x, label)][0])

    programs = [program(f"{i}") for i in range(5)]

    def run(x: Any) -> Any:
        for step in programs:
            step(x)
        return x

    assert in_order(run, X) == ["0", "1", "2", "3", "4"]


def test_ordered_calls_have_results_updates_and_workspaces() -> None:
    order: list[str] = []

    def body(x: Any, log: Any, workspace: Any, out: Any) -> None:
        order.append("call")
        array = np.from_dlpack(log)
        array += np.from_dlpack(x)
        np.from_dlpack(out)[...] = array.sum() + np.from_dlpack(workspace).size

    op = graphffi.define_op(
        "effects::ordered_update",
        schema="(Tensor x, Tensor(a!) log) -> Tensor",
        kernel=body,
        plan="x, log, workspace, out",
        infer=lambda x, log: graphffi.like(x, shape=()),
        workspace=32,
        has_side_effect="ordered",
    )

    def f(x: Any, log: Any) -> Any:
        first, log = op(x, log)
        return op(x, log), first

    step = jax.jit(f, donate_argnums=1)
    (second, log), first = step(X, jnp.zeros(3))
    assert (first, second, log.tolist()) == (35, 38, [2, 2, 2])
    assert order == ["call", "call"]


ON_TWO_DEVICES = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax
import graphffi

op = graphffi.define_op(
    "effects::split", schema="(Tensor x) -> ()", kernel=print, has_side_effect="ordered"
)
mesh = jax.sharding.Mesh(jax.devices(), "i")
x = jax.device_put(
    jax.numpy.ones(8), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
)
try:
    jax.jit(lambda x: [x * 2, op(x)][0])(x)
except ValueError as error:
    expected = "effects::split: has_side_effect='ordered': expected a program of one device, got"
    assert str(error).startswith(expected), error
else:
    raise AssertionError("nothing was raised")
"""


def test_ordered_calls_need_one_device(run_python: Any) -> None:
    done = run_python(ON_TWO_DEVICES)
    assert done.returncode == 0, done.stderr


def test_other_words_for_side_effects_are_refused() -> None:
    message = "has_side_effect: expected False, True or 'ordered', got 'odered'"
    with pytest.raises(ValueError, match=f"effects::word: {message}"):
        graphffi.define_op(
            "effects::word", schema="(Tensor x) -> ()", kernel="none", has_side_effect="odered"
        )
    with pytest.raises(ValueError, match=f"effects.word: {message}"):
        graphffi.call_tvm_ffi("effects.word", jnp.ones(1), has_side_effect="odered")


def test_checkpoint_calls_once_or_refuses(note: Any) -> None:
    grad = jax.grad(jax.checkpoint(lambda x: [x.sum(), note(x, "once")][0]))
    with contextlib.suppress(NotImplementedError):  # of most releases of JAX
        assert notes(grad, X) == [("once", 3.0)]


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
    with pytest.raises(
        ValueError, match="got neither; pass has_side_effect=True if the op has a side effect"
    ):
        graphffi.define_op("effects::nothing", schema="(Tensor x) -> ()", kernel="none")
