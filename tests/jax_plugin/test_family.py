# SPDX-License-Identifier: Apache-2.0
"""The family of random ops in JAX: eager, under jit, and exported to another program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
from tests.families.calls import Call, View, flatten, numpy_view
from tests.families.op_family import Member, members

NAMESPACE = "family_jax"


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    """JAX with 64-bit dtypes, which members have."""
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", False)


def jax_array(base: np.ndarray, view: View) -> jax.Array:
    return jnp.asarray(np.ascontiguousarray(numpy_view(base, view)).reshape(view.shape))


@pytest.fixture(scope="module")
def ops() -> dict[int, graphffi.Op]:
    return {member.number: member.define(NAMESPACE) for member in members()}


def check(member: Member, call: Call, got: Any) -> None:
    expected = member.expected(call)
    actual = flatten([got])
    assert len(actual) == len(expected)
    for one, wanted in zip(actual, expected, strict=True):
        assert str(one.dtype) == str(wanted.dtype)
        np.testing.assert_array_equal(np.asarray(one), wanted)


@pytest.mark.parametrize("member", members(), ids=lambda m: str(m.number))
class TestMember:
    """One member in every mode."""

    def test_eager(self, member: Member, ops: Any) -> None:
        for variant in range(2):
            call = member.make_call(variant)
            check(member, call, member.apply(call, ops[member.number], call.build(jax_array)))

    def test_jit(self, member: Member, ops: Any) -> None:
        for variant in range(2):
            call = member.make_call(variant)
            operands, join = member.split(call.build(jax_array))
            op = ops[member.number]
            run = jax.jit(lambda *given, c=call, j=join, o=op: member.apply(c, o, j(*given)))
            check(member, call, run(*operands))

    @pytest.mark.needs("flatbuffers")
    def test_exported(self, member: Member, ops: Any) -> None:
        export = pytest.importorskip("jax.export")
        call = member.make_call(0)
        operands, join = member.split(call.build(jax_array))
        run = jax.jit(lambda *given: member.apply(call, ops[member.number], join(*given)))
        checks = [export.DisabledSafetyCheck.custom_call("tvm_ffi.call")]
        exported = export.export(run, disabled_checks=checks)(*operands)
        restored = export.deserialize(exported.serialize())
        check(member, call, restored.call(*operands))


@pytest.mark.parametrize("member", members(), ids=lambda m: str(m.number))
def test_vmap(member: Member, ops: Any) -> None:
    calls = [member.make_call(0).with_values(seed) for seed in range(3)]
    operands = [member.split(call.build(jax_array))[0] for call in calls]
    _, join = member.split(calls[0].build(jax_array))
    batch = jax.tree.map(lambda *xs: jnp.stack(xs), *operands)
    got = jax.vmap(lambda *one: member.apply(calls[0], ops[member.number], join(*one)))(*batch)
    for i, call in enumerate(calls):
        check(member, call, jax.tree.map(lambda x, i=i: x[i], got))
