# SPDX-License-Identifier: Apache-2.0
"""Eager calls of call_tvm_ffi: the same by the direct way and through torch's dispatcher."""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import graphffi
from graphffi.cpp import load_inline
from graphffi_torch import _C
from tests import warm_python

KERNELS = """
#include <tvm/ffi/tvm_ffi.h>

using tvm::ffi::Optional, tvm::ffi::String, tvm::ffi::Array, tvm::ffi::TensorView, tvm::ffi::Tensor;

void describe(TensorView x, Optional<TensorView> none, int64_t n, double f, bool b, String s,
              Array<Tensor> xs, Array<int64_t> ns, TensorView seen, TensorView out) {
  float* values = static_cast<float*>(out.data_ptr());
  const float given[] = {static_cast<float>(x.numel()), none.has_value() ? 1.f : 0.f,
                         static_cast<float>(n),         static_cast<float>(f),
                         b ? 1.f : 0.f,                 static_cast<float>(s.size()),
                         static_cast<float>(xs.size()), static_cast<float>(ns.size())};
  for (int i = 0; i < 8; ++i) values[i] = given[i];
  static_cast<float*>(seen.data_ptr())[0] += 1;
}
"""


class SeesAll(TorchFunctionMode):
    """Keeps calls from the direct way, and changes nothing."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return function(*args, **(kwargs or {}))


WAYS: dict[str, Callable[[], Any]] = {"direct": nullcontext, "dispatcher": SeesAll}
every_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(scope="module")
def describe() -> Any:
    """A kernel that writes what it was given."""
    return load_inline("raw_call", cpp_sources=KERNELS, functions=["describe"]).describe


@every_way
def test_arguments_of_all_kinds_arrive(describe: Any, way: str) -> None:
    x, seen = torch.ones(3), torch.zeros(1)
    values = (x, None, 7, 0.5, True, "text", [x, x], (1, 2, 3), seen)
    with WAYS[way]():
        out, updated = graphffi.call_tvm_ffi(
            describe, *values, out=graphffi.empty((8,), torch.float32), mutates=[8]
        )
    assert out.tolist() == [3, 0, 7, 0.5, 1, 4, 2, 3]
    assert updated is seen
    assert seen.tolist() == [1]
    assert seen._version == 1


def test_a_plain_call_takes_the_direct_way(describe: Any) -> None:
    x = torch.ones(3)
    spec = graphffi.empty((8,), torch.float32)
    values = (x, None, 7, 0.5, True, "text", [x, x], (1, 2, 3), torch.zeros(1))

    def call() -> Any:
        return _C.call_raw(graphffi.TensorSpec, describe.reference, values, spec, (8,))

    assert call()[0].tolist() == [3, 0, 7, 0.5, 1, 4, 2, 3]
    with SeesAll():
        assert call() is NotImplemented


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@every_way
@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda x: ((x,), {}), ValueError, "expected out=, mutates= or has_side_effect=True"),
        (lambda x: ((x,), {"mutates": [1]}), ValueError, "mutates: expected positions"),
        (lambda x: ((x, 2**63), {"mutates": [0]}), ValueError, "expected an int of 64 bits"),
        (lambda x: ((x, object()), {"mutates": [0]}), TypeError, "argument #1: expected a tensor"),
        (lambda x: ((x, ITSELF), {"mutates": [0]}), ValueError, "#1: expected at most 16 lists"),
        (lambda x: ((x, x.numpy()), {"mutates": [0]}), TypeError, "torch.Tensor, .* numpy.ndarray"),
        (lambda x: ((x.requires_grad_(),), {"mutates": [0]}), NotImplementedError, "no gradient"),
        (lambda x: ((x, x), {"mutates": [0]}), ValueError, "'o0': expected memory of its own"),
        (
            lambda x: ((x,), {"out": graphffi.like(x, shape=(-1,))}),
            ValueError,
            "expected sizes of 0 or more",
        ),
    ],
)
def test_wrong_calls_have_one_error(
    describe: Any, way: str, make: Callable[..., Any], kind: type, text: str
) -> None:
    args, kwargs = make(torch.ones(3))
    with WAYS[way](), pytest.raises(kind, match=text):
        graphffi.call_tvm_ffi(describe, *args, **kwargs)


@every_way
def test_unknown_functions_are_named(way: str) -> None:
    x = torch.ones(3)
    with WAYS[way](), pytest.raises(KeyError, match=r"kernel 'no.such': expected a registered"):
        graphffi.call_tvm_ffi("no.such", x, out=graphffi.like(x))


def test_distinct_plans_and_digests_take_bounded_memory(describe: Any) -> None:
    x, out = torch.ones(3), torch.ones(3)
    graphffi.register_global_func("mytest.nothing", lambda *values: None, override=True)

    def call(begin: int, end: int) -> None:
        for i in range(begin, end):
            torch.ops.tvm_ffi.call("mytest.nothing", [x], [out], f"i0, {i}, o0", digest=str(i))
            torch.ops.tvm_ffi.call("mytest.nothing", [x], [out], "i0, s0, o0", strs=[f"a\0{i}"])

    call(0, 2_000)
    before = resident_kib()
    call(2_000, 12_000)
    assert resident_kib() - before < 4_000  # 22,000 sites had 1.1 kB each


IS_FLOAT = (
    "dtype 0\nconst 35651585\neq 0 1\ncheck 2 TypeError operand 'x': expected float32, got {d0}"
)


@pytest.mark.parametrize(
    ("x", "kind", "text"),
    [
        (torch.ones(3), None, ""),
        (None, TypeError, "^mytest::op: operand 'x': expected float32, got None$"),
        (torch.ones(3).double(), TypeError, "^mytest::op: .*: expected float32, got float64$"),
        (torch.ones(2), ValueError, "^mytest::op: operand 'x': expected 3, got 2 \\(is\\) $"),
    ],
)
def test_a_digest_may_hold_conditions(
    describe: Any, x: torch.Tensor | None, kind: type | None, text: str
) -> None:
    graphffi.register_global_func("mytest.nothing", lambda *values: None, override=True)
    sizes = (
        "size 0 0\nsize 1 0\neq 3 4\ncheck 5 ValueError operand 'x': expected {4}, got {3} (is) "
    )
    digest = f"mytest::op(x -> y) 0123\t{IS_FLOAT}\t{sizes}".replace("\n", "\t")
    with pytest.raises(kind, match=text) if kind else nullcontext():
        torch.ops.tvm_ffi.call("mytest.nothing", [x], [torch.ones(3)], digest=digest)


@pytest.mark.parametrize("names", ["x:float32[3] -> y", "x -> y:_[n=3]", "x:!int8[n>=2] -> y:_[n]"])
def test_calls_that_an_older_version_exported_are_refused(describe: Any, names: str) -> None:
    x, digest = torch.ones(3), f"mytest::op({names}) 0123"
    text = "^mytest::op: digest: expected names of tensors, got a program made by graphffi 0.1; ex"
    with pytest.raises(ValueError, match=text):
        torch.ops.tvm_ffi.call("mytest.nothing", [x], [torch.ones(3)], digest=digest)
    with pytest.raises(ValueError, match=text):
        torch.ops.tvm_ffi.call("mytest.nothing", [x.to("meta")], [x.to("meta")], digest=digest)
    with pytest.raises(ValueError, match=text):
        _C.call_site_v4("mytest.nothing", "", digest, [1, 1, 0, 0, 0], [])


def resident_kib() -> int:
    """Memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


