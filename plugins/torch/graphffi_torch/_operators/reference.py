# SPDX-License-Identifier: Apache-2.0
"""References of ops where PyTorch calls no kernel: in eager code and in graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils.dlpack import from_dlpack

import graphffi
from graphffi.plugin import flat, per_tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphffi import TensorSpec
    from graphffi.plugin import DefinedOp, Definition


def install_reference(op: DefinedOp) -> None:
    """Makes the name by which calls of an op run its reference mean that."""
    for kernel in op.definition.candidates:
        if kernel.is_reference:
            graphffi.register_global_func(kernel.reference, _make_kernel(op), override=True)


def _make_kernel(op: DefinedOp) -> Any:
    """The reference as a kernel: it gets the parameters, then the results to fill."""

    def run(*values: Any) -> None:
        definition = op.definition
        count = len(definition.parameters)
        results = [from_dlpack(value) for value in values[count:]]
        operands, attributes = definition.split(values[:count])
        with torch.no_grad():
            compute_into(
                definition, [per_tensor(from_dlpack)(o) for o in operands], attributes, results
            )

    return run


def compute_into(
    definition: Definition,
    operands: Sequence[Any],
    attributes: Sequence[Any],
    results: Sequence[torch.Tensor],
) -> None:
    """Fills results, and updates operands, with what the op computes."""
    found = compute(definition, operands, attributes, [_spec(result) for result in results])
    for tensor, new in zip([*results, *definition.updated(operands)], found, strict=True):
        tensor.copy_(new)


def compute(
    definition: Definition,
    operands: Sequence[Any],
    attributes: Sequence[Any],
    specs: Sequence[TensorSpec],
) -> list[torch.Tensor]:
    """The results, row-major, and the new values of updated operands.

    Data types are those that the op says, under `torch.autocast`, too.
    """
    assert definition.reference is not None
    device = next((tensor.device.type for tensor in flat(operands)), "cpu")
    with torch.autocast(device, enabled=False):
        found = definition.reference.run(definition, operands, attributes, specs)
    return [tensor.contiguous() for tensor in found]


def _spec(tensor: torch.Tensor) -> TensorSpec:
    return graphffi.TensorSpec(tuple(tensor.shape), tensor.dtype)
