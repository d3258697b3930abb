# SPDX-License-Identifier: Apache-2.0
"""Kernels that ignore strides get row-major tensors, kernels that say so get any."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphffi

KERNELS = r"""
using tvm::ffi::TensorView;

void add_one(TensorView x, TensorView out) {
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = from[i] + 1;
}
void add_one_to(TensorView x) { add_one(x, x); }
void sum(tvm::ffi::Array<tvm::ffi::Tensor> xs, TensorView out) {
  float* to = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < out.numel(); ++i) to[i] = 0;
  for (const tvm::ffi::Tensor& x : xs) {
    const float* from = static_cast<const float*>(x.data_ptr());
    for (int64_t i = 0; i < out.numel(); ++i) to[i] += from[i];
  }
}
void first_stride(TensorView x, TensorView out) {
  *static_cast<int64_t*>(out.data_ptr()) = x.stride(0);
}
"""
MODES = {
    "eager": lambda f: f,
    "compiled": lambda f: torch.compile(f, fullgraph=True),
    "dynamic": lambda f: torch.compile(f, fullgraph=True, dynamic=True),
}
LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "row-major": lambda: torch.arange(24.0).reshape(4, 6),
    "transposed": lambda: torch.arange(24.0).reshape(6, 4).T,
    "sliced": lambda: torch.arange(48.0).reshape(4, 12)[:, ::2],
    "expanded": lambda: torch.arange(4.0)[:, None].expand(4, 6),
    "channels last": lambda: (
        torch.arange(48.0).reshape(1, 2, 4, 6).to(memory_format=torch.channels_last)
    ),
    "nine dimensions": lambda: torch.arange(6.0).reshape(1, 1, 1, 1, 1, 1, 1, 2, 3).mT,
    "no dimensions": lambda: torch.tensor(3.0),
    "empty": lambda: torch.ones(0, 3).T,
}


@pytest.fixture(scope="module")
def ops() -> dict[str, Any]:
    names = ["add_one", "add_one_to", "sum", "first_stride"]
    module = graphffi.cpp.load_inline("row_major", cpp_sources=KERNELS, functions=names)
    one = {"schema": "(Tensor x) -> Tensor out", "infer": graphffi.like}
    stride = {
        "schema": "(Tensor x) -> Tensor out",
        "kernel": module.first_stride,
        "infer": lambda x: graphffi.empty((), "int64"),
    }
    define = graphffi.define_op
    return {
        "add_one": define("rowmajor::add_one", kernel=module.add_one, **one),
        "add_one_to": define(
            "rowmajor::add_one_to", schema="(Tensor(a!) x) -> ()", kernel=module.add_one_to
        ),
        "sum": define(
            "rowmajor::sum",
            schema="(Tensor[] xs) -> Tensor out",
            kernel=module.sum,
            infer=lambda xs: graphffi.like(xs[0]),
        ),
        "stride": define("rowmajor::stride", **stride),
        "any_stride": define("rowmajor::any_stride", strided=True, **stride),
        "named_stride": define("rowmajor::named_stride", strided=("x",), plan="x, out", **stride),
    }


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Any:
    return MODES[request.param]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_that_are_read(ops: Any, mode: Any, layout: str) -> None:
    x = LAYOUTS[layout]()
    torch.testing.assert_close(mode(lambda x: ops["add_one"](x) * 2)(x), (x + 1) * 2)


@pytest.mark.parametrize("layout", ["row-major", "transposed", "sliced"])
def test_operands_that_are_updated(ops: Any, mode: Any, layout: str) -> None:
    x = LAYOUTS[layout]()
    expected, version = x + 1, x._version
    mode(ops["add_one_to"])(x)
    torch.testing.assert_close(x, expected)
    assert x._version > version


def test_items_of_lists(ops: Any, mode: Any) -> None:
    xs = [LAYOUTS[layout]() for layout in ("row-major", "transposed", "sliced")]
    torch.testing.assert_close(mode(ops["sum"])(xs), sum(xs))


def test_a_kernel_may_take_strides(ops: Any, mode: Any) -> None:
    x = LAYOUTS["transposed"]()
    assert mode(ops["stride"])(x).item() == 6
    assert mode(ops["any_stride"])(x).item() == 1
    assert mode(ops["named_stride"])(x).item() == 1


@pytest.mark.parametrize(("plan", "stride"), [("", 6), ("i0, o0", 6), ("strided(i0), o0", 1)])
def test_calls_without_a_definition(ops: Any, mode: Any, plan: str, stride: int) -> None:
    kernel = ops["stride"].definition.kernels[0].reference

    def call(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty((), dtype=torch.int64)
        torch.ops.tvm_ffi.call(kernel, [x], [out], plan)
        return out

    assert mode(call)(LAYOUTS["transposed"]()).item() == stride


@pytest.mark.slow
def test_code_of_the_cpp_wrapper_copies_too(ops: Any) -> None:
    @functools.partial(torch.compile, fullgraph=True, options={"cpp_wrapper": True})
    def run(x: torch.Tensor) -> torch.Tensor:
        ops["add_one_to"](x)
        return ops["add_one"](x)

    x = LAYOUTS["transposed"]()
    expected = x + 2
    torch.testing.assert_close(run(x), expected)
    torch.testing.assert_close(x, expected - 1)


def test_an_updated_operand_that_is_read_as_well_is_refused(ops: Any) -> None:
    x = torch.zeros(4, 4)
    with pytest.raises(ValueError, match="expected memory of its own"):
        torch.ops.tvm_ffi.call(ops["add_one"].definition.kernels[0].reference, [x], [x.T], "")


def test_unknown_operands_are_named() -> None:
    with pytest.raises(ValueError, match=r"strided: expected names of operands, got 'y'; .*: x$"):
        graphffi.define_op(
            "rowmajor::unknown",
            schema="(Tensor x) -> Tensor out",
            kernel="some.kernel",
            infer=graphffi.like,
            strided=("y",),
        )
