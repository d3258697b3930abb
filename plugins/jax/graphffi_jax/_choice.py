# SPDX-License-Identifier: Apache-2.0
"""Which kernel of an op a call runs on each platform."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np

import graphffi
from graphffi.plugin import Definition, OpKernel, UndecidedError, decidable, per_tensor

_INCONCLUSIVE: Final = "InconclusiveDimensionOperation"
OTHERS: Final = "another one"
"""In the place of a type of devices: all that no kernel names."""

# JAX 0.6 has it elsewhere.
_ERRORS: Final[Any] = jax.errors if hasattr(jax.errors, _INCONCLUSIVE) else jax.core
Inconclusive: Final[Any] = getattr(_ERRORS, _INCONCLUSIVE)


def device_type(platform: str) -> str:
    """The type of the devices of a platform of JAX, as graphffi calls it."""
    try:
        return graphffi.Device(platform).type
    except ValueError:
        return platform


def kernels_by_device(
    definition: Definition, operands: Sequence[Any], attributes: Sequence[Any]
) -> dict[str, OpKernel | str]:
    """The kernel that a call runs on each type of devices that kernels name, and on `OTHERS`.

    Where the program will run is not known yet.

    Args:
        definition: Of the op.
        operands: One `TensorSpec`, None or list of specs per operand.
        attributes: One value per attribute.

    Returns:
        For types without a kernel that fits, what the error says. One entry if kernels name no
        devices.
    """
    if not definition.has_choice:
        return {OTHERS: definition.candidates[0]}
    named = {kernel.device for kernel in definition.candidates if kernel.device}
    named |= {call.device for call in definition.tuning}
    types = sorted(named | {"cpu"}) if named else []
    return {kind: _choose(definition, operands, attributes, kind) for kind in (*types, OTHERS)}


def _choose(
    definition: Definition, operands: Sequence[Any], attributes: Sequence[Any], kind: str
) -> OpKernel | str:
    if kind != OTHERS:
        operands = [_on(operand, graphffi.Device(kind)) for operand in operands]
    seen = decidable(operands, _prove, _known)
    try:
        return definition.select(seen, attributes, kind)
    except NotImplementedError as error:
        return str(error)


@per_tensor
def _on(spec: graphffi.TensorSpec, device: graphffi.Device) -> graphffi.TensorSpec:
    return dataclasses.replace(spec, device=device)


def _prove(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    """Whether a comparison holds for all values of symbolic dimensions: programs have no guards.

    JAX takes equality that it cannot decide for inequality.

    Raises:
        UndecidedError: If it holds for some.
    """
    difference = a - b
    if isinstance(difference, (int, np.integer)):
        return bool(comparison(difference, 0))
    if comparison in (operator.eq, operator.ne):
        if not (_proves(operator.ge, difference, 1) or _proves(operator.le, difference, -1)):
            raise UndecidedError
        return comparison is operator.ne
    try:
        return bool(comparison(difference, 0))
    except Inconclusive:
        raise UndecidedError from None


def _known(size: Any) -> int:
    """The value of a size that is one number."""
    if isinstance(size, (int, np.integer)):
        return int(size)
    raise UndecidedError


def _proves(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    try:
        return bool(comparison(a, b))
    except Inconclusive:
        return False
