# SPDX-License-Identifier: Apache-2.0
"""Compare the decoder on C++ kernels with the plain one: logits, decoded tokens, tokens a second.

Run it with `python -m examples.llama_block.run`, from the root of the repository.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .config import Config, Weights, random_weights


@dataclass(frozen=True)
class Decoder:
    """One decoder, ready to run: `decode(forced)` gives tokens and logits as NumPy arrays."""

    name: str
    decode: Callable[[Any], tuple[Any, Any]]

    def tokens_per_second(self, count: int) -> float:
        """Time the prefill of the prompt and `count` decoded tokens; the best of three."""

        def seconds() -> float:
            start = time.perf_counter()
            self.decode(None)
            return time.perf_counter() - start

        return count / min(seconds() for _ in range(3))


def torch_decoders(
    config: Config, weights: Weights, prompt: Any, dtype: str, count: int
) -> list[Decoder]:
    """Make the plain decoder and the one on kernels, both compiled, in PyTorch."""
    import torch

    from . import model_torch, ops, reference_torch

    torch.set_num_threads(1)  # the kernels use one, and these matrices are too small for more
    torch.compiler.reset()  # its limit of graphs is for all models with the same code
    torch_dtype = getattr(torch, dtype)
    loaded = model_torch.load_weights(weights, torch_dtype)

    def decoder(name: str, operations: Any) -> Decoder:
        step = model_torch.make_step(config, operations, loaded, compiled=True)

        def decode(forced: Any) -> tuple[Any, Any]:
            with torch.no_grad():
                tokens, logits = model_torch.generate(
                    step,
                    torch.from_numpy(prompt),
                    model_torch.empty_caches(config, torch_dtype),
                    count=count,
                    forced=None if forced is None else torch.from_numpy(forced),
                )
            return tokens.numpy(), logits.numpy()

        return Decoder(f"torch.compile {name}", decode)

    return [decoder("plain", reference_torch), decoder("kernels", ops)]


def jax_decoders(
    config: Config, weights: Weights, prompt: Any, dtype: str, count: int
) -> list[Decoder]:
    """Make the plain decoder and the one on kernels, both compiled, in JAX."""
    import jax.numpy as jnp

    from . import model_jax, ops, reference_jax

    loaded = model_jax.load_weights(weights, dtype)

    def decoder(name: str, operations: Any) -> Decoder:
        step = model_jax.make_step(config, operations, loaded, compiled=True)

        def decode(forced: Any) -> tuple[Any, Any]:
            tokens, logits = model_jax.generate(
                step,
                jnp.asarray(prompt, jnp.int32),
                model_jax.empty_caches(config, dtype),
                count=count,
                forced=None if forced is None else jnp.asarray(forced, jnp.int32),
            )
            return np.asarray(tokens), np.asarray(logits)

        return Decoder(f"jax.jit {name}", decode)

    return [decoder("plain", reference_jax), decoder("kernels", ops)]


def compare(decoders: list[Decoder], dtype: str, count: int) -> None:
    """Print a line for each decoder; the first one is the reference.

    Errors and the most likely tokens are compared while all decoders see the same tokens. Free
    decodes part for good where two logits are equal or nearly so, as happens in bfloat16.
    """
    print(
        f"\n{dtype:<24}{'compile s':>10}{'max |logit|':>13}{'max error':>11}{'same argmax':>13}"
        f"{'same tokens':>13}{'tokens/s':>10}"
    )
    reference_tokens, reference_logits = None, None
    for decoder in decoders:
        start = time.perf_counter()
        tokens, _ = decoder.decode(None)
        compile_seconds = time.perf_counter() - start
        if reference_tokens is None:
            reference_tokens = tokens
        _, logits = decoder.decode(reference_tokens)  # every decoder sees the same tokens
        if reference_logits is None:
            reference_logits = logits
        print(
            f"{decoder.name:<24}{compile_seconds:>10.1f}{np.abs(logits).max():>13.3f}"
            f"{np.abs(logits - reference_logits).max():>11.1e}"
            f"{np.mean(logits.argmax(-1) == reference_logits.argmax(-1)):>13.0%}"
            f"{(tokens == reference_tokens).sum():>8}/{tokens.size:<4}"
            f"{decoder.tokens_per_second(count):>10.0f}"
        )


def main() -> None:
    """Run the comparison in every framework that is installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--count", type=int, default=64, help="tokens to decode")
    parser.add_argument("--prompt", type=int, default=16, help="tokens of the prompt")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    arguments = parser.parse_args()
    config = Config(layers=arguments.layers, capacity=arguments.prompt + arguments.count)
    weights = random_weights(config)
    prompt = np.random.default_rng(1).integers(0, config.vocabulary, (1, arguments.prompt))
    for dtype in arguments.dtypes:
        decoders: list[Decoder] = []
        for module, make in (("torch", torch_decoders), ("jax", jax_decoders)):
            if importlib.util.find_spec(module) is None:
                print(f"{module} is not installed")
            else:
                decoders += make(config, weights, prompt, dtype, arguments.count)
        compare(decoders, dtype, arguments.count)


if __name__ == "__main__":
    main()
