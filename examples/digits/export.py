# SPDX-License-Identifier: Apache-2.0
"""Compiles the training step into a library, and builds a program in C that trains with it.

Run it with `python -m examples.digits.export digits.so train digits.bin`, from the root of the
repository, and then `./train digits.bin 20`, which needs neither Python nor torch.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import graphffi_torch
from examples.c_host import compile_host

from . import dataset, model, ops

RATE, MEAN_DECAY, SQUARE_DECAY, EPSILON = 3e-3, 0.9, 0.999, 1e-8


class Network(torch.nn.Module):
    """The parameters and what Adam keeps of each, as buffers."""

    def __init__(self, operations: ModuleType, seed: int) -> None:
        """With the network's initial parameters."""
        super().__init__()
        self.operations = operations
        self.register_buffer("count", torch.zeros(()))
        for name, value in model.initial_parameters(seed).items():
            self.register_buffer(name, torch.from_numpy(value))
            self.register_buffer(f"{name}_mean", torch.zeros(value.shape))
            self.register_buffer(f"{name}_square", torch.zeros(value.shape))
        self.names = [name for name, _ in self.named_buffers()]

    def state(self) -> dict[str, torch.Tensor]:
        """The buffers."""
        return {name: self.get_buffer(name) for name in self.names}


class Step(torch.nn.Module):
    """One step of Adam."""

    def __init__(self, network: Network) -> None:
        """Traces forward and backward pass: torch.export follows what is traced."""
        super().__init__()
        self.network = network
        state = {name: buffer.clone() for name, buffer in network.state().items()}

        def run(*given: Any) -> torch.Tensor:  # make_fx takes no methods
            return self._run(*given)

        self.traced = make_fx(run)(state, *_example())

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss before the step.

        Args:
            images: float32[batch, 8, 8].
            labels: int64[batch].
        """
        loss: torch.Tensor = self.traced(self.network.state(), images, labels)
        return loss

    def _run(
        self, state: dict[str, torch.Tensor], images: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        leaves = {
            name: state[name].detach().requires_grad_() for name in model.initial_parameters(0)
        }
        predicted = model.logits(self.network.operations, leaves, images)
        loss = torch.nn.functional.cross_entropy(predicted, labels)
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        state["count"].add_(1)
        for name, gradient in zip(leaves, gradients, strict=True):
            _update(state, name, gradient)
        return loss.detach()


def _update(state: dict[str, torch.Tensor], name: str, gradient: torch.Tensor) -> None:
    mean, square = state[f"{name}_mean"], state[f"{name}_square"]
    mean.mul_(MEAN_DECAY).add_(gradient, alpha=1 - MEAN_DECAY)
    square.mul_(SQUARE_DECAY).addcmul_(gradient, gradient, value=1 - SQUARE_DECAY)
    unbiased_mean = mean / (1 - MEAN_DECAY ** state["count"])
    unbiased_square = square / (1 - SQUARE_DECAY ** state["count"])
    state[name].sub_(RATE * unbiased_mean / (unbiased_square.sqrt() + EPSILON))


def _example() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(dataset.BATCH, 8, 8), torch.zeros(dataset.BATCH, dtype=torch.int64)


class Classify(torch.nn.Module):
    """The trained network."""

    def __init__(self, network: Network) -> None:
        """Shares the network's buffers with the steps that update them."""
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """int64[batch], the classes of images float32[batch, 8, 8]."""
        network = self.network
        predicted: torch.Tensor = model.logits(network.operations, network.state(), images)
        return predicted.argmax(-1)


def export(path: str, operations: ModuleType = ops, seed: int = 0) -> None:
    """Writes the library, with `step(images, labels)` and `classify(images)`.

    Args:
        path: Of the library.
        operations: `ops` or `reference_torch`.
        seed: Of the initial parameters.
    """
    images, labels = _example()
    count = torch.export.Dim("count", min=2)
    network = Network(operations, seed)
    step = torch.export.export(Step(network), (images, labels))
    classify = torch.export.export(Classify(network), (images,), dynamic_shapes=({0: count},))
    graphffi_torch.to_library({"step": step, "classify": classify}, path)


def write_data(path: str) -> None:
    """Writes what the program reads: two counts, and images and labels of both sets."""
    with open(path, "wb") as file:
        splits = dataset.load()
        np.array([len(split.labels) for split in splits], np.int64).tofile(file)
        for split in splits:
            split.images.tofile(file)
            split.labels.astype(np.int64).tofile(file)


def build(program: str, library: str) -> None:
    """Compiles and links train.c."""
    compile_host(Path(__file__).with_name("train.c"), program, library)


def main() -> None:
    """Writes all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("library", "program", "images"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    export(arguments.library)
    build(arguments.program, arguments.library)
    write_data(arguments.images)


if __name__ == "__main__":
    main()
