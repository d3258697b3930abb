# SPDX-License-Identifier: Apache-2.0
"""Which calls torch's compilers may record into CUDA graphs: those whose definition allows it."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch._inductor.lowering  # imports the module below
from torch._inductor import scheduler
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import Scheduler
from torch._inductor.utils import is_cudagraph_unsafe_op

import graphffi
import graphffi_torch
from graphffi_torch._compiled import inductor as _inductor

if TYPE_CHECKING:
    from collections.abc import Iterator

UNSAFE = torch.Tag.cudagraph_unsafe


@pytest.fixture(scope="module")
def ops(kernels: Any) -> SimpleNamespace:
    """The same kernel, allowed and not, functional and in place."""
    rest = {"schema": "(Tensor x, float a) -> Tensor", "kernel": kernels.add}

    def infer(x: Any, a: float) -> Any:
        return graphffi.like(x)

    in_place = {"schema": "(Tensor(a!) x, float by) -> ()", "kernel": kernels.increment}
    define = graphffi.define_op
    return SimpleNamespace(
        safe=define("recorded::safe", infer=infer, allow_cuda_graph=True, **rest),
        unsafe=define("recorded::unsafe", infer=infer, **rest),
        safe_update=define("recorded::safe_update", allow_cuda_graph=True, **in_place),
        unsafe_update=define("recorded::unsafe_update", **in_place),
        effect=define("recorded::effect", has_side_effect=True, **in_place),
    )


def test_operators_say_whether_they_may_be_recorded(ops: SimpleNamespace) -> None:
    assert ops.safe(torch.ones(1), 1.0).item() == 2
    own, primitives = torch.ops.recorded, torch.ops.tvm_ffi
    for operator in (own.safe.default, own.safe.out, own.safe_update.default):
        assert UNSAFE not in operator.tags
    for operator in (own.unsafe.default, own.unsafe.out, own.unsafe_update.default):
        assert UNSAFE in operator.tags
    assert UNSAFE in own.effect.effect.tags
    assert UNSAFE in primitives.call.default.tags
    assert UNSAFE in primitives.call_effect.default.tags
    assert UNSAFE not in primitives.call_graph.default.tags


class Model(torch.nn.Module):
    """A call of every kind."""

    def __init__(self, ops: SimpleNamespace, kernel: Any) -> None:
        super().__init__()
        self.ops, self.kernel = ops, kernel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.ops.unsafe(self.ops.safe(x, 1.0), 1.0)
        x = self.ops.safe_update(self.ops.unsafe_update(x, 1.0), 1.0)
        for allowed in (True, False):
            x = graphffi.call_tvm_ffi(
                self.kernel, x, 1.0, out=graphffi.like(x), allow_cuda_graph=allowed
            )
        return self.ops.effect(x, 1.0)


RECORDED, APART = ("tvm_ffi::call_graph", False), ("tvm_ffi::call", True)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, bool]]]:
    """The operator of each call in the code that is generated, and whether it is unsafe."""
    found: list[tuple[str, bool]] = []
    codegen = _inductor.LoweredCall.codegen

    def record(self: Any, wrapper: Any) -> None:
        found.append((self.op_overload.name(), is_cudagraph_unsafe_op(self)))
        codegen(self, wrapper)

    monkeypatch.setattr(_inductor.LoweredCall, "codegen", record)
    with (
        torch._inductor.config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield found


def test_calls_in_inductors_graphs_say_it_too(
    ops: SimpleNamespace, kernels: Any, found: list[tuple[str, bool]]
) -> None:
    model = Model(ops, kernels.add.reference)
    assert torch.compile(model, fullgraph=True)(torch.zeros(2)).tolist() == [7, 7]
    assert found == [RECORDED, APART, APART, RECORDED, RECORDED, APART, APART]


def test_each_kernel_of_an_op_says_it_for_itself(
    kernels: Any, found: list[tuple[str, bool]]
) -> None:
    op = graphffi.define_op(
        "recorded::mixed",
        schema="(Tensor x, float by) -> Tensor",
        infer=lambda x, by: graphffi.like(x),
    )
    op.add_kernel(kernels.add, name="long", when=lambda x, by: x.shape[0] > 2)
    op.add_kernel(kernels.add, allow_cuda_graph=True)
    compiled = torch.compile(lambda x, y: (op(x, 1.0), op(y, 1.0)), fullgraph=True)
    compiled(torch.zeros(2), torch.zeros(3))
    assert found == [RECORDED, APART]


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The code of what is compiled: in parts, as on a GPU where CUDA graphs are recorded."""
    codes: list[str] = []
    partition = Scheduler.should_partition

    def separate(*args: Any, **options: Any) -> Any:
        with (
            monkeypatch.context() as on_gpu,
            torch._inductor.config.patch("triton.cudagraphs", True),
        ):
            on_gpu.setattr(scheduler, "is_gpu", lambda device: True)
            return partition(*args, **options)

    monkeypatch.setattr(Scheduler, "should_partition", separate)
    monkeypatch.setattr(GraphLowering, "save_output_code", codes.append)
    torch._dynamo.reset()
    with (
        torch._inductor.config.patch(fx_graph_cache=False, graph_partition=True),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield codes


def test_recorded_parts_and_the_calls_between_them_have_sites_of_their_own(
    ops: SimpleNamespace, kernels: Any, parts: list[str]
) -> None:
    model = Model(ops, kernels.add.reference)
    assert torch.compile(model, fullgraph=True)(torch.zeros(2)).tolist() == [7, 7]
    (code,) = parts
    sites = re.findall(r"^(graphffi_site\w*) = ", code, re.M)
    assert len(sites) == len(set(sites)) == 7
    assert code.count("def partition_") >= 2


def test_no_part_is_recorded_that_only_allocates(ops: SimpleNamespace, parts: list[str]) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        return ops.effect(ops.unsafe(ops.unsafe(x, 1.0), 1.0), 1.0) + 1

    assert torch.compile(run, fullgraph=True)(torch.zeros(2)).tolist() == [4, 4]
    (code,) = parts
    bodies = re.findall(r"^def partition_\d+.*?^    return", code, re.M | re.S)
    assert len(bodies) == 2  # what copies the updated operand, and the sum
    assert all("cpp_fused" in body for body in bodies)


def test_exported_programs_keep_it(ops: SimpleNamespace, kernels: Any) -> None:
    model = Model(ops, kernels.add.reference)
    program = graphffi_torch.decompose(torch.export.export(model, (torch.zeros(2),)))
    names = [n.target.name() for n in program.graph.nodes if "tvm_ffi" in str(n.target)]
    call, graph = "tvm_ffi::call", "tvm_ffi::call_graph"
    assert names == [graph, call, call, graph, graph, call, "tvm_ffi::call_effect"]
    assert program.module()(torch.zeros(2)).tolist() == [7, 7]
