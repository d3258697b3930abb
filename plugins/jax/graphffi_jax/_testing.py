# SPDX-License-Identifier: Apache-2.0
"""Paths of JAX for `graphffi.testing`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import jax
import numpy as np

from graphffi import Device
from graphffi.plugin import call_in_order
from graphffi.testing import (
    Case,
    CheckedPath,
    Contest,
    View,
    axis_of,
    flat,
    numpy_copy,
    split_name,
)
from graphffi_jax._transforms.batching import enable_x64

if TYPE_CHECKING:
    from graphffi import Op

NAME: Final = "jax"
_NUM_SHARDS: Final = 2


def paths(op: Op) -> list[CheckedPath]:
    """The paths on which an op can be called."""
    found = [
        CheckedPath("jax", _eager, most=12, takes=_has_device),
        CheckedPath("jax.jit", _jitted, most=8, takes=_has_device),
    ]
    if op.definition.vmap is not None:
        found.append(CheckedPath("jax.vmap", _mapped, most=4, batch=3, takes=_has_device))
    if op.definition.dims is not None and _has_devices():
        found.append(CheckedPath("jax.jit of shards", _sharded, most=4, takes=_is_split))
    return found


def _has_devices() -> bool:
    """Asks for as many as shards need, which JAX grants until it has used one."""
    config: Any = jax.config
    with contextlib.suppress(RuntimeError):
        config.update("jax_num_cpu_devices", _NUM_SHARDS)
    return len(jax.devices("cpu")) >= _NUM_SHARDS


def contests(op: Op, case: Case) -> list[Contest]:
    """The op, eagerly and in a program of its own; JAX has no other way that compares."""
    call, operands = _of_operands(op, case), case.build(_array)
    jitted = jax.jit(call)
    wait: Any = jax.block_until_ready
    return [
        Contest("jax", lambda: wait(call(operands))),
        Contest("jax.jit", lambda: wait(jitted(operands))),
    ]


def gradients(
    op: Op, arguments: Sequence[Any], by: Sequence[int], cotangents: Sequence[Any]
) -> list[Any]:
    """Gradients of an op's results: see `Gradients` of `graphffi.testing._gradients`."""
    with enable_x64(True):
        call, primals = _of_arrays(op, arguments, by)
        results, pull = jax.vjp(call, *primals)
        kept = [
            _zeros(r) if c is None else jax.numpy.asarray(c)
            for r, c in zip(results, cotangents, strict=True)
        ]
        return [np.asarray(gradient) for gradient in pull(kept)]


def tangents(
    op: Op, arguments: Sequence[Any], by: Sequence[int], directions: Sequence[Any]
) -> list[Any]:
    """Tangents of an op's results: see `Tangents` of `graphffi.testing._gradients`."""
    with enable_x64(True):
        call, primals = _of_arrays(op, arguments, by)
        changes = [
            jax.numpy.zeros_like(p) if d is None else jax.numpy.asarray(d)
            for p, d in zip(primals, directions, strict=True)
        ]
        _, found = jax.jvp(call, tuple(primals), tuple(changes))
        return [None if t.dtype == jax.dtypes.float0 else np.asarray(t) for t in found]


def _zeros(result: jax.Array) -> Any:
    """A cotangent of zeros."""
    if jax.numpy.issubdtype(result.dtype, jax.numpy.inexact):
        return jax.numpy.zeros_like(result)
    return np.zeros(result.shape, jax.dtypes.float0)


def _of_arrays(
    op: Op, arguments: Sequence[Any], by: Sequence[int]
) -> tuple[Callable[..., list[Any]], list[jax.Array]]:
    """The call as a function of some of its arrays, and these."""
    leaves, structure = jax.tree.flatten(
        list(arguments), is_leaf=lambda value: not isinstance(value, list) or _is_plain(value)
    )
    arrays = [i for i, leaf in enumerate(leaves) if hasattr(leaf, "shape")]
    wanted = [arrays[i] for i in by]

    def call(*values: Any) -> list[Any]:
        changed = list(leaves)
        for i in arrays:
            changed[i] = jax.numpy.asarray(leaves[i])
        for i, value in zip(wanted, values, strict=True):
            changed[i] = value
        return flat(call_in_order(op, jax.tree.unflatten(structure, changed)))

    return call, [jax.numpy.asarray(leaves[i]) for i in wanted]


def _is_plain(value: list[Any]) -> bool:
    """True if a list is an attribute."""
    return not any(hasattr(item, "shape") for item in value)


def _array(base: np.ndarray, view: View) -> jax.Array:
    device = Device(view.device)
    where = jax.devices(device.type)[device.index]
    array: jax.Array = jax.device_put(numpy_copy(base, view), where)
    return array


def _has_device(_: Op, case: Case) -> bool:
    try:
        return bool(jax.devices(Device(case.device).type))
    except RuntimeError:
        return False


def _arrays(returned: Any) -> list[Any]:
    """Of arrays, and of what an op returns that is called without one: tensors of graphffi."""
    arrays = [a if isinstance(a, jax.Array) else jax.numpy.from_dlpack(a) for a in flat(returned)]
    return [np.asarray(array) for array in arrays]


def _eager(op: Op, cases: Sequence[Case]) -> list[list[Any]]:
    with enable_x64(True):
        return [_arrays(call_in_order(op, case.arguments(op.definition, _array))) for case in cases]


def _jitted(op: Op, cases: Sequence[Case]) -> list[list[Any]]:
    with enable_x64(True):
        return [_arrays(jax.jit(_of_operands(op, case))(case.build(_array))) for case in cases]


def _sharded(op: Op, cases: Sequence[Case]) -> list[list[Any]]:
    """Calls whose operands lie on several devices, along a dimension that `dims` leaves free."""
    sharding: Any = jax.sharding
    mesh = sharding.Mesh(np.array(jax.devices("cpu")[:_NUM_SHARDS]), ("shards",))
    found = []
    with enable_x64(True):
        for case in cases:
            name = split_name(op, case, _NUM_SHARDS)
            assert name is not None
            operands = [
                jax.device_put(operand, sharding.NamedSharding(mesh, sharding.PartitionSpec(*axes)))
                for operand, axes in zip(case.build(_array), _axes(op, case, name), strict=True)
            ]
            found.append(_arrays(jax.jit(_of_operands(op, case))(operands)))
    return found


def _axes(op: Op, case: Case, name: str) -> Iterator[list[str | None]]:
    """The mesh axis of each dimension of each operand; None for one that is not split."""
    dims = op.definition.dims
    assert dims is not None
    for group, operand in zip(dims.operands, case.operands, strict=True):
        view = operand[0] if isinstance(operand, tuple) and operand else operand
        axis = axis_of(group, name, len(view.shape)) if view else None
        yield [] if axis is None else [None] * axis + ["shards"]


def _is_split(op: Op, case: Case) -> bool:
    return case.device == "cpu" and split_name(op, case, _NUM_SHARDS) is not None


def _of_operands(op: Op, case: Case) -> Callable[[list[Any]], Any]:
    return lambda operands: flat(call_in_order(op, case.in_order(op.definition, operands)))


def _mapped(op: Op, cases: Sequence[Case]) -> list[list[Any]]:
    with enable_x64(True):
        calls = [case.build(_array) for case in cases]
        stacked = jax.tree.map(lambda *arrays: jax.numpy.stack(arrays), *calls)
        returned = jax.vmap(_of_operands(op, cases[0]))(stacked)
        return [[np.asarray(result[i]) for result in returned] for i in range(len(cases))]
