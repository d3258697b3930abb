# SPDX-License-Identifier: Apache-2.0
"""Paths of JAX for `graphffi.testing`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import jax
import numpy as np

from graphffi.testing import Case, CheckedPath, Contest, View, flat, numpy_view

if TYPE_CHECKING:
    from graphffi import Op

NAME: Final = "jax"


def paths(op: Op) -> list[CheckedPath]:
    """The paths on which an op can be called."""
    found = [CheckedPath("jax", _eager, most=12), CheckedPath("jax.jit", _jitted, most=8)]
    if op.definition.vmap is not None:
        found.append(CheckedPath("jax.vmap", _mapped, most=4, batch=3))
    return found


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
    """Gradients of an op's results.

    Args:
        op: The op.
        arguments: With arrays of NumPy for tensors.
        by: Positions among all arrays.
        cotangents: An array or None per result.
    """
    with jax.enable_x64(True):
        leaves, structure = jax.tree.flatten(
            list(arguments), is_leaf=lambda value: not isinstance(value, list) or _is_plain(value)
        )
        arrays = [i for i, leaf in enumerate(leaves) if hasattr(leaf, "shape")]
        wanted = [arrays[i] for i in by]

        def call(*values: Any) -> Any:
            changed = list(leaves)
            for i in arrays:
                changed[i] = jax.numpy.asarray(leaves[i])
            for i, value in zip(wanted, values, strict=True):
                changed[i] = value
            results = flat(op(*jax.tree.unflatten(structure, changed)))
            pairs = zip(results, cotangents, strict=True)
            return [r for r, c in pairs if c is not None]

        _, pull = jax.vjp(call, *[jax.numpy.asarray(leaves[i]) for i in wanted])
        found = pull([jax.numpy.asarray(c) for c in cotangents if c is not None])
        return [np.asarray(gradient) for gradient in found]


def _is_plain(value: list[Any]) -> bool:
    """Whether a list is an attribute."""
    return not any(hasattr(item, "shape") for item in value)


def _array(base: np.ndarray, view: View) -> jax.Array:
    return jax.numpy.asarray(numpy_view(base, view).copy(order="C"))


def _arrays(returned: Any) -> list[Any]:
    return [np.asarray(array) for array in flat(returned)]


def _eager(op: Op, cases: Sequence[Case]) -> list[list[Any]]:
    with jax.enable_x64(True):
        return [_arrays(op(*case.arguments(op.definition, _array))) for case in cases]


def _jitted(op: Op, cases: Sequence[Case]) -> list[list[Any]]:
    with jax.enable_x64(True):
        return [_arrays(jax.jit(_of_operands(op, case))(case.build(_array))) for case in cases]


def _of_operands(op: Op, case: Case) -> Callable[[list[Any]], Any]:
    return lambda operands: flat(op(*case.in_order(op.definition, operands)))


def _mapped(op: Op, cases: Sequence[Case]) -> list[list[Any]]:
    with jax.enable_x64(True):
        calls = [case.build(_array) for case in cases]
        stacked = jax.tree.map(lambda *arrays: jax.numpy.stack(arrays), *calls)
        returned = jax.vmap(_of_operands(op, cases[0]))(stacked)
        return [[np.asarray(result[i]) for result in returned] for i in range(len(cases))]
