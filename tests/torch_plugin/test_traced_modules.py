# SPDX-License-Identifier: Apache-2.0
"""Functions that are looked up in code that torch.compile traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import graphffi

if TYPE_CHECKING:
    from collections.abc import Callable

X = torch.arange(3.0)
LOOK_UPS: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda module: module.add,
    "item": lambda module: module["add"],
    "function": lambda module: module.get_function("add"),
    "getattr": lambda module: getattr(module, "add"),  # noqa: B009
}


def compiled(call: Callable[..., Any], fullgraph: bool = True) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(call, fullgraph=fullgraph, backend="eager")


@pytest.fixture
def module(kernels: Any) -> Any:
    """The library, none of whose functions was looked up yet."""
    kernels.__dict__.clear()
    return kernels


@pytest.mark.parametrize("way", LOOK_UPS)
def test_a_function_is_looked_up_while_a_call_is_traced(module: Any, way: str) -> None:
    def call(x: torch.Tensor) -> Any:
        return graphffi.call_tvm_ffi(LOOK_UPS[way](module), x, 2.0, out=graphffi.like(x))

    run = compiled(call)
    torch.testing.assert_close(run(X), X + 2)
    torch.testing.assert_close(run(X), X + 2)


def test_a_function_that_was_looked_up_before_is_one_graph(kernels: Any) -> None:
    def call(function: Any, x: torch.Tensor) -> Any:
        return graphffi.call_tvm_ffi(function, x, 2.0, out=graphffi.like(x))

    graphs = CompileCounter()
    torch._dynamo.reset()
    run = torch.compile(call, fullgraph=True, backend=graphs)
    for _ in range(2):
        torch.testing.assert_close(run(kernels.add, X), X + 2)
    assert graphs.frame_count == 1


def test_another_module_is_another_graph(module: Any) -> None:
    source = r"""
    #include <tvm/ffi/tvm_ffi.h>
    void add(tvm::ffi::TensorView x, double a, tvm::ffi::TensorView y) {
      for (int64_t i = 0; i < x.numel(); ++i) static_cast<float*>(y.data_ptr())[i] = 7;
    }
    """
    other = graphffi.cpp.load_inline("traced_modules", cpp_sources=source, functions=["add"])
    run = compiled(lambda m, x: graphffi.call_tvm_ffi(m.add, x, 2.0, out=graphffi.like(x)))
    torch.testing.assert_close(run(module, X), X + 2)
    torch.testing.assert_close(run(other, X), torch.full((3,), 7.0))
    torch.testing.assert_close(run(module, X), X + 2)


def test_another_function_is_another_graph_though_none_is_called(kernels: Any) -> None:
    run = compiled(lambda function, x: x + 1 if function is kernels.add else x + 2)
    for function, result in ((kernels.split, 2), (kernels.add, 1), (kernels.split, 2)):
        torch.testing.assert_close(run(function, X), X + result)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_name_that_is_none_is_the_error_of_eager_code(module: Any, fullgraph: bool) -> None:
    run = compiled(
        lambda x: graphffi.call_tvm_ffi(module.ad, x, 2.0, out=graphffi.like(x)), fullgraph
    )
    with pytest.raises(AttributeError, match=r"expected the name of a function, got 'ad'"):
        run(X)


def test_looking_a_global_function_up_breaks_the_graph(kernels: Any) -> None:
    graphffi.register_global_func("test_traced.add", kernels.add, override=True)

    def call(x: torch.Tensor) -> Any:
        add = graphffi.get_global_func("test_traced.add")
        return graphffi.call_tvm_ffi(add, x, 2.0, out=graphffi.like(x))

    torch.testing.assert_close(compiled(call, fullgraph=False)(X), X + 2)
    expected = r"get_global_func: expected a call outside of code that torch.compile traces"
    with pytest.raises(RuntimeError, match=expected):
        compiled(call)(X)
