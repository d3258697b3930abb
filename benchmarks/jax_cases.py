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
    """Builds jitted programs that call `op` repeatedly, each call on the result of the last."""
    x = jnp.ones(16, jnp.float32)

    def build(length: int) -> Callable[[], Any]:
        def program(value: jax.Array) -> jax.Array:
            for _ in range(length):
                value = op(value)
            return value

        compiled = jax.jit(program).lower(x).compile()
        return lambda: compiled(x).block_until_ready()

    return build


def callback(kernel: Any) -> Callable[[jax.Array], jax.Array]:
    """A Python function that calls the kernel: it needs no build."""

    def on_host(x: Any) -> Any:
        source, out = np.array(x), np.empty(x.shape, x.dtype)
        kernel(source, out)
        return out

    def call(x: jax.Array) -> jax.Array:
        return jax.pure_callback(on_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    return call


def peer_workspace(name: str, num_bytes: int) -> Callable[[jax.Array], jax.Array]:
    """A target of jax-tvm-ffi whose last result is its workspace."""
    workspace = jax.ShapeDtypeStruct((num_bytes,), jnp.uint8)

    def call(x: jax.Array) -> jax.Array:
        result = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.ffi.ffi_call(name, (result, workspace))(x)[0]

    return call


def attribute_case(
    title: str, kernel: str, ours: Any, theirs: Any, schema: str, **values: Any
) -> Case:
    """An op with attributes against a target of jax-tvm-ffi with the same ones."""
    target, names = f"peer.{kernel}", ", ".join(values)
    spec = ["args", "rets", *(f"attrs.{name}" for name in values)]
    jax_tvm_ffi.register_ffi_target(target, theirs[kernel], spec)
    op = graphffi.define_op(
        f"benchmark::{kernel}",
        schema=f"(Tensor x, {schema}) -> Tensor out",
        kernel=ours[kernel],
        plan=f"x, out, {names}",
        infer=lambda x, *_: graphffi.like(x),
    )
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}
    contenders: dict[str, Callable[[Any], Any]] = {
        "graphffi op": lambda x: op(x, **plain),
        "jax-tvm-ffi": ffi_call(target, **values),
    }
    return chain_case(f"jax.jit: op with {title}", contenders)


def chain_case(title: str, ops: dict[str, Callable[[Any], Any]]) -> Case:
    """Chains of calls, graphffi's first."""
    return Case(title, [Contender(n, chain(jitted_chain(f), SHORT, LONG)) for n, f in ops.items()])


def simple_op(name: str, kernel: Any, **options: Any) -> Any:
    """An op of one operand and one result."""
    return graphffi.define_op(
        f"benchmark::{name}",
        schema="(Tensor x) -> Tensor",
        kernel=kernel,
        infer=graphffi.like,
        **options,
    )


def cases(library: Path) -> list[Case]:
    """Against the raw handler and jax-tvm-ffi."""
    theirs, ours = tvm_ffi.load_module(str(library)), graphffi.load_module(str(library))
    jax_tvm_ffi.register_ffi_target("peer.touch", theirs.touch, ["args", "rets"])
    handler = ctypes.CDLL(str(native.xla_handler())).touch
    jax.ffi.register_ffi_target("raw.touch", jax.ffi.pycapsule(handler), platform="cpu")
    jax_tvm_ffi.register_ffi_target(
        "peer.scratch",
        theirs.touch_scratch,
        ["args", "rets"],
        use_last_output_for_alloc_workspace=True,
    )

    def python_kernel(x: Any, out: Any) -> None:
        pass

    function = tvm_ffi.convert(python_kernel)
    jax_tvm_ffi.register_ffi_target(
        "peer.python", function, ["args", "rets"], pass_owned_tensor=True
    )
    plain: dict[str, Callable[[Any], Any]] = {
        "graphffi op": simple_op("touch", ours.touch),
        "raw XLA FFI handler": ffi_call("raw.touch"),
        "jax-tvm-ffi": ffi_call("peer.touch"),
        "jax.pure_callback": callback(theirs.touch),
    }
    scratch: dict[str, Callable[[Any], Any]] = {
        "graphffi op": simple_op("scratch", ours.touch_scratch, workspace=1024),
        "jax-tvm-ffi": peer_workspace("peer.scratch", 1024),
    }
    python: dict[str, Callable[[Any], Any]] = {
        "graphffi op": simple_op("python", python_kernel),
        "jax-tvm-ffi": ffi_call("peer.python"),
    }
    scale, shift = np.float64(SCALE), np.float64(SHIFT)
    both = (ours, theirs)
    return [
        chain_case("jax.jit: op without attributes", plain),
        attribute_case(
            "2 attributes",
            "touch_scaled",
            *both,
            "float scale, float shift",
            scale=scale,
            shift=shift,
        ),
        attribute_case(
            "8 ints as attribute", "touch_ints", *both, "int[] sizes", sizes=np.arange(8)
        ),
        attribute_case("a string as attribute", "touch_text", *both, "str text", text="x" * 16),
        chain_case("jax.jit: op that allocates in a workspace", scratch),
        chain_case("jax.jit: op whose kernel is a Python function", python),
    ]
