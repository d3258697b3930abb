# SPDX-License-Identifier: Apache-2.0
"""Which kernel of an op a call runs on each platform."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import graphffi
from graphffi.plugin import Definition, OpKernel, Symbols, per_tensor
from graphffi_jax._export.decisions import known, prove

OTHERS: Final = "another one"
"""In the place of a type of devices: all that no kernel names."""


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
    seen = Symbols(prove, known).seen(operands)
    try:
        return definition.select(seen, attributes, kind)
    except NotImplementedError as error:
        return str(error)


@per_tensor
def _on(spec: graphffi.TensorSpec, device: graphffi.Device) -> graphffi.TensorSpec:
    return dataclasses.replace(spec, device=device)
