# SPDX-License-Identifier: Apache-2.0
"""Sharded programs: calls are split along the dimensions that `dims` leaves free."""

from __future__ import annotations

import json
from typing import Any

import pytest

SCRIPT = """
import os, sys, json
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import jax, jax.numpy as jnp, numpy as np
import graphffi
from jax.sharding import NamedSharding, PartitionSpec as P

library, results = sys.argv[1], {}
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))

def define(name, kernel, dims, schema="(Tensor x) -> Tensor", infer=graphffi.like, **options):
    return graphffi.define_op(f"jaxsharding::{name}", schema=schema, kernel=f"{library}::{kernel}",
                              dims=dims, infer=infer, **options)

def check(name, op, expected, spec, *arrays):
    arrays = [jax.device_put(a, NamedSharding(mesh, spec)) for a in arrays]
    f = jax.jit(lambda *a: op(*a) * 2)
    text = f.lower(*arrays).compile().as_text()
    y = f(*arrays)
    np.testing.assert_array_equal(y, 2 * expected)
    alike = y.sharding.is_equivalent_to(NamedSharding(mesh, spec), y.ndim)
    results[name] = ["all-gather" in text, alike]

x = np.arange(8 * 4 * 3, dtype=np.float32).reshape(8, 4, 3)
batch = define("batch", "add_one", "b s [h] -> b s [h]")
check("outer", batch, x + 1, P("i"), x)
check("inner", batch, x + 1, P(None, "i"), x)
check("no dims", define("none", "add_one", ""), x + 1, P("i"), x)
check("leading", define("leading", "add_one", "... [h] -> ... [h]"), x + 1, P("i"), x)
axpy = define("axpy", "axpy", "b [s h], b [s h] -> b [s h]",
              "(Tensor x, Tensor y, float a=1.0) -> Tensor", lambda x, y, a: graphffi.like(x),
              plan="a, x, out, y")
check("two operands", axpy, 2 * x, P("i"), x, x)
increment = define("increment", "increment", "b [s h]", "(Tensor(a!) x) -> ()", None)
check("updated", increment, x + 1, P("i"), x)
check("vmap", jax.vmap(define("mapped", "add_one", "... [h] -> ... [h]", vmap="broadcast")), x + 1,
      P("i"), x)
whole = define("whole", "add_one", "b [s h] -> b [s h]")
y = jax.jit(whole)(jax.device_put(x, NamedSharding(mesh, P(None, "i"))))
np.testing.assert_array_equal(y, x + 1)
if hasattr(jax, "shard_map"):
    local = jax.shard_map(whole, mesh=mesh, in_specs=P(None, "i"), out_specs=P(None, "i"))
    text = jax.jit(local).lower(x).compile().as_text()
    results["shard_map"] = ["all-gather" in text, True]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(library: str) -> dict[str, list[bool]]:
    """Of each case: whether something is gathered, and whether the result is sharded alike."""
    import subprocess
    import sys

    command = [sys.executable, "-c", SCRIPT, library]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("name", ["outer", "inner", "leading", "two operands", "vmap"])
def test_a_call_is_split_along_free_leading_dimensions(
    results: dict[str, list[bool]], name: str
) -> None:
    assert results[name] == [False, True]


@pytest.mark.parametrize("name", ["no dims", "updated"])
def test_another_call_runs_whole(results: dict[str, list[bool]], name: str) -> None:
    assert results[name][0]


def test_shard_map_runs_along_any_dimension(results: dict[str, list[bool]]) -> None:
    if "shard_map" not in results:
        pytest.skip("needs jax.shard_map")
    assert not results["shard_map"][0]


def test_programs_of_one_device_say_nothing_of_it(
    ops: Any,
) -> None:
    import jax
    import jax.numpy as jnp

    text = jax.jit(ops.add_one).lower(jnp.ones(3)).as_text()
    assert "num_batch_dims" not in text
