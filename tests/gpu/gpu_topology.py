# SPDX-License-Identifier: Apache-2.0
"""GPUs that programs are compiled for, and which need not exist."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import topologies

H200 = """
gpu_device_info {
  cuda_compute_capability { major: 9 minor: 0 }
  threads_per_block_limit: 1024
  threads_per_warp: 32
  threads_per_core_limit: 2048
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  shared_memory_per_block_optin: 232448
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  memory_bandwidth: 4800000000000
  l2_cache_size: 52428800
  device_memory_size: 143771000000
  driver_version: "13.0.0"
  runtime_version: "13.0.0"
}
platform_name: "CUDA"
device_description_str: "NVIDIA H200"
"""


def describe_gpus(count: int = 1) -> list[Any]:
    """GPUs of one machine.

    Raises:
        RuntimeError, NotImplementedError: JAX has no CUDA plugin, or refuses it.
    """
    machine = topologies.get_topology_desc(
        "gpus", platform="cuda", target_config=H200, topology=f"1x1x{count}"
    )
    return list(machine.devices)


def operand_on(device: Any, shape: tuple[int, ...], dtype: Any = jnp.float32) -> Any:
    """An array to compile for."""
    sharding = jax.sharding.SingleDeviceSharding(device)
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
