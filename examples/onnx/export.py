# SPDX-License-Identifier: Apache-2.0
"""Exports a model from PyTorch, with all that a program in C needs to run it beside it.

Run it with `python -m examples.onnx.export deployed`, from the root of the repository, and then
`cd deployed && ./host model.onnx` or `python -m examples.onnx.run deployed/model.onnx`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from pathlib import Path

import torch

import graphffi
import graphffi_onnxruntime
from examples.onnx.ops import accumulate, gate, norm


class Model(torch.nn.Module):
    """Passes what is normed through a gate, and keeps the sum of all rows in a buffer."""

    total: torch.Tensor

    def __init__(self) -> None:
        """Weights are small numbers, not random ones."""
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(4) / 4, requires_grad=False)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of x, float32[rows, 4], gives float32[rows, 4]."""
        normed = norm(x, self.weight)
        accumulate(normed, self.total)
        gated: torch.Tensor = gate(norm(normed + self.total))
        return gated


def export(path: str) -> None:
    """Writes the model, the list of its ops, and the library with their kernels."""
    rows = torch.export.Dim.DYNAMIC
    graphffi_onnxruntime.export(
        *(Model(), path, (torch.ones(2, 4),)),
        dynamic_shapes=({0: rows},),
        input_names=["x"],
        output_names=["y"],
    )


def deploy(folder: Path) -> None:
    """Copies the libraries of graphffi and ONNX Runtime, and builds the program in C."""
    import onnxruntime

    capi = Path(onnxruntime.__file__).parent / "capi"
    libraries = {
        "libtvm_ffi.so": str(graphffi.runtime_info().path),
        "libgraphffi_onnxruntime.so": graphffi_onnxruntime.library_path(),
        "libonnxruntime.so.1": str(next(capi.glob("libonnxruntime.so.*"))),
    }
    for name, library in libraries.items():
        shutil.copyfile(library, folder / name)
    command = [
        *(os.environ.get("CC", "cc"), "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"),
        *(str(Path(__file__).with_name("host.c")), "-o", str(folder / "host")),
        *(str(folder / "libonnxruntime.so.1"), "-Wl,-rpath,$ORIGIN"),
    ]
    subprocess.run(command, check=True)


def main() -> None:
    """Does both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    export(str(folder / "model.onnx"))
    deploy(folder)


if __name__ == "__main__":
    main()
