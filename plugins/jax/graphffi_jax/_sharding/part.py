# SPDX-License-Identifier: Apache-2.0
"""The program that XLA gets for one part of a call: the call, or loops around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp

from graphffi_jax._lowering import call_text
from graphffi_jax._lowering.call_dims import CallDims
from graphffi_jax._transforms.batching import enable_x64
from graphffi_jax._transforms.loops import run


def part_program(
    target: str,
    lines: call_text.Lines,
    dims: CallDims,
    operands: Sequence[Any],
    results: Sequence[Any],
) -> str:
    """A program that makes a call.

    Args:
        target: Of the custom call.
        lines: Of its text.
        dims: Of its arrays; those of loops come first.
        operands: XLA's shapes of the arrays that the program gets.
        results: And of those that it returns.
    """
    said = dict(lines)
    updated = int(said.get("updated", 0))
    # A part is not split again.
    arrays = re.sub(r"\([^()]*\)", "", said.get("arrays", ""))
    text = call_text.write((n, arrays if n == "arrays" else value) for n, value in lines)
    depth = len({name for array in dims.operands for name in array.dims if name[0] == "@"})
    loops = tuple(tuple(f"@{k}" in a.dims for a in dims.operands) for k in range(depth))
    given = [_struct(shape, 0) for shape in operands]
    returned = [_struct(s, _depth(a.dims)) for s, a in zip(results, dims.results, strict=True)]
    first = len(returned) - updated - ("workspace" in said)
    aliases = {len(given) - updated + i: first + i for i in range(updated)}
    call = jax.ffi.ffi_call(
        target, returned, has_side_effect="side_effect" in said, input_output_aliases=aliases
    )
    num_looped = first + updated

    def program(*arrays: Any) -> list[Any]:
        looped = run(
            lambda a: call(*a, **{call_text.ATTRIBUTE: text})[: num_looped if loops else None],
            loops,
            arrays,
        )
        # A workspace is nobody's result.
        return [*looped, *(jnp.zeros(s.shape, s.dtype) for s in returned[len(looped) :])]

    def traced() -> str:
        with enable_x64(True):
            return jax.jit(program).lower(*given).as_text()

    # In a thread of its own: a mesh that the caller has set (jax.set_mesh) is none of the part's.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(traced).result()


def _depth(dims: Sequence[str]) -> int:
    """The number of loops that leading dimensions of an array belong to."""
    return sum(name[0] == "@" for name in dims)


def _struct(shape: Any, num_loops: int) -> Any:
    make: Any = jax.ShapeDtypeStruct
    return make(shape.dimensions()[num_loops:], shape.numpy_dtype())
