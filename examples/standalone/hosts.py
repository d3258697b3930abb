# SPDX-License-Identifier: Apache-2.0
"""Decodes with the library in NumPy, by graphffi and by apache-tvm-ffi, and in JAX.

Run it with `python -m examples.standalone.hosts llama.so`, from the root of the repository.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.llama_block.config import Config


def _cache_shape(config: Config) -> tuple[int, ...]:
    return 1, config.kv_heads, config.capacity, config.head_dim


def decode_numpy(path: str, config: Config, prompt: list[int], count: int) -> list[int]:
    """The tokens that follow a prompt.

    Args:
        path: Of the library.
        config: The dimensions that it was exported with.
        prompt: Two tokens at least.
        count: How many tokens to decode after the first one.
    """
    import graphffi

    return _decode_arrays(graphffi.load_module(path), config, prompt, count)


def decode_apache(path: str, config: Config, prompt: list[int], count: int) -> list[int]:
    """The same by apache-tvm-ffi's package alone, as any library of TVM FFI functions."""
    import tvm_ffi

    return _decode_arrays(tvm_ffi.load_module(path), config, prompt, count, tvm_ffi.from_dlpack)


def _decode_arrays(
    model: Any,
    config: Config,
    prompt: list[int],
    count: int,
    as_argument: Callable[[NDArray[Any]], Any] = lambda array: array,
) -> list[int]:
    arrays = [np.zeros(_cache_shape(config), np.float32) for _ in range(2 * config.layers)]
    caches = [as_argument(array) for array in arrays]

    def step(function: Any, tokens: list[int], begin: int) -> int:
        positions = np.arange(begin, begin + len(tokens))
        given = as_argument(np.array([tokens])), as_argument(positions)
        token: Any = np.from_dlpack(function(*given, *caches))
        return int(token.item())

    tokens = [step(model.prefill, prompt, 0)]
    for position in range(len(prompt), len(prompt) + count):
        tokens.append(step(model.decode, tokens[-1:], position))
    return tokens


def decode_jax(path: str, config: Config, prompt: list[int], count: int) -> list[int]:
    """The same by jitted steps, whose caches are donated: they are updated in place."""
    import jax
    import jax.numpy as jnp

    import graphffi

    names = [f"cache{i}" for i in range(2 * config.layers)]
    caches = ", ".join(f"Tensor(a{i}!) {name}" for i, name in enumerate(names))

    def make_step(method: str) -> Any:
        op = graphffi.define_op(
            f"llama_library::{method}",
            schema=f"(Tensor tokens, Tensor positions, {caches}) -> Tensor",
            kernel=f"{path}::{method}_into",
            infer=lambda tokens, *_: graphffi.like(tokens, shape=(1, 1)),
        )
        return jax.jit(op, donate_argnums=range(2, 2 + len(names)))

    prefill, decode = make_step("prefill"), make_step("decode")
    with jax.enable_x64():
        arrays = [jnp.zeros(_cache_shape(config), jnp.float32) for _ in names]
        token, *arrays = prefill(jnp.array([prompt]), jnp.arange(len(prompt)), *arrays)
        tokens = [token]
        for position in range(len(prompt), len(prompt) + count):
            token, *arrays = decode(token, jnp.array([position]), *arrays)
            tokens.append(token)
    return [int(token.item()) for token in tokens]


def main() -> None:
    """Prints what all decode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    path = parser.parse_args().library
    for decode in (decode_numpy, decode_apache, decode_jax):
        print(decode.__name__, *decode(path, Config(), [1, 2, 3, 4, 5], 16))


if __name__ == "__main__":
    main()
