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


@pytest.mark.parametrize("tracer", [t for t in TRACERS if t != "symbolic_trace"])
def test_the_primitive_is_one_node(kernels: Any, tracer: str) -> None:
    reference = kernels.add.reference

    def program(x: torch.Tensor) -> Any:
        return graphffi.call_tvm_ffi(reference, x, 2.0, out=graphffi.like(x))

    graph = traced(program, tracer)
    (node,) = graph.graph.find_nodes(op="call_function", target=torch.ops.tvm_ffi.call.default)
    assert node.args[0] == reference
    torch.testing.assert_close(run(graph, X), X + 2)


def test_a_backend_may_rewrite_what_inductor_compiles(ops: Any) -> None:
    from torch._inductor.compile_fx import compile_fx

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        merge_adds(graph)
        return compile_fx(graph, inputs)

    compiled = torch.compile(
        lambda x: ops.add(ops.add(x, 2.0), 3.0), fullgraph=True, backend=backend
    )
    torch.testing.assert_close(compiled(X), X + 5)
