# SPDX-License-Identifier: Apache-2.0
"""Decodes with FlashInfer's kernels, compares with plain torch, and prints tokens a second.

``python -m examples.flashinfer.run [torch] [jax]`` needs a GPU, PyTorch, nvcc and FlashInfer's
sources: see `build`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from . import build, model
from .config import BATCH, MOST_TOKENS

_COMPARED: Final = 64  # steps; more than a page
_TOLERANCE: Final = 0.03  # of logits, whose standard deviation is 1
_FIRST: Final = np.arange(BATCH, dtype="int32")

Decode = Callable[[int, bool], tuple[np.ndarray, np.ndarray] | None]
"""Decodes so many tokens from the first ones. If asked for, gives the tokens that went in and the
logits: ``[BATCH, count]`` and ``[BATCH, count, VOCABULARY]``."""


def torch_decoder(device: str, mode: str | None) -> Decode:
    """The model in torch: eager without a mode of `torch.compile`."""
    import torch

    import graphffi_torch  # noqa: F401

    def on_device(tree: Any) -> Any:
        def one(array: Any) -> Any:
            tensor = torch.from_numpy(np.array(array)).to(device)
            torch._dynamo.mark_static_address(tensor)  # recorded graphs may update it
            return tensor

        return model.mapped(one, tree)

    weights, constants = on_device(model.make_weights()), on_device(model.make_constants())
    caches, token = on_device(model.make_caches()), on_device(_FIRST)
    position = on_device(np.int32(0))

    def advance() -> Any:
        found, logits, _ = model.step(
            weights, constants, caches, token, position, torch.Tensor.float
        )
        token.copy_(found)
        position.add_(1)
        return logits

    run = advance if mode is None else torch.compile(advance, mode=mode, fullgraph=True)

    def decode(count: int, keep: bool) -> tuple[np.ndarray, np.ndarray] | None:
        token.copy_(torch.from_numpy(_FIRST))
        position.zero_()
        kept = []
        with torch.no_grad():
            for _ in range(count):
                before = token.cpu().numpy().copy() if keep else None
                logits = run()
                if keep:
                    kept.append((before, logits.cpu().numpy().copy()))
        token.cpu()  # waits
        return _stacked(kept)

    return decode


def jax_decoder() -> Decode:
    """The model in JAX, as one program that a loop in Python calls."""
    import jax

    import graphffi_jax  # noqa: F401

    def advance(weights: Any, constants: Any, caches: Any, token: Any, position: Any) -> Any:
        found, logits, caches = model.step(
            weights, constants, caches, token, position, lambda x: x.astype("float32")
        )
        return found, logits, caches, position + 1

    run = jax.jit(advance, donate_argnums=2)
    fixed = jax.device_put((model.make_weights(), model.make_constants()))

    def decode(count: int, keep: bool) -> tuple[np.ndarray, np.ndarray] | None:
        caches, token, position = jax.device_put((model.make_caches(), _FIRST, np.int32(0)))
        kept = []
        for _ in range(count):
            before = token
            token, logits, caches, position = run(*fixed, caches, before, position)
            if keep:
                kept.append((np.asarray(before), np.asarray(logits)))
        token.block_until_ready()
        return _stacked(kept)

    return decode


def _stacked(kept: list[Any]) -> tuple[np.ndarray, np.ndarray] | None:
    if not kept:
        return None
    tokens, logits = (np.stack(part, axis=1) for part in zip(*kept, strict=True))
    return tokens, logits


DECODERS: Final[dict[str, dict[str, Callable[[], Decode]]]] = {
    "torch": {
        "torch, eager": lambda: torch_decoder("cuda", None),
        "torch, reduce-overhead": lambda: torch_decoder("cuda", "reduce-overhead"),
    },
    "jax": {"jax": jax_decoder},
}


def compare(decode: Decode) -> float:
    """The largest difference of logits from plain torch.

    Raises:
        AssertionError: If it is too large, or a token is not a most likely one.
    """
    import torch

    from .reference import logits_of

    found = decode(_COMPARED, True)
    assert found is not None
    tokens, logits = found
    weights = model.mapped(torch.from_numpy, model.make_weights())
    expected = logits_of(weights, torch.from_numpy(tokens).long()).numpy()
    by_step = np.abs(expected - logits).max(axis=(0, 2))
    assert by_step.max() < _TOLERANCE, f"expected equal logits, they differ by step: {by_step}"
    chosen = np.take_along_axis(logits[:, :-1], tokens[:, 1:, None], axis=-1)[..., 0]
    wrong = np.argwhere(chosen < logits[:, :-1].max(axis=-1) - 1e-3)
    assert not wrong.size, f"expected the most likely tokens, got others at {wrong[:5].tolist()}"
    return float(by_step.max())


def tokens_per_second(decode: Decode) -> float:
    """The best of three runs."""

    def seconds() -> float:
        begin = time.perf_counter()
        decode(MOST_TOKENS, False)
        return time.perf_counter() - begin

    decode(8, False)
    return BATCH * MOST_TOKENS / min(seconds() for _ in range(3))


def compile_kernels(arch: str = "native") -> None:
    """Compiles FlashInfer's kernels, unless libraries of them are found already.

    Raises:
        FileNotFoundError: If there are no sources.
    """
    folders = os.environ.get("GRAPHFFI_LIBRARY_PATH", "")
    for folder in folders.split(":"):
        if all(Path(folder, f"flashinfer_{name}.so").is_file() for name in build.SOURCES):
            return
    source = build.find_source()
    if source is None:
        raise FileNotFoundError("flashinfer: expected its sources, got none; set FLASHINFER_SOURCE")
    build.build(list(build.SOURCES), source, arch)
    os.environ["GRAPHFFI_LIBRARY_PATH"] = f"{build.FOLDER}:{folders}".rstrip(":")


def main() -> None:
    """Runs the frameworks that are named; both by default."""
    compile_kernels()
    for framework in sys.argv[1:] or DECODERS:
        for name, make in DECODERS[framework].items():
            decode = make()
            print(f"{name}: logits differ by {compare(decode):.4f}", flush=True)
            print(f"{name}: {tokens_per_second(decode):.0f} tokens a second", flush=True)


if __name__ == "__main__":
    main()
