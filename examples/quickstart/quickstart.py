# SPDX-License-Identifier: Apache-2.0
"""Compile two C++ kernels, define two ops, and run them in every framework that is installed.

Run it with `python examples/quickstart/quickstart.py`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import graphffi
from graphffi import Tensor

source = Path(__file__).parent / "kernels.cc"
kernels = graphffi.load_module(graphffi.cpp.build("quickstart", sources=[source]))


@graphffi.op("quickstart::add_one", kernel=kernels.add_one)
def add_one(x: Tensor) -> Tensor:
    """Add 1 to every element of `x`."""
    return graphffi.like(x)


@graphffi.op("quickstart::scale", kernel=kernels.scale, plan="x, factor, out")
def scale(x: Tensor, factor: float) -> Tensor:
    """Multiply every element of `x` by `factor`."""
    return graphffi.like(x)


def run_numpy() -> object:
    """NumPy arrays."""
    import numpy as np

    x = np.arange(4, dtype=np.float32)
    return scale(add_one(x), 10.0)


def run_torch() -> object:
    """Eager PyTorch."""
    import torch

    x = torch.arange(4, dtype=torch.float32)
    return scale(add_one(x), 10.0)


def run_torch_compile() -> object:
    """PyTorch, compiled into one graph."""
    import torch

    compiled = torch.compile(lambda x: scale(add_one(x), 10.0), fullgraph=True)
    return compiled(torch.arange(4, dtype=torch.float32))


def run_jax() -> object:
    """JAX, compiled by XLA."""
    import jax

    compiled = jax.jit(lambda x: scale(add_one(x), 10.0))
    return compiled(jax.numpy.arange(4, dtype="float32"))


DRIVERS: tuple[tuple[str, str, Callable[[], object]], ...] = (
    ("numpy", "NumPy", run_numpy),
    ("torch", "PyTorch, eager", run_torch),
    ("torch", "torch.compile", run_torch_compile),
    ("jax", "jax.jit", run_jax),
)


def main() -> None:
    """Run every driver whose framework is installed and print its result."""
    print("(x + 1) * 10 for x = 0, 1, 2, 3 is 10, 20, 30, 40; graphffi computes")
    for module, title, run in DRIVERS:
        if importlib.util.find_spec(module) is None:
            print(f"{title:>16}: {module} is not installed")
        else:
            print(f"{title:>16}: {run()}")


if __name__ == "__main__":
    main()
