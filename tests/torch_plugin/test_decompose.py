# SPDX-License-Identifier: Apache-2.0
"""Exported programs whose operators are calls of kernels: `graphffi_torch.decompose`."""

from __future__ import annotations

import re
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
    names, _, conditions = call.args[-1].partition("\t")
    label, _, digest = names.rpartition(" ")
    assert label == "decomposed::double(x -> out)"
    assert (len(digest), "\n" in call.args[-1]) == (16, False)
    messages = [line for line in conditions.split("\t") if line.startswith("check ")]
    sizes = [re.sub(r"^check \d+ ValueError |\d+(?=\})", "", line) for line in messages[4:]]
    assert sizes == [
        "result 'out': expected size {} of 'n' as in operand 'x', got {}",
        "result 'out': expected size {} of 'm' as in operand 'x', got {}",
        "operand 'x': expected size 3 of 'm' as in the exported program, got {}",
        "result 'out': expected size 3 of 'm' as in the exported program, got {}",
    ]


def sized(name: str, rule: Any = graphffi.like, **options: Any) -> graphffi.Op:
    """An op that fills its result with 2, or with 1 where a condition holds."""
    op = graphffi.define_op(f"decomposed::{name}", schema="(Tensor x) -> Tensor", infer=rule)
    if options:
        op.add_kernel(fill(1), name="first", plan="out", **options)
    op.add_kernel(fill(2), name="second", plan="out")
    return op


def fill(value: float) -> Any:
    def kernel(out: Any) -> None:
        np.from_dlpack(out)[...] = value

    return kernel


def checked(x: Any) -> Any:
    graphffi.check(x.shape[0] >= 2, f"operand 'x': expected 2 or more, got {x.shape[0]}")
    return graphffi.like(x)


def two_or_more(x: Any) -> Any:
    return graphffi.like(x, shape=[max(x.shape[0], 2)])


by_reference = graphffi.define_op(
    "decomposed::branching",
    schema="(Tensor x) -> Tensor",
    infer=graphffi.like,
    fallback="reference",
)
by_reference.set_reference(lambda xp, x: x * 2 if x.shape[0] > 1 else x * 3)
#: Ops that decide something else for sizes of 0 or 1, for all of which torch decides as for 2.
DECIDING = {
    "ge": sized("ge", when=lambda x: x.shape[0] >= 2),
    "ne": sized("ne", when=lambda x: x.shape[0] != 1),
    "gt": sized("gt", when=lambda x: x.shape[0] > 1),
    "positive": sized("positive", when=lambda x: x.shape[0] > 0),
    "numel": sized("numel", when=lambda x: x.numel > 3),
    "half": sized("half", when=lambda x: x.shape[0] // 2 > 0),
    "quotient": sized("quotient", when=lambda x: x.shape[0] / 2 >= 1),
    "shape": sized("shape", two_or_more),
    "check": sized("check", checked),
    "reference": by_reference,
}
OTHERS = {
    "no condition": sized("plain"),
    "a condition that always holds": sized("always", when=lambda x: x.shape[0] + 1 > 0),
    "one on other sizes": sized("columns", when=lambda x: x.shape[1] > 2),
    "arithmetic": sized("half_shape", lambda x: graphffi.like(x, shape=[x.shape[0] // 2 + 1])),
}


def decomposed_call(op: graphffi.Op, dim: Any) -> Any:
    class Called(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return op(x)

    exported = torch.export.export(Called(), (torch.ones(4, 3),), dynamic_shapes=({0: dim},))
    return graphffi_torch.decompose(exported).module()


@pytest.mark.parametrize("name", DECIDING)
@pytest.mark.parametrize("dim", [torch.export.Dim("n"), torch.export.Dim.AUTO], ids=["n", "AUTO"])
def test_a_call_that_decides_on_sizes_refuses_0_and_1(name: str, dim: Any) -> None:
    run = decomposed_call(DECIDING[name], dim)
    for rows in (2, 3, 7):
        x = torch.ones(rows, 3)
        assert run(x).tolist() == DECIDING[name](x).tolist()
    for rows in (0, 1):
        with pytest.raises((ValueError, RuntimeError), match="'x': expected size 2 or more of dim"):
            run(torch.ones(rows, 3))


@pytest.mark.parametrize("name", OTHERS)
def test_a_call_that_decides_nothing_takes_all_sizes(name: str) -> None:
    run = decomposed_call(OTHERS[name], torch.export.Dim("n"))
    for rows in (0, 1, 2, 7):
        x = torch.ones(rows, 3)
        assert run(x).tolist() == OTHERS[name](x).tolist()


def test_a_decision_on_an_attribute_of_another_size_is_refused() -> None:
    op = graphffi.define_op(
        "decomposed::counted",
        schema="(Tensor x, int n) -> Tensor",
        infer=lambda x, n: graphffi.like(x),
    )
    op.add_kernel(fill(1), name="first", plan="out", when=lambda x, n: n >= 2)
    op.add_kernel(fill(2), name="second", plan="out")

    class Called(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            return op(x, y.shape[0])

    rows = torch.export.Dim("rows")
    given = (torch.ones(4), torch.ones(5))
    exported = torch.export.export(Called(), given, dynamic_shapes=(None, {0: rows}))
    text = "counted: decompose: expected decisions on attributes that hold for 0 and 1, too, got s"
    with pytest.raises(NotImplementedError, match=text):
        graphffi_torch.decompose(exported)
