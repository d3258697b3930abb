# SPDX-License-Identifier: Apache-2.0
"""Trains the network with PyTorch: forward and backward are compiled, Adam is torch's."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from . import dataset, model


def train(operations: ModuleType, *, epochs: int, seed: int = 0, compiled: bool = True) -> Any:
    """Trains and tests.

    Args:
        operations: `ops` or `reference_torch`.
        epochs: How often the network sees the training set.
        seed: Of the initial parameters and of the batches.
        compiled: Whether to use torch.compile.

    Returns:
        The share of correctly classified test images.
    """
    training, test = dataset.load()
    parameters = {
        name: torch.from_numpy(value).requires_grad_()
        for name, value in model.initial_parameters(seed).items()
    }

    def loss(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        predicted = model.logits(operations, parameters, images)
        return torch.nn.functional.cross_entropy(predicted, labels)

    if compiled:
        loss = torch.compile(loss, fullgraph=True)
    adam = torch.optim.Adam(parameters.values(), lr=3e-3)
    for images, labels in dataset.batches(training, epochs=epochs, seed=seed):
        adam.zero_grad()
        value = loss(torch.from_numpy(images), torch.from_numpy(labels).long())
        value.backward()  # type: ignore[no-untyped-call]
        adam.step()
    with torch.no_grad():
        predicted = model.logits(operations, parameters, torch.from_numpy(test.images))
    return (predicted.argmax(-1).numpy() == test.labels).mean()
