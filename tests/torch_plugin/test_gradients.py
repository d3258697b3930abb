# SPDX-License-Identifier: Apache-2.0
"""Without a gradient rule there is an error, never a silently wrong or missing gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

MODES = [lambda f: f, lambda f: torch.compile(f, fullgraph=True, backend="aot_eager")]


@pytest.mark.parametrize("wrap", MODES, ids=["eager", "compiled"])
def test_forward_works_and_backward_says_what_is_missing(ops: Any, wrap: Any) -> None:
    x = torch.ones(3, requires_grad=True)
    y = wrap(lambda x: ops.add(x) * 2)(x)
    assert y.requires_grad
    assert y.tolist() == [4, 4, 4]
    with pytest.raises(
        NotImplementedError, match="mytest::add: backward: expected a gradient rule"
    ):
        y.sum().backward()
    assert x.grad is None


def gradient(function: Any, x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().requires_grad_()
    return torch.autograd.grad(function(leaf).sum(), leaf)[0]


class Gradient(torch.nn.Module):
    """Asks for a gradient while it is exported."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return gradient(self.function, x)


TRANSFORMS = {
    "func.grad": lambda f, x: torch.func.grad(lambda x: f(x).sum())(x),
    "compiled func.grad": lambda f, x: torch.compile(
        torch.func.grad(lambda x: f(x).sum()), fullgraph=True, backend="aot_eager"
    )(x),
    "make_fx": lambda f, x: make_fx(lambda x: gradient(f, x))(x)(x),
    "export": lambda f, x: torch.export.export(Gradient(f), (x,)).module()(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transformations_say_what_is_missing(ops: Any, name: str) -> None:
    with pytest.raises(NotImplementedError, match="mytest::add: backward: expected a gradient r"):
        TRANSFORMS[name](ops.add, torch.ones(3))


def test_no_grad_records_nothing(ops: Any) -> None:
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert not ops.add(x).requires_grad
        ops.increment(x)
    with torch.inference_mode():
        assert ops.add(x).tolist() == [3, 3, 3]


WRITES = {
    "one operand": lambda ops, x: ops.increment(x * 1),
    "a leaf": lambda ops, x: ops.increment(x),
    "by name": lambda ops, x: ops.increment(by=2, x=x),
    "with a result": lambda ops, x: ops.increment_and_copy(x * 1),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writing_what_is_recorded_is_the_same_error_when_compiled(
    ops: Any, write: Any, fullgraph: bool, backend: str
) -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(
        NotImplementedError,
        match=r"mytest::increment\w*: operand 'x': expected no gradient to record",
    ) as eager:
        write(ops, x)
    compiled = torch.compile(lambda x: write(ops, x), fullgraph=fullgraph, backend=backend)
    with pytest.raises(NotImplementedError) as traced:
        compiled(x)
    assert (type(traced.value), str(traced.value)) == (type(eager.value), str(eager.value))


def test_the_primitive_refuses_differentiable_inputs(kernels: Any) -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"operand 'inputs\[0\]': expected no gradient"):
        torch.ops.tvm_ffi.call(
            kernels.add.reference, [x], [torch.empty(3)], "i0, f0, o0", floats=[1.0]
        )


@pytest.mark.parametrize("is_primitive", [False, True])
def test_saved_tensors_may_be_updated_where_torch_keeps_copies(
    ops: Any, kernels: Any, is_primitive: bool
) -> None:
    w = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        x = torch.ones(3)
        y = w * x
        if is_primitive:
            torch.ops.tvm_ffi.call(kernels.increment.reference, [], [x], "o0, f0", floats=[1.0])
        else:
            ops.increment(x)
        y.sum().backward()
    assert (w.grad.tolist(), x.tolist()) == ([1] * 3, [2] * 3)


def test_versions_are_bumped_so_that_saved_tensors_are_protected(ops: Any) -> None:
    w = torch.ones(3, requires_grad=True)
    x = torch.ones(3)
    y = w * x
    version = x._version
    ops.increment(x)
    assert x._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
