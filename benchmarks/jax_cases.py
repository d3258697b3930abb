# SPDX-License-Identifier: Apache-2.0
"""Calls from jitted JAX programs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax_tvm_ffi
import native
import numpy as np
import tvm_ffi
from timing import Case, Contender, chain

import graphffi

SHORT, LONG = 10, 110
SCALE, SHIFT = 2.0, 0.5


def ffi_call(target: str, **attributes: Any) -> Callable[[jax.Array], jax.Array]:
    """An op that calls an XLA FFI target."""

    def call(x: jax.Array) -> jax.Array:
        result = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.ffi.ffi_call(target, result)(x, **attributes)

    return call


def jitted_chain(op: Callable[[Any], Any]) -> Callable[[int], Callable[[], Any]]:
    """Builds jitted programs that call `op` one call after the other."""
    x = jnp.ones(16, jnp.float32)

    def build(length: int) -> Callable[[], Any]:
        def program(value: jax.Array) -> jax.Array:
            for _ in range(length):
                value = op(value)
            return value

        compiled = jax.jit(program).lower(x).compile()
        return lambda: compiled(x).block_until_ready()

    return build


def cases(library: Path) -> list[Case]:
    """Without attributes against the raw handler and jax-tvm-ffi, with two against jax-tvm-ffi."""
    theirs = tvm_ffi.load_module(str(library))
    jax_tvm_ffi.register_ffi_target("peer.touch", theirs.touch, ["args", "rets"])
    arguments = ["args", "rets", "attrs.scale", "attrs.shift"]
    jax_tvm_ffi.register_ffi_target("peer.touch_scaled", theirs.touch_scaled, arguments)
    handler = ctypes.CDLL(str(native.xla_handler())).touch
    jax.ffi.register_ffi_target("raw.touch", jax.ffi.pycapsule(handler), platform="cpu")

    ours = graphffi.load_module(str(library))
    touch = graphffi.define_op(
        "benchmark::touch", schema="(Tensor x) -> Tensor", kernel=ours.touch, infer=graphffi.like
    )
    scaled = graphffi.define_op(
        "benchmark::touch_scaled",
        schema="(Tensor x, float scale, float shift) -> Tensor out",
        kernel=ours.touch_scaled,
        plan="x, out, scale, shift",
        infer=lambda x, scale, shift: graphffi.like(x),
    )
    attributes = {"scale": np.float64(SCALE), "shift": np.float64(SHIFT)}
    plain: dict[str, Callable[[Any], Any]] = {
        "graphffi op": touch,
        "raw XLA FFI handler": ffi_call("raw.touch"),
        "jax-tvm-ffi": ffi_call("peer.touch"),
    }
    with_attributes: dict[str, Callable[[Any], Any]] = {
        "graphffi op": lambda x: scaled(x, SCALE, SHIFT),
        "jax-tvm-ffi": ffi_call("peer.touch_scaled", **attributes),
    }
    titles = ("jax.jit: op without attributes", "jax.jit: op with 2 attributes")
    return [
        Case(title, [Contender(n, chain(jitted_chain(f), SHORT, LONG)) for n, f in ops.items()])
        for title, ops in zip(titles, (plain, with_attributes), strict=True)
    ]