UNUSED = """
import torch
import graphffi

def double(x, out):
    torch.from_dlpack(out).copy_(torch.from_dlpack(x) * 2)

graphffi.register_global_func("raw.double", double)

@torch.compile(fullgraph=True)
def run(x, unused):
    out = torch.empty_like(x)
    torch.ops.tvm_ffi.call("raw.double", [x, unused], [out], "i0, o0")
    return out

assert run(torch.ones(3), torch.ones(2, dtype=torch.complex64)).tolist() == [2, 2, 2]
"""


@pytest.mark.slow
def test_a_plan_may_leave_out_a_complex_input(tmp_path: Path) -> None:
    # In a process of its own: calls of ops prepare torch for complex tensors.
    caches = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    warm_python.run([sys.executable, "-W", "ignore", "-c", UNUSED], check=True, env=caches)


def test_a_device_without_memory_is_one_error(describe: Any) -> None:
    values = (torch.ones(3), None, torch.device("meta"), 0.5, True, "text", [], [], torch.zeros(1))
    for call in (
        lambda: describe(*values, torch.zeros(8)),
        lambda: graphffi.call_tvm_ffi(describe, *values, mutates=[8]),
        lambda: torch.compile(describe, backend="eager", fullgraph=True)(*values, torch.zeros(8)),
    ):
        with pytest.raises(ValueError, match="expected one with memory, got meta:0"):
            call()


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:FutureWarning")
def test_a_trace_that_cannot_record_a_call_is_refused(describe: Any) -> None:
    values = (None, 7, 0.5, True, "text", [], [])

    def direct(x: Any) -> Any:
        out = torch.zeros(8)
        describe(x, *values, torch.zeros(1), out)
        return out

    def raw(x: Any) -> Any:
        out = graphffi.empty((8,), torch.float32)
        return graphffi.call_tvm_ffi(describe, x, *values, torch.zeros(1), out=out, mutates=[8])[0]

    for call in (direct, raw):
        text = r"describe: expected an op in code that torch\.jit\.trace records, got a call"
        with pytest.raises(RuntimeError, match=text):
            torch.jit.trace(call, torch.ones(3))
        assert call(torch.ones(3)).tolist() == [3, 0, 7, 0.5, 1, 4, 0, 0]
