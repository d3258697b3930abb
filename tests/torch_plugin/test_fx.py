# SPDX-License-Identifier: Apache-2.0
"""Calls in FX graphs: one node each, which a pass can find, print, rewrite and run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import graphffi

if TYPE_CHECKING:
    from collections.abc import Callable

X = torch.arange(6.0).reshape(2, 3)


def traced(function: Callable[..., Any], tracer: str) -> torch.fx.GraphModule:
    """The function's graph, by one of torch's tracers."""
    if tracer == "symbolic_trace":
        return torch.fx.symbolic_trace(function)
    if tracer.startswith("make_fx"):
        return make_fx(function, tracing_mode=tracer.partition(" ")[2])(X)
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch.compile(function, fullgraph=True, backend=backend)(X)
    return graphs[0]


def run(graph: torch.fx.GraphModule, x: torch.Tensor) -> Any:
    result = graph(x)
    return result[0] if isinstance(result, tuple) and len(result) == 1 else result


TRACERS = ["symbolic_trace", "make_fx real", "make_fx fake", "make_fx symbolic", "dynamo"]


def merge_adds(graph: torch.fx.GraphModule) -> None:
    """add(add(x, a), b) becomes add(x, a + b)."""
    add = torch.ops.mytest.add.default
    for node in graph.graph.find_nodes(op="call_function", target=add):
        inner = node.args[0]
        if inner.target is add and len(inner.users) == 1:
            node.args = (inner.args[0], inner.args[1] + node.args[1])
            graph.graph.erase_node(inner)
    graph.graph.lint()
    graph.recompile()


@pytest.mark.parametrize("tracer", TRACERS)
def test_a_pass_finds_prints_rewrites_and_runs_calls(ops: Any, tracer: str) -> None:
    graph = traced(lambda x: ops.add(ops.add(x, 2.0), 3.0), tracer)
    add = torch.ops.mytest.add.default
    assert len(graph.graph.find_nodes(op="call_function", target=add)) == 2
    assert "torch.ops.mytest.add.default" in graph.code
    assert str(graph.graph).count("target=torch.ops.mytest.add.default") == 2
    torch.testing.assert_close(run(graph, X), X + 5)
    merge_adds(graph)
    (node,) = graph.graph.find_nodes(op="call_function", target=add)
    assert node.args[1] == 5.0
    torch.testing.assert_close(run(graph, X), X + 5)


@pytest.mark.parametrize("tracer", TRACERS)
def test_an_update_is_one_node(ops: Any, tracer: str) -> None:
    def program(x: torch.Tensor) -> Any:
        y = x * 1
        ops.increment(y, 2.0)
        return y

    graph = traced(program, tracer)
    target = torch.ops.mytest.increment.default
    assert len(graph.graph.find_nodes(op="call_function", target=target)) == 1
    torch.testing.assert_close(run(graph, X), X + 2)


@pytest.mark.parametrize("tracer", TRACERS)
def test_the_primitive_is_one_node(kernels: Any, tracer: str) -> None:
    reference = kernels.add.reference

    def program(x: torch.Tensor) -> Any:
        return graphffi.call_tvm_ffi(reference, x, 2.0, out=graphffi.like(x))

    graph = traced(program, tracer)
    (node,) = graph.graph.find_nodes(op="call_function", target=torch.ops.tvm_ffi.call.default)
    assert node.args[0] == reference
    torch.testing.assert_close(run(graph, X), X + 2)


def test_symbolic_trace_allocates_results_like_traced_operands(kernels: Any) -> None:
    def program(x: torch.Tensor) -> Any:
        rows = graphffi.empty((x.shape[0],), x.dtype, x.device)
        first = graphffi.call_tvm_ffi(kernels.add, x[:, 0], 1.0, out=rows)
        return first, graphffi.call_tvm_ffi(kernels.increment_and_copy, x, out=graphffi.like(x))

    graph = torch.fx.symbolic_trace(program)
    for rows in (2, 5):
        first, copy = graph(torch.ones(rows, 3))
        assert first.tolist() == [2] * rows
        assert copy.tolist() == [[1] * 3] * rows


def test_symbolic_trace_knows_no_lengths_of_lists(ops: Any) -> None:
    message = "mytest::total_of: operand 'xs': expected a list of tensors, got Proxy Proxy.*; pass"
    with pytest.raises(TypeError, match=message):
        torch.fx.symbolic_trace(lambda xs: ops.total_of(xs, xs[0]))
    message = "mytest::attributes: attribute 't': expected a dtype, got Attribute Proxy"
    with pytest.raises(TypeError, match=message):
        torch.fx.symbolic_trace(lambda x: ops.attributes(x, t=x.dtype))


def test_symbolic_trace_keeps_side_effects_and_their_order() -> None:
    seen: list[Any] = []

    def count(x: Any, total: Any, out: Any) -> None:
        seen.append(torch.from_dlpack(x).sum().item())
        torch.from_dlpack(total).add_(1)
        torch.from_dlpack(out).copy_(torch.from_dlpack(x))

    op = graphffi.define_op(
        "mytest::count_in_fx",
        schema="(Tensor x, Tensor(a!) total) -> Tensor",
        kernel=count,
        infer=lambda x, total: graphffi.like(x),
        has_side_effect=True,
    )

    def program(x: torch.Tensor, total: torch.Tensor) -> Any:
        y, updated = op(x, total)
        op(y + 1, updated)
        return y

    graph = torch.fx.symbolic_trace(program)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    total = torch.zeros(1)
    torch.testing.assert_close(graph(torch.ones(2), total), torch.ones(2))
    assert total.item() == 2
    assert seen == [2, 4]


def test_a_backend_may_rewrite_what_inductor_compiles(ops: Any) -> None:
    from torch._inductor.compile_fx import compile_fx

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        merge_adds(graph)
        return compile_fx(graph, inputs)

    compiled = torch.compile(
        lambda x: ops.add(ops.add(x, 2.0), 3.0), fullgraph=True, backend=backend
    )
    torch.testing.assert_close(compiled(X), X + 5)
