# SPDX-License-Identifier: Apache-2.0
"""Writes the decoder's step, weights and kernels into one package, and builds the C++ program.

Run it with `python -m examples.llama_block_cpp.export model.pt2 decode`, from the root of the
repository, and then `./decode model.pt2 16 1 2 3`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import graphffi
import graphffi_torch
from examples.llama_block import model_torch, ops
from examples.llama_block.config import Config, Weights, random_weights

_HERE = Path(__file__).parent


class Step(torch.nn.Module):
    """One decoded token: `(token, position, caches)` to the next token, int64[1, 1]."""

    def __init__(self, config: Config, weights: Weights) -> None:
        """Keeps the weights as parameters: they go into the package.

        Args:
            config: The dimensions.
            weights: Of NumPy.
        """
        super().__init__()
        self.config = config
        loaded = model_torch.load_weights(weights, torch.float32)
        self.weights = self._register("weights", loaded)

    def _register(self, name: str, value: Any) -> Any:
        """Replaces every tensor by the name of a buffer."""
        if isinstance(value, torch.Tensor):
            self.register_buffer(name, value)
            return name
        if isinstance(value, dict):
            return {key: self._register(f"{name}_{key}", item) for key, item in value.items()}
        return [self._register(f"{name}_{i}", item) for i, item in enumerate(value)]

    def _loaded(self, value: Any) -> Any:
        if isinstance(value, str):
            return getattr(self, value)
        if isinstance(value, dict):
            return {key: self._loaded(item) for key, item in value.items()}
        return [self._loaded(item) for item in value]

    def forward(
        self, token: torch.Tensor, position: torch.Tensor, caches: model_torch.Caches
    ) -> torch.Tensor:
        """Appends to the caches in place.

        Args:
            token: int64[1, 1].
            position: int64[1].
            caches: Of every layer.
        """
        weights = self._loaded(self.weights)
        logits = model_torch.forward(self.config, ops, weights, token, position, caches)
        return logits[:, -1].argmax(-1, keepdim=True)


def export(config: Config, path: str) -> None:
    """Writes the package, with the sizes of the caches as metadata.

    Args:
        config: The dimensions; weights are random.
        path: Of the package.
    """
    caches = model_torch.empty_caches(config, torch.float32)
    arguments = (torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), caches)
    with torch.no_grad():
        exported = torch.export.export(Step(config, random_weights(config)), arguments)
        sizes = {
            "layers": config.layers,
            "kv_heads": config.kv_heads,
            "capacity": config.capacity,
            "head_dim": config.head_dim,
        }
        graphffi_torch.package(
            exported,
            path,
            inductor_configs={"aot_inductor.metadata": {k: str(v) for k, v in sizes.items()}},
        )


def build(program: str, source: Path = _HERE / "decode.cc") -> None:
    """Compiles and links decode.cc, or another program that runs packages.

    Args:
        program: Path of the program.
        source: Its source.
    """
    root = Path(torch.__file__).parent
    runtime = Path(graphffi.runtime_info().path)
    folders = [root / "lib", Path(graphffi_torch.library_path()), runtime.parent]
    command = [
        os.environ.get("CXX", "c++"),
        "-std=c++20" if torch.__version__ >= "2.14" else "-std=c++17",
        "-O1",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(f"-isystem{root / folder}" for folder in ("include", "include/torch/csrc/api/include")),
        f"-I{graphffi_torch.include_path()}",
        str(source),
        "-o",
        program,
        *(f"-L{folder}" for folder in folders),
        *(f"-Wl,-rpath,{folder}" for folder in folders),
        "-Wl,--no-as-needed",
        *("-lgraphffi_torch", "-ltvm_ffi", "-ltorch", "-ltorch_cpu", "-lc10"),
    ]
    subprocess.run(command, check=True)


def main() -> None:
    """Writes both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package")
    parser.add_argument("program")
    arguments = parser.parse_args()
    export(Config(), arguments.package)
    build(arguments.program)
    print(f"built {arguments.program} and {arguments.package}", file=sys.stderr)


if __name__ == "__main__":
    main()
