# SPDX-License-Identifier: Apache-2.0
"""Exported programs whose operators are calls of kernels: `graphffi_torch.decompose`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import graphffi
import graphffi_torch
from graphffi import Tensor

X = torch.arange(6.0).reshape(2, 3)


def double(x: Any, y: Any) -> None:
    np.from_dlpack(y)[...] = 2 * np.from_dlpack(x)


@graphffi.op("decomposed::double", kernel=double, plan="x, out", dims="n m -> n m")
def doubled(x: Tensor) -> Tensor:
    return graphffi.like(x)


@graphffi.op("decomposed::reference", fallback="reference")
def doubled_by_reference(x: Tensor) -> Tensor:
    return graphffi.like(x)


doubled_by_reference.set_reference(lambda xp, x: x + x)


class IntoZeros(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(2, 3)
        getattr(torch.ops.decomposed, self.name).out(x, out=y)
        return y + 1


@pytest.mark.parametrize("name", ["double", "reference"])
def test_tensors_to_fill_are_filled(name: str) -> None:
    exported = torch.export.export(IntoZeros(name), (X,))
    decomposed = graphffi_torch.decompose(exported)
    assert not any("decomposed" in str(node.target) for node in decomposed.graph.nodes)
    assert decomposed.module()(X + 1).tolist() == (2 * X + 3).tolist()
    with pytest.raises(ValueError, match="expected a program before run_decompositions"):
        graphffi_torch.decompose(exported.run_decompositions({}))


def test_calls_name_dimensions_and_sizes() -> None:
    class Doubled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return doubled(x)

    rows = torch.export.Dim("rows")
    exported = torch.export.export(Doubled(), (X,), dynamic_shapes=({0: rows},))
    (call,) = graphffi_torch.decompose(exported).graph.find_nodes(
        op="call_function", target=torch.ops.tvm_ffi.call.default
    )
    label, _, digest = call.args[-1].rpartition(" ")
    assert label == "decomposed::double(x:float32[n m=3] -> out:float32[n m=3])"
    assert len(digest) == 16
