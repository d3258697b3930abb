# SPDX-License-Identifier: Apache-2.0
"""Private names of JAX: all are in one table, and the package does without each of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphffi_jax
from graphffi_jax._private_names import PRIVATE_NAMES, find_private

SOURCES = Path(graphffi_jax.__file__).parent
WITHOUT = """
import importlib, os, sys, warnings
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import numpy as np
import jax, jax.extend
path, _, name = sys.argv[1].rpartition(".")
module = importlib.import_module(path)
hidden = getattr(module, name)
delattr(module, name)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import graphffi, graphffi_jax
setattr(module, name, hidden)  # which JAX uses, too
print(*(w.message for w in caught))
op = graphffi.define_op(
    "private::add_one", schema="(Tensor x) -> Tensor", kernel=sys.argv[2] + "::add_one",
    infer=graphffi.like, dims="a -> a",
)
x = jax.numpy.zeros(4)
assert jax.jit(op)(x).tolist() == [1] * 4
mesh, spec = jax.sharding.Mesh(np.array(jax.devices()), "i"), jax.sharding.PartitionSpec("i")
split = jax.device_put(x, jax.sharding.NamedSharding(mesh, spec))
if hasattr(jax, "shard_map"):
    local = jax.shard_map(op, mesh=mesh, in_specs=spec, out_specs=spec)
    assert jax.jit(local)(split).tolist() == [1] * 4
try:
    jax.jit(op)(split)
except NotImplementedError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("private", PRIVATE_NAMES, ids=lambda p: p.name.rpartition(".")[2])
def test_programs_of_one_device_need_no_private_name(
    run_script: Callable[..., Any], library: str, private: Any
) -> None:
    result = run_script(WITHOUT, private.name, library)
    assert result.returncode == 0, result.stderr
    warned, refused = result.stdout.splitlines()
    assert re.fullmatch(
        rf"graphffi: jax \S+ has no {re.escape(private.name)}: calls in programs of several "
        "devices need jax.shard_map",
        warned,
    )
    assert refused.startswith(f"private::add_one: expected a jax that has {private.name} for a ")


@pytest.mark.parametrize("private", PRIVATE_NAMES, ids=lambda p: p.name.rpartition(".")[2])
def test_the_table_says_who_uses_a_name(private: Any) -> None:
    assert find_private(private.name) is not None
    assert f'"{private.name}"' in next(SOURCES.rglob(private.file)).read_text()
    assert private.why
    assert private.without
