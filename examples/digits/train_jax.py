# SPDX-License-Identifier: Apache-2.0
"""Trains the network with JAX: one jitted step computes gradients and updates, with Adam."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from . import dataset, model

RATE, DECAY1, DECAY2, EPSILON = 3e-3, 0.9, 0.999, 1e-8


def _adam(state: Any, gradients: Any) -> Any:
    """One step; `state` is (number of steps, parameters, first moments, second moments)."""
    count, parameters, first, second = state
    count = count + 1
    first = jax.tree.map(lambda m, g: DECAY1 * m + (1 - DECAY1) * g, first, gradients)
    second = jax.tree.map(lambda m, g: DECAY2 * m + (1 - DECAY2) * g * g, second, gradients)

    def update(p: Any, m: Any, v: Any) -> Any:
        m, v = m / (1 - DECAY1**count), v / (1 - DECAY2**count)
        return p - RATE * m / (jnp.sqrt(v) + EPSILON)

    return count, jax.tree.map(update, parameters, first, second), first, second


def train(operations: ModuleType, *, epochs: int, seed: int = 0) -> Any:
    """Trains and tests.

    Args:
        operations: `ops` or `reference_jax`.
        epochs: How often the network sees the training set.
        seed: Of the initial parameters and of the batches.

    Returns:
        The share of correctly classified test images.
    """
    training, test = dataset.load()

    def loss(parameters: model.Parameters, images: Any, labels: Any) -> Any:
        predicted = jax.nn.log_softmax(model.logits(operations, parameters, images))
        return -jnp.take_along_axis(predicted, labels[:, None], -1).mean()

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state: Any, images: Any, labels: Any) -> Any:
        return _adam(state, jax.grad(loss)(state[1], images, labels))

    parameters = jax.tree.map(jnp.asarray, model.initial_parameters(seed))
    zeros = [jax.tree.map(jnp.zeros_like, parameters) for _ in range(2)]
    state = (jnp.float32(0), parameters, *zeros)
    for images, labels in dataset.batches(training, epochs=epochs, seed=seed):
        state = step(state, images, labels)
    predicted = model.logits(operations, state[1], jnp.asarray(test.images))
    return (predicted.argmax(-1) == test.labels).mean()
