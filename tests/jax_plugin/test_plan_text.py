# SPDX-License-Identifier: Apache-2.0
"""Plans that pass ints computed of sizes, in programs of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
import graphffi_jax
from tests.families import computed


@pytest.mark.parametrize("seed", range(2))
def test_eager_and_compiled_calls(seed: int) -> None:
    op, texts = computed.define(f"jax{seed}", 10 + seed)
    for call in (op, jax.jit(op, static_argnums=(2, 3))):
        for shapes in (((4, 6), (2, 5)), ((0, 3), (1, 1)), ((7, 300), (5, 0))):
            x, y = map(jnp.ones, shapes)
            for more in ((), (-7, False)):
                expected = computed.expected(texts, x, y, *more)
                np.testing.assert_array_equal(call(x, y, *more), expected)


def test_one_exported_program_serves_all_sizes() -> None:
    op, texts = computed.define("jaxexport", 12)
    r, c, d = jax.export.symbolic_shape("r, c, d")
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((r, c), (2, d))]
    checks = graphffi_jax.export_checks()
    program = jax.export.export(jax.jit(op), disabled_checks=checks)(*given)
    for rows, columns, last in ((4, 6, 5), (1, 200, 3)):
        x, y = jnp.ones((rows, columns)), jnp.ones((2, last))
        expected = computed.expected(texts, x, y)
        np.testing.assert_array_equal(program.call(x, y), expected)


def test_a_loop_over_a_batch_computes_for_its_elements() -> None:
    op = graphffi.define_op(
        "plantext_jax::batched",
        schema="(Tensor x) -> Tensor",
        kernel=lambda n, out: np.from_dlpack(out).fill(n),
        plan="x.numel * 100 + x.ndim, out",
        infer=lambda x: graphffi.empty([2], "int32"),
        vmap="sequential",
    )
    for call in (jax.vmap(op), jax.jit(jax.vmap(op))):
        assert call(jnp.ones((3, 5, 7))).tolist() == [[3502, 3502]] * 3


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("8 // (x.shape[0] - 3)", "plan: expected an int of 64 bits, got 8 // 0"),
        ("x.shape[0] * 9223372036854775807", r"got 3 \* 9223372036854775807"),
        ("x.shape[1]", r"operand 'x': expected a dimension 1 for the plan, got float32\[3\]"),
    ],
)
def test_what_cannot_be_computed_is_an_error_of_the_call(text: str, error: str) -> None:
    op: Any = graphffi.define_op(
        "plantext_jax::wrong",
        schema="(Tensor x) -> Tensor",
        kernel=lambda n, out: None,
        plan=f"{text}, out",
        infer=graphffi.like,
        override=True,
    )
    for call in (op, jax.jit(op)):
        with pytest.raises(Exception, match=f"plantext_jax::wrong: .*{error}"):
            jax.block_until_ready(call(jnp.ones(3)))
