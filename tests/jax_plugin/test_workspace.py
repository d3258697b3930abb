# SPDX-License-Identifier: Apache-2.0
"""Declared workspaces: memory that XLA plans, passed to the kernel or allocated from."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
import graphffi_jax

X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
numbers = itertools.count()


def bytes_of(x: Any) -> Any:
    return x.numel * 4


def define(
    library: str, kernel: str, workspace: Any, plan: str = "", **options: Any
) -> graphffi.Op:
    return graphffi.define_op(
        f"jaxworkspace::{kernel}_{next(numbers)}",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::{kernel}",
        plan=plan,
        infer=graphffi.like,
        workspace=workspace,
        **options,
    )


@pytest.mark.parametrize("workspace", [64, 4096, bytes_of])
def test_a_kernel_allocates_from_its_workspace(library: str, workspace: Any) -> None:
    op = define(library, "scratch", workspace)
    for call in (op, jax.jit(op)):
        np.testing.assert_array_equal(call(X), X)
    text = jax.jit(op).lower(X).as_text()
    size = 24 if workspace is bytes_of else workspace
    assert f"tensor<{size}xui8>" in text
    assert graphffi_jax.inspect().workspaces[op.name] == (24, size)
    np.testing.assert_array_equal(op(np.asarray(X)), X)


def test_a_kernel_gets_its_workspace(library: str) -> None:
    for workspace in (32, lambda x: x.numel * 4 + 8):
        op = define(library, "uses_workspace", workspace, "x, workspace, out")
        for x in (X, np.asarray(X)):
            # The kernel writes the workspace's size into the first element.
            assert float(op(x).ravel()[0]) == 32


def test_the_shape_of_a_workspace_follows_symbolic_shapes(library: str) -> None:
    export = pytest.importorskip("jax.export")
    op = define(library, "uses_workspace", lambda x: x.numel * 4 + 8, "x, workspace, out")
    (n,) = export.symbolic_shape("n")
    exported = export.export(jax.jit(op), disabled_checks=graphffi_jax.export_checks())(
        jax.ShapeDtypeStruct((n,), jnp.float32)
    )
    for size in (1, 5):
        assert float(exported.call(jnp.zeros(size))[0]) == 4 * size + 8


def test_workspaces_under_vmap(library: str) -> None:
    xs = jnp.arange(24, dtype=jnp.float32).reshape(4, 2, 3)
    for method in ("broadcast", "sequential"):
        op = define(library, "scratch", bytes_of, vmap=method)
        np.testing.assert_array_equal(jax.jit(jax.vmap(op))(xs), xs)
        np.testing.assert_array_equal(jax.vmap(op, in_axes=2, out_axes=2)(xs), xs)


def test_a_small_workspace_says_what_it_takes(library: str) -> None:
    op = define(library, "scratch", 16)
    text = rf"MemoryError: {op.name}: workspace: expected at least 24 bytes, got 16; declare a la"
    for call in (op, jax.jit(op)):
        with pytest.raises(jax.errors.JaxRuntimeError, match=text):
            jax.block_until_ready(call(X))
    assert graphffi_jax.inspect().workspaces[op.name] == (24, 16)
    with pytest.raises(MemoryError, match="at least 24 bytes"), graphffi_jax.errors():
        jax.block_until_ready(op(X))


@pytest.mark.parametrize("workspace", [None, 64])
def test_memory_of_another_device_is_refused(library: str, workspace: int | None) -> None:
    op = define(library, "scratch_elsewhere", workspace)
    text = f"ValueError: {op.name}: .*expected a tensor on cpu(:0)?, got one on cuda:1"
    with pytest.raises(jax.errors.JaxRuntimeError, match=text):
        jax.block_until_ready(op(X))


def test_keeping_a_piece_of_a_workspace_is_an_error(library: str) -> None:
    op = define(library, "keep_one", 1024)
    text = "the kernel kept 1 of the tensors that it allocated; a workspace lives as long as the"
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match=text):
            jax.block_until_ready(op(X))


def test_xla_reuses_the_memory_of_workspaces(library: str) -> None:
    op = define(library, "scratch", 1 << 20)

    def chain(x: Any) -> Any:
        for _ in range(10):
            x = op(x)
        return x

    compiled = jax.jit(chain).lower(X).compile()
    np.testing.assert_array_equal(compiled(X), X)
    assert compiled.memory_analysis().temp_size_in_bytes < 3 << 20


@pytest.mark.parametrize(
    ("workspace", "plan", "error", "text"),
    [
        *(
            (size, "", ValueError, r"workspace: expected bytes \(an int from 0 to 2\*\*63 - 1\) or")
            for size in (-1, "1", True, 1 << 63)
        ),
        (
            None,
            "x, workspace, out",
            ValueError,
            "expected workspace= to say how many bytes, got not",
        ),
    ],
)
def test_what_a_definition_refuses(
    library: str, workspace: Any, plan: str, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        define(library, "scratch", workspace, plan)


@pytest.mark.parametrize(
    ("rule", "error", "text"),
    [
        (lambda x: -4, ValueError, r"workspace: expected 0 to 2\*\*63 - 1 bytes, got -4"),
        (lambda x: 1 << 63, ValueError, r"workspace: expected 0 to 2\*\*63 - 1 bytes, got 9223"),
        (lambda x: True, TypeError, "workspace: expected bytes .*, got True"),
        (lambda x: 1.5, TypeError, "workspace: expected bytes .*, got 1.5"),
        (lambda x: None, TypeError, "workspace: expected bytes .*, got None"),
    ],
)
def test_what_a_rule_may_not_give(
    library: str, rule: Any, error: type[Exception], text: str
) -> None:
    op = define(library, "scratch", rule)
    with pytest.raises(error, match=text):
        op(X)


def test_an_empty_workspace(library: str) -> None:
    op = define(library, "uses_workspace", 0, "x, workspace, out")
    assert float(op(X)[0, 0]) == 0


def test_a_call_with_a_workspace(library: str) -> None:
    out = jax.ShapeDtypeStruct(X.shape, X.dtype)
    y = graphffi_jax.call(f"{library}::scratch", X, out=out, workspace=64)
    np.testing.assert_array_equal(y, X)
    assert graphffi_jax.inspect().workspaces[f"{library}::scratch"][1] == 64


def test_several_tensors_are_aligned_and_apart(ops: SimpleNamespace, library: str) -> None:
    op = define(library, "two_scratch", 4096)
    np.testing.assert_array_equal(op(X), X)
    peak, _ = graphffi_jax.inspect().workspaces[op.name]
    assert 24 + 24 < peak <= 64 + 24
    assert re.match("jaxworkspace::", op.name)
