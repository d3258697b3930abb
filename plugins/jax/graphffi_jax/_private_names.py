# SPDX-License-Identifier: Apache-2.0
"""The private names of JAX that this package uses, and how it does without each of them."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple


@dataclass(frozen=True)
class PrivateName:
    """A name that JAX may remove in any release.

    Args:
        name: Module and name.
        file: The module of this package that uses it.
        why: The reason that no public name will do.
        without: The behaviour where JAX has no such name.
    """

    name: str
    file: str
    why: str
    without: str


_NO_PARTITIONER: Final = "a warning at import; programs of several devices need jax.shard_map"

PRIVATE_NAMES: Final = (
    PrivateName(
        "jax._src.xla_bridge.register_plugin_callbacks",
        "partition.py",
        "the plugins of GPUs have registries of partitioners of their own",
        _NO_PARTITIONER,
    ),
    PrivateName(
        "jaxlib.xla_client.register_custom_call_partitioner",
        "partition.py",
        "jax.experimental.custom_partitioning has no rules for vmap, gradients and export",
        _NO_PARTITIONER,
    ),
    PrivateName(
        "jaxlib.xla_client.HloSharding",
        "tiling.py",
        "partitioners answer with shardings of XLA",
        _NO_PARTITIONER,
    ),
    PrivateName(
        "jaxlib.xla_client.OpSharding",
        "tiling.py",
        "holds the kind of the part of a sharding that is replicated",
        _NO_PARTITIONER,
    ),
)


class Members(NamedTuple):
    """Members of the objects that private names give, which no look-up finds: versions vouch for.

    Args:
        file: The module of this package that uses them.
        of: The name of the object there, or of the variable that holds it.
        why: The use.
        names: The members.
    """

    file: str
    of: str
    why: str
    names: tuple[str, ...]


_HLO_SHARDING: Final = "graphffi_jax._sharding.tiling.HloSharding"

MEMBERS: Final = (
    Members("tiling.py", "HloSharding", "makes the split of an array",
            ("replicate", "subgroup_with_device_ordering")),
    Members("tiling.py", "sharding", "the split of an array",
            ("is_tiled", "tile_assignment_devices", "tile_assignment_dimensions")),
    Members("tiling.py", "_OpSharding", "says which part is copied", ("Type.REPLICATED",)),
    Members("partition.py", _HLO_SHARDING, "makes the split of all results",
            ("manual", "replicate", "tuple_sharding")),
    Members("partition.py", "sharding", "the split of an array",
            ("is_manual", "tile", "tuple_elements")),
    Members("partition.py", "shape", "a type of XLA", ("dimensions", "is_tuple", "tuple_shapes")),
    Members("part.py", "shape", "a type of XLA", ("dimensions", "numpy_dtype")),
)  # fmt: skip


@functools.cache
def find_private(name: str) -> Any:
    """The object of that name, or None if this JAX has none."""
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return None


def missing(names: Sequence[PrivateName]) -> list[str]:
    """The names that this JAX does not have."""
    return [n.name for n in names if find_private(n.name) is None]
