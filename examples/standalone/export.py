# SPDX-License-Identifier: Apache-2.0
"""Compiles the decoder's prefill and decode steps into one library, and builds the C program.

Run it with `python -m examples.standalone.export llama.so decode`, from the root of the
repository, and then `./decode 4 2 128 32 16 1 2 3 4 5` or
`python -m examples.standalone.hosts llama.so`, which decode the same tokens.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import graphffi_torch
from examples.c_host import compile_host
from examples.llama_block import model_torch
from examples.llama_block.config import Config, random_weights
from examples.llama_block_cpp.export import Step

_HERE = Path(__file__).parent


def export(config: Config, path: str) -> None:
    """Writes the library, with functions `prefill` and `decode`, which share the weights.

    Both take `(tokens, positions, *caches)`: int64[1, count], int64[count] and the keys and values
    of each layer, which they update. They return the next token, int64[1, 1].

    Args:
        config: The dimensions; weights are random.
        path: Of the library.
    """
    step = Step(config, random_weights(config))
    caches = model_torch.empty_caches(config, torch.float32)
    count = torch.export.Dim("count", min=2, max=config.capacity)
    fixed = [(None, None) for _ in caches]
    with torch.no_grad():
        prefill = torch.export.export(
            step,
            (torch.zeros(1, 5, dtype=torch.int64), torch.arange(5), caches),
            dynamic_shapes=({1: count}, {0: count}, fixed),
        )
        decode = torch.export.export(
            step, (torch.zeros(1, 1, dtype=torch.int64), torch.arange(1), caches)
        )
    graphffi_torch.to_library({"prefill": prefill, "decode": decode}, path)


def build(program: str, library: str) -> None:
    """Compiles and links decode.c.

    Args:
        program: Path of the program.
        library: Path of the library.
    """
    compile_host(_HERE / "decode.c", program, library)


def main() -> None:
    """Writes both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("program")
    arguments = parser.parse_args()
    export(Config(), arguments.library)
    build(arguments.program, arguments.library)


if __name__ == "__main__":
    main()
