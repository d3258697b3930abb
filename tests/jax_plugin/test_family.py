# SPDX-License-Identifier: Apache-2.0
"""The family of random ops in JAX: eager, transformed, sharded, and exported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
from tests.families.calls import Call, View, flatten, numpy_view
from tests.families.op_family import Member, members
from tests.families.reference import ArrayModule

NAMESPACE = "family_jax"
DEVICES = 4
FLAG = f"--xla_force_host_platform_device_count={DEVICES}"


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


@dataclass
class Batch:
    """Calls that differ in values only, and their operands stacked."""

    member: Member
    op: graphffi.Op
    calls: list[Call]

    @staticmethod
    def make(member: Member, op: graphffi.Op, size: int) -> Batch:
        return Batch(member, op, [member.make_call(0).with_values(seed) for seed in range(size)])

    def operands(self) -> Any:
        each = [self.member.split(call.build(jax_array))[0] for call in self.calls]
        return jax.tree.map(lambda *xs: jnp.stack(xs), *each)

    def one(self, *operands: Any) -> Any:
        """A call on operands of one element."""
        _, join = self.member.split(self.calls[0].build(jax_array))
        return self.member.apply(self.calls[0], self.op, join(*operands))

    def check(self, got: Any) -> None:
        for i, call in enumerate(self.calls):
            check(self.member, call, jax.tree.map(lambda x, i=i: x[i], got))


@pytest.mark.parametrize("member", members(), ids=lambda m: str(m.number))
class TestBatch:
    """Several calls of one member at once."""

    def test_vmap(self, member: Member, ops: Any) -> None:
        batch = Batch.make(member, ops[member.number], 3)
        batch.check(jax.vmap(batch.one)(*batch.operands()))

    def test_scan(self, member: Member, ops: Any) -> None:
        batch = Batch.make(member, ops[member.number], 3)
        _, got = jax.lax.scan(lambda _, xs: (None, batch.one(*xs)), None, batch.operands(), 3)
        batch.check(got)


@pytest.mark.skipif(FLAG not in os.environ.get("XLA_FLAGS", ""), reason="test_sharding runs it")
@pytest.mark.parametrize("member", members(), ids=lambda m: str(m.number))
class TestSharded:
    """Batches split between devices."""

    def test_sharded_jit(self, member: Member, ops: Any) -> None:
        batch = Batch.make(member, ops[member.number], DEVICES)
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:DEVICES]), ("d",))
        split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
        operands = jax.device_put(batch.operands(), split)
        batch.check(jax.jit(jax.vmap(batch.one))(*operands))


@pytest.mark.slow
def test_sharding() -> None:
    """Runs TestSharded in a process with several devices."""
    command = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib"]
    result = subprocess.run(
        [*command, f"{__file__}::TestSharded"],
        env={**os.environ, "XLA_FLAGS": FLAG},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(members())} passed" in result.stdout


def is_inexact(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def pullback(run: Callable[..., Any], operands: Any) -> list[Any]:
    """The gradients of a weighted sum of the results, with respect to each tensor."""
    flat, tree = jax.tree.flatten(operands)
    chosen = [i for i, x in enumerate(flat) if is_inexact(x)]

    def inexact(*given: Any) -> list[Any]:
        values = list(flat)
        for i, x in zip(chosen, given, strict=True):
            values[i] = x
        return [r for r in jax.tree.leaves(run(*jax.tree.unflatten(tree, values))) if is_inexact(r)]

    results, pull = jax.vjp(inexact, *(flat[i] for i in chosen))
    weights = [(jnp.arange(r.size) % 5).reshape(r.shape).astype(r.dtype) for r in results]
    return list(pull(weights))


def check_close(got: list[Any], wanted: list[Any]) -> None:
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        assert one.dtype == other.dtype
        tolerance = 4 * float(jnp.finfo(one.dtype).eps)
        np.testing.assert_allclose(
            np.asarray(one, "complex128"), np.asarray(other, "complex128"), tolerance, tolerance
        )


@pytest.mark.parametrize(
    "member", [m for m in members() if m.is_differentiable], ids=lambda m: str(m.number)
)
class TestGradients:
    """Those of members that update nothing, against JAX's of the reference."""

    def test_grad(self, member: Member, ops: Any) -> None:
        for variant in range(2):
            call = member.make_call(variant)
            operands, join = member.split(call.build(jax_array))
            op = ops[member.number]
            got = pullback(lambda *xs, c=call, j=join, o=op: member.apply(c, o, j(*xs)), operands)
            check_close(got, self.expected(member, operands, join))

    def test_vmap_of_grad(self, member: Member, ops: Any) -> None:
        batch = Batch.make(member, ops[member.number], 3)
        operands = batch.operands()
        run = jax.jit(jax.vmap(lambda *xs: pullback(batch.one, xs)))
        got = run(*operands)
        _, join = member.split(batch.calls[0].build(jax_array))
        for i in range(3):
            row = jax.tree.map(lambda x, i=i: x[i], operands)
            check_close([g[i] for g in got], self.expected(member, row, join))

    def expected(self, member: Member, operands: Any, join: Callable[..., list[Any]]) -> list[Any]:
        return pullback(lambda *xs: member.reference(ArrayModule(jnp), join(*xs)), operands)
