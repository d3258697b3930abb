# SPDX-License-Identifier: Apache-2.0
"""Calls of kernels without an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import graphffi
from graphffi.plugin import SideEffect, checked_dtype, pack_call
from graphffi_jax._framework import FRAMEWORK

_OUT: Final = "graphffi_jax.call: out"


def call(
    func: str | Callable[..., Any],
    *args: Any,
    out: Any = None,
    mutates: Sequence[int] = (),
    workspace: int | None = None,
    pass_owning_tensor: bool = False,
    allow_cuda_graph: bool = False,
    has_side_effect: SideEffect = False,
) -> Any:
    """Calls a TVM FFI function on JAX arrays, eagerly or in a trace.

    Like `graphffi.call_tvm_ffi`, but always JAX's call: NumPy arrays become JAX arrays, and results
    are described as JAX does.

    Args:
        func: A kernel reference or a function.
        *args: Arrays, None, ints, floats, bools, strings, `graphffi.dtype`, `graphffi.Device`, and
            lists of these: what the function receives, followed by the results.
        out: A `jax.ShapeDtypeStruct` (or anything with shape and dtype), or a list of them: the
            results to allocate.
        mutates: Positions in `args` of arrays that the function updates in place; new arrays are
            returned, in the same memory where the old ones are donated.
        workspace: Bytes of scratch memory that XLA plans and the function allocates from.
        pass_owning_tensor: Tensors are passed as owning ones, for the duration of the call.
        allow_cuda_graph: The function only launches work on its stream: it may be recorded.
        has_side_effect: Calls count for more than their results: none is dropped or merged. Such a
            call may have no result. ``"ordered"``: they keep the order of the program.

    Returns:
        The results, then the updated arrays: one, a tuple of several, or None.

    Raises:
        TypeError: For an argument of another kind.
        ValueError: If the call has no result, updates nothing and has no side effect.

    Example:
        >>> shape = jax.ShapeDtypeStruct(x.shape, x.dtype)  # doctest: +SKIP
        >>> y = call("my.func", x, 2.0, out=shape)  # doctest: +SKIP
    """
    outs = [] if out is None else list(out) if isinstance(out, (list, tuple)) else [out]
    packed, specs = pack_call(
        func,
        args,
        out=[_spec(o) for o in outs],
        mutates=mutates,
        pass_owning_tensor=pass_owning_tensor,
        allow_cuda_graph=allow_cuda_graph,
        has_side_effect=has_side_effect,
    )
    results = FRAMEWORK.call_raw(packed, specs, workspace)
    if len(results) == 1:
        return results[0]
    return tuple(results) if results else None


def _spec(out: Any) -> graphffi.TensorSpec:
    if hasattr(out, "shape") and hasattr(out, "dtype"):
        return graphffi.TensorSpec(tuple(out.shape), checked_dtype(_OUT, out.dtype))
    raise TypeError(
        f"{_OUT}: expected jax.ShapeDtypeStruct or a list of these, got {type(out).__name__}"
    )
