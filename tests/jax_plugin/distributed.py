# SPDX-License-Identifier: Apache-2.0
"""One of two processes with two devices each, which share an array; see test_distributed."""

from __future__ import annotations

import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import graphffi

library, address, process = sys.argv[1], sys.argv[2], int(sys.argv[3])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(address, num_processes=2, process_id=process, initialization_timeout=60)
assert jax.device_count() == 4
assert jax.local_device_count() == 2

add = graphffi.define_op(
    "jaxdistributed::add",
    schema="(Tensor x) -> Tensor",
    kernel=f"{library}::add_one",
    dims="b [h] -> b [h]",
    infer=graphffi.like,
)
add_row = graphffi.define_op(
    "jaxdistributed::add_row",
    schema="(Tensor x) -> Tensor",
    kernel=f"{library}::add_one",
    infer=graphffi.like,
    vmap="sequential",
)
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
rows = NamedSharding(mesh, P("i"))
x = np.arange(8 * 3, dtype=np.float32).reshape(8, 3)
shared = jax.make_array_from_callback(x.shape, rows, lambda index: x[index])

for call in (add, jax.vmap(add_row)):
    compiled = jax.jit(call).lower(shared).compile()
    assert "all-gather" not in compiled.as_text()
    y = compiled(shared)
    assert y.sharding.is_equivalent_to(rows, y.ndim), y.sharding
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(shard.data, x[shard.index] + 1)

# What the processes compute together: they do talk to each other.
total = jax.jit(lambda x: add(x).sum(), out_shardings=NamedSharding(mesh, P()))(shared)
assert float(total) == (x + 1).sum(), total

whole = jax.make_array_from_callback(
    (4, 4), NamedSharding(mesh, P(None, "i")), lambda index: np.zeros((4, 4), np.float32)[index]
)
with pytest.raises(jax.errors.JaxRuntimeError, match=r"dimension 1 \[h\] whole on every device"):
    jax.jit(add)(whole)
print([shard.index[0].start for shard in y.addressable_shards])
jax.distributed.shutdown()
