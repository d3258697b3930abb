# SPDX-License-Identifier: Apache-2.0
"""Libraries of exported programs: one of two methods serves all tests of runs."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import graphffi
import graphffi_torch
from graphffi import Tensor
from graphffi._command.record import read_record
from tests.hidden_names import HIDES_ALL
from tests.sizes_of_one import sizes_of_one

pytestmark = [
    pytest.mark.slow,
]
KERNELS = r"""
#include <tvm/ffi/tvm_ffi.h>

namespace ffi = tvm::ffi;

void scale(ffi::TensorView x, double by, ffi::TensorView y) {
  const auto* in = static_cast<const float*>(x.data_ptr());
  auto* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) {
    TVM_FFI_CHECK(in[i] < 1000, IndexError) << "element " << i << " is " << in[i];
    out[i] = in[i] * static_cast<float>(by);
  }
}
"""
HOST = r"""
#include <stdio.h>
#include <stdlib.h>
#include <tvm/ffi/extra/c_env_api.h>

int __tvm_ffi_step(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);
int __tvm_ffi_double(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);
int __tvm_ffi_kept(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

static TVMFFIAny tensor(DLTensor* view) {
  TVMFFIAny any = {0};
  any.type_index = kTVMFFIDLTensorPtr;
  any.v_ptr = view;
  return any;
}

static void* last_allocated;

static void free_tensor(DLManagedTensorVersioned* tensor) {
  free(tensor->dl_tensor.data);
  free(tensor->dl_tensor.shape);
  free(tensor);
}

static int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                    void (*set_error)(void*, const char*, const char*)) {
  (void)context, (void)set_error;
  DLManagedTensorVersioned* tensor = calloc(1, sizeof(*tensor));
  tensor->version.major = DLPACK_MAJOR_VERSION;
  tensor->deleter = &free_tensor;
  tensor->dl_tensor = *prototype;
  size_t bytes = prototype->dtype.bits / 8;
  int64_t* shape = tensor->dl_tensor.shape = calloc((size_t)prototype->ndim + 1, sizeof(*shape));
  for (int i = 0; i < prototype->ndim; ++i) bytes *= (size_t)(shape[i] = prototype->shape[i]);
  last_allocated = tensor->dl_tensor.data = aligned_alloc(64, (bytes + 63) / 64 * 64);
  tensor->dl_tensor.strides = NULL;
  *out = tensor;
  return 0;
}

/* 1 if the model's result is in memory of the allocator. */
static int is_in_own_memory(TVMFFIAny* args) {
  TVMFFIAny result = {0};
  if (__tvm_ffi_double(NULL, args, 1, &result) != 0) return -1;
  int is_own = TVMFFITensorGetDLTensorPtr(result.v_obj)->data == last_allocated;
  TVMFFIObjectDecRef(result.v_obj);
  return is_own;
}

static const DLTensor* kept;

/* A kernel that keeps its operand, which is only lent. */
static int keep(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  (void)self, (void)num_args, (void)result;
  TVMFFIObjectIncRef(args[0].v_obj);
  kept = TVMFFITensorGetDLTensorPtr(args[0].v_obj);
  return 0;
}

/* 1 if a call fails whose kernel keeps a number, of which an empty tensor is left. */
static int is_kept_empty(void) {
  TVMFFIByteArray name = {"standalone.keep", 15};
  TVMFFIObjectHandle function;
  if (TVMFFIFunctionCreate(NULL, &keep, NULL, &function) != 0) return -1;
  if (TVMFFIFunctionSetGlobal(&name, function, 1) != 0) return -2;
  TVMFFIObjectDecRef(function);
  float value = 7;
  DLTensor view = {&value, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, NULL, NULL, 0};
  TVMFFIAny arg = tensor(&view), result = {0};
  if (__tvm_ffi_kept(NULL, &arg, 1, &result) == 0) return -3;
  return kept->ndim == 1 && kept->shape[0] == 0 && kept->strides != NULL && kept->data == NULL;
}

int main(void) {
  float x[32], cache[8] = {0};
  for (int i = 0; i < 32; ++i) x[i] = (float)i / 32;
  int64_t x_shape[] = {2, 16}, cache_shape[] = {8};
  DLTensor views[] = {{x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, x_shape, NULL, 0},
                      {cache, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, cache_shape, NULL, 0}};
  TVMFFIAny args[] = {tensor(&views[0]), tensor(&views[1])}, result = {0};
  if (__tvm_ffi_step(NULL, args, 1, &result) == 0) return 1;
  TVMFFIObjectHandle error;
  TVMFFIErrorMoveFromRaised(&error);
  printf("%s\n", TVMFFIErrorGetCellPtr(error)->message.data);
  TVMFFIObjectDecRef(error);
  if (__tvm_ffi_step(NULL, args, 2, &result) != 0) return 2;
  for (int i = 0; i < 8; ++i) printf("%.4f ", cache[i]);
  TVMFFIObjectDecRef(result.v_obj);
  printf("\n%d ", is_in_own_memory(args));
  TVMFFIEnvSetDLPackManagedTensorAllocator(&allocate, 0, NULL);
  for (int i = 0; i < 3; ++i) printf("%d ", is_in_own_memory(args));
  printf("\n%d", is_kept_empty());
  return 0;
}
"""


class Model(torch.nn.Module):
    def __init__(self, scale: Any) -> None:
        super().__init__()
        self.scale = scale
        self.linear = torch.nn.Linear(16, 8)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.calls.add_(1)
        y = self.scale(self.linear(x), 2.0)
        cache.add_(y.sum(0))
        return torch.softmax(torch.nn.functional.gelu(y), -1), self.calls.clone()


class Best(torch.nn.Module):
    def __init__(self, model: Model) -> None:
        super().__init__()
        self.linear = model.linear

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, places = self.linear(x).topk(2)
        return values, places, x.t(), self.linear.weight


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Kept(torch.nn.Module):
    def __init__(self, keep: Any) -> None:
        super().__init__()
        self.keep = keep

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.keep(x)


class Products(torch.nn.Module):
    """Products of all layouts and data types, of which sums are float32 or more."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> list[torch.Tensor]:
        turned = b.t().contiguous().t()  # columns lie in memory
        batch = torch.stack([b, b + 1])
        results = [torch.addmm(c, a, b, beta=0.5, alpha=2.0), a @ turned]
        results += [torch.bmm(torch.stack([a, a * 2]), batch)]
        results += [torch.baddbmm(c[None, None], torch.stack([a, a * 2]), batch)]
        results += [a.t().contiguous().t() @ b, a[:3] @ turned, a[:1] @ b]
        for dtype in (torch.float64, torch.bfloat16, torch.float16):
            results += [a.to(dtype) @ b.to(dtype), a[:1].to(dtype) @ turned.to(dtype)]
        return results


def top(x: Any, k: int, dim: int, largest: int, is_sorted: int) -> list[Any]:
    array = np.from_dlpack(x)
    places = np.argsort(-array, axis=dim, kind="stable")[..., :k]
    return [np.take_along_axis(array, places, dim), places]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The library, its model and what it was made of."""
    if HIDES_ALL:
        pytest.skip("calls of kernels need private names")
    folder = tmp_path_factory.mktemp("standalone")
    kernels = graphffi.cpp.build(
        "kernels", cpp_sources=KERNELS, functions="scale", build_directory=folder
    )

    @graphffi.op("standalone::scale", kernel=f"{kernels}::scale", plan="x, by, out")
    def scale(x: Tensor, by: float) -> Tensor:
        return graphffi.like(x)

    @graphffi.op("standalone::keep", kernel="standalone.keep", plan="x, out")
    def keep(x: Tensor) -> Tensor:
        return graphffi.like(x)

    graphffi.register_global_func("standalone.top", top)
    graphffi.register_global_func("standalone.keep", lambda x, out: None)
    model = Model(scale).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    with torch.no_grad():
        with sizes_of_one():
            step = torch.export.export(
                model, (torch.rand(4, 16), torch.zeros(8)), dynamic_shapes=({0: batch}, None)
            )
        best = torch.export.export(Best(model), (torch.rand(3, 16),))
        double = torch.export.export(Double(), (torch.rand(2, 16),))
        kept = torch.export.export(Kept(keep), (torch.rand(()),))
        m, k, n = (torch.export.Dim(name, min=3, max=512) for name in "mkn")
        products = torch.export.export(
            Products(),
            (torch.rand(9, 5), torch.rand(5, 7), torch.rand(7)),
            dynamic_shapes=({0: m, 1: k}, {0: k, 1: n}, {0: n}),
        )
    path = graphffi_torch.to_library(
        {"step": step, "best": best, "double": double, "kept": kept, "products": products},
        folder / "model.so",
        weights="file",
        externs={"aten.topk": "standalone.top"},
    )
    return SimpleNamespace(
        path=path, model=model, folder=folder, library=graphffi.load_module(path)
    )


def cache() -> np.ndarray[Any, Any]:
    return np.zeros(8, np.float32)


@pytest.mark.parametrize("batch", [1, 2, 7, 64])
def test_a_library_computes_what_the_model_does(built: SimpleNamespace, batch: int) -> None:
    x, updated, expected_cache = torch.rand(batch, 16), cache(), torch.zeros(8)
    result, calls = built.library.step(x.numpy(), updated)
    with torch.no_grad():
        expected, _ = built.model(x, expected_cache)
    np.testing.assert_allclose(np.from_dlpack(result), expected, atol=1e-6)
    np.testing.assert_allclose(updated, expected_cache, rtol=1e-5, atol=1e-6)
    assert np.from_dlpack(calls).shape == (1,)


def test_results_are_written_where_the_caller_wants_them(built: SimpleNamespace) -> None:
    for _ in range(3):  # the first run learns which memory becomes which result
        x = torch.rand(5, 16)
        result, calls = torch.empty(5, 8), torch.empty(1)
        built.library.step_into(x, torch.zeros(8), result, calls)
        expected, _ = built.model(x, torch.zeros(8))
        torch.testing.assert_close(result, expected)


def test_a_library_counts_its_calls_in_a_buffer_of_its_own(built: SimpleNamespace) -> None:
    x = np.zeros((1, 16), np.float32)
    before, after = (float(np.from_dlpack(built.library.step(x, cache())[1])[0]) for _ in "12")
    assert after == before + 1


def test_an_extern_operator_is_a_kernel(built: SimpleNamespace) -> None:
    x = torch.rand(3, 16)
    values, places, turned, weight = built.library.best(x.numpy())
    expected = built.model.linear(x).topk(2)
    np.testing.assert_allclose(np.from_dlpack(values), expected.values.detach(), atol=1e-6)
    np.testing.assert_array_equal(np.from_dlpack(places), expected.indices)
    np.testing.assert_array_equal(np.from_dlpack(turned), x.t())
    np.testing.assert_array_equal(np.from_dlpack(weight), built.model.linear.weight.detach())


@pytest.mark.parametrize(
    ("m", "k", "n"), [(3, 3, 3), (8, 64, 48), (5, 131, 33), (37, 130, 75), (130, 20, 256)]
)
def test_products_are_those_of_torch(built: SimpleNamespace, m: int, k: int, n: int) -> None:
    a, b, c = torch.rand(m, k), torch.rand(k, n), torch.rand(n)
    expected = Products()(a, b, c)
    results = [torch.from_dlpack(r) for r in built.library.products(a, b, c)]
    for result, product in zip(results, expected, strict=True):
        coarse = product.dtype in (torch.bfloat16, torch.float16)
        torch.testing.assert_close(
            result, product, rtol=1e-2 if coarse else 1e-5, atol=1e-2 if coarse else 1e-4
        )


def test_methods_share_weights(built: SimpleNamespace) -> None:
    size = (built.folder / "model.weights").stat().st_size
    assert size == 4 * 16 * 8 + 64 + 64 + 64  # weight, bias, counter, digest


def test_operands_with_other_strides_are_copied(built: SimpleNamespace) -> None:
    x = torch.rand(16, 3)
    expected = built.library.best(x.t().contiguous().numpy())
    found = built.library.best(x.numpy().T)
    np.testing.assert_array_equal(np.from_dlpack(found[0]), np.from_dlpack(expected[0]))


def test_memory_of_runs_is_limited_and_given_back(built: SimpleNamespace) -> None:
    for limit in (0, 1 << 20):
        built.library.set_memory_limit(limit)
        built.library.best(torch.rand(3, 16))
        built.library.trim_memory()
    with pytest.raises(TypeError, match="set_memory_limit: expected a number of bytes"):
        built.library.set_memory_limit(-1)
    with pytest.raises(TypeError, match="trim_memory: expected no arguments, got 1"):
        built.library.trim_memory(3)


X, C = np.zeros((2, 16), np.float32), np.zeros(8, np.float32)


@pytest.mark.parametrize(
    ("args", "kind", "text"),
    [
        ((X,), TypeError, "step: expected 2 operands, got 1; operands: x, cache"),
        (
            (X[:, :15], C),
            ValueError,
            r"operand 'x': expected float32\[batch=2, 16\] on cpu, got float32",
        ),
        ((X.astype(np.float64), C), TypeError, r"operand 'x': .* got float64\[2, 16\] on cpu"),
        (
            (np.zeros((65, 16), np.float32), C),
            ValueError,
            r"\(1 to 64\), 16\].* got float32\[65, 16\]",
        ),
        ((X[0], C), ValueError, r"operand 'x': expected .* got float32\[16\] on cpu"),
        ((3, C), TypeError, "operand 'x': expected .* got int"),
        ((X, np.zeros(16, np.float32)[::2]), ValueError, "operand 'cache': expected a contiguous"),
        ((X[:, :15], C[:2]), ValueError, "operand 'x': .*; operand 'cache': "),
    ],
)
def test_wrong_operands_are_refused(
    built: SimpleNamespace, args: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        built.library.step(*args)


def test_results_that_do_not_fit_are_refused(built: SimpleNamespace) -> None:
    x, result, calls = torch.rand(2, 16), torch.empty(2, 8), torch.empty(1)
    with pytest.raises(TypeError, match="step_into: expected 2 operands and 2 results, got 3"):
        built.library.step_into(x, torch.zeros(8), result)
    with pytest.raises(ValueError, match=r"step_into: result 0: expected float32\[2, 8\] on cpu"):
        built.library.step_into(x, torch.zeros(8), torch.empty(3, 8), calls)
    with pytest.raises(ValueError, match="result 1: expected memory of its own, got memory shared"):
        built.library.step_into(x, torch.zeros(8), result, result[0, :1])
    with pytest.raises(ValueError, match="memory shared with operand 'x'"):
        built.library.step_into(x, torch.zeros(8), x[:, :8].flatten()[:0].new_empty(0), x[0, :1])


def test_the_error_of_a_kernel_keeps_its_kind_and_text(built: SimpleNamespace) -> None:
    x = np.full((2, 16), 1e7, np.float32)
    for _ in range(3):
        with pytest.raises(IndexError, match=r"element \d+ is "):
            built.library.step(x, cache())
    built.library.step(X, cache())


def test_calls_inside_a_library_are_recorded(built: SimpleNamespace, tmp_path: Path) -> None:
    with graphffi.record(tmp_path, level=3):
        built.library.step(X, cache())
        with pytest.raises(IndexError):
            built.library.step(X * 0 + 1e7, cache())
    calls = {call.number: call for call in read_record(tmp_path).calls}
    assert [call.name for call in calls.values()] == ["step", "standalone::scale"] * 2
    _, inner, _, failed = calls.values()
    assert failed.end is not None
    assert failed.end["error"].startswith("IndexError: ")
    for call in (inner, failed):
        arguments = [str(tmp_path), "--call", str(call.number), "--json"]
        command = [sys.executable, "-m", "graphffi", "replay", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert json.loads(done.stdout)["outcome"] == "same", done.stdout + done.stderr


def test_threads_run_a_library_at_once(built: SimpleNamespace) -> None:
    wrong = []

    def run(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for i in range(100):
            x = torch.rand(1 + (seed + i) % 9, 16, generator=generator)
            if i % 10 == 0:
                with pytest.raises(IndexError):
                    built.library.step(x.numpy() + 1e7, cache())
            values = np.from_dlpack(built.library.step(x.numpy(), cache())[0])
            expected, _ = built.model(x, torch.zeros(8))
            wrong.append(not np.allclose(values, expected.detach(), atol=1e-6))

    with torch.no_grad():
        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == [False] * 400


def read(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_library_needs_the_runtime_and_the_systems_libraries_only(built: SimpleNamespace) -> None:
    needed = set(re.findall(r"\(NEEDED\).*\[([^.\]]+)", read("readelf", "-d", built.path)))
    system = {"libstdc++", "libm", "libmvec", "libgomp", "libgcc_s", "libc", "ld-linux-x86-64"}
    assert "libtvm_ffi" in needed
    assert needed <= system | {"libtvm_ffi"}
    listed = read("nm", "-D", "--defined-only", "--format=posix", built.path)
    names = [line.split()[0] for line in listed.splitlines()]
    methods = [
        f"__tvm_ffi_{form.format(name)}"
        for name in ("best", "double", "kept", "products", "step")
        for form in ("{}", "{}_into", "{}_within", "_metadata_{}")
    ]
    others = ["__tvm_ffi_set_memory_limit", "__tvm_ffi_trim_memory"]
    exported = [name for name in names if not name.startswith("__graphffi_")]
    assert sorted(exported) == sorted(methods + others)


SCRIPTS = {
    "numpy": """
import numpy as np, graphffi, sys
model = graphffi.load_module(sys.argv[1])
x = np.arange(32, dtype=np.float32).reshape(2, 16) / 32
result, _ = model.step(x, np.zeros(8, np.float32))
values = np.from_dlpack(result)
""",
    "jax": """
import numpy as np, jax, graphffi, graphffi_jax, sys
@graphffi.op("model::step", kernel=sys.argv[1] + "::step_into", mutates="cache")
def step(x: graphffi.Tensor, cache: graphffi.Tensor) -> tuple[graphffi.Tensor, graphffi.Tensor]:
    return graphffi.like(x, shape=(x.shape[0], 8)), graphffi.like(x, shape=(1,))
x = np.arange(32, dtype=np.float32).reshape(2, 16) / 32
values, _, cache = jax.jit(step)(x, jax.numpy.zeros(8))
""",
}


@pytest.mark.parametrize("host", SCRIPTS)
def test_a_process_without_torch_runs_a_library(built: SimpleNamespace, host: str) -> None:
    if importlib.util.find_spec(host) is None:
        pytest.skip(f"needs {host}")
    script = SCRIPTS[host] + "assert 'torch' not in sys.modules\nprint(*np.asarray(values).ravel())"
    found = np.array(read(sys.executable, "-c", script, built.path).split(), np.float32)
    x = torch.arange(32).reshape(2, 16) / 32
    expected, _ = built.model(x, torch.zeros(8))
    np.testing.assert_allclose(found.reshape(2, 8), expected.detach(), atol=1e-6)


def test_a_program_in_c_runs_a_library(built: SimpleNamespace, tmp_path: Path) -> None:
    source, program = tmp_path / "host.c", str(tmp_path / "host")
    source.write_text(HOST)
    runtime = Path(graphffi.runtime_info().path)
    read(
        *("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", program, str(source)),
        *(f"-I{graphffi.cpp.include_path()}", built.path, str(runtime)),
        *(f"-Wl,-rpath,{runtime.parent}:{built.folder}", "-Wl,--allow-shlib-undefined"),
    )
    error, values, places, is_kept_empty = read(program).splitlines()
    assert is_kept_empty == "1"
    assert places.split() == ["0", "1", "1", "1"]  # whether results are where the host allocates
    assert error == "step: expected 2 operands, got 1; operands: x, cache"
    record = {**os.environ, "GRAPHFFI_RECORD": str(tmp_path / "record")}
    subprocess.run(program, env=record, capture_output=True, check=True)
    names = {call.name for call in read_record(tmp_path / "record").calls}
    assert "standalone::scale" in names
    expected = torch.zeros(8)
    built.model(torch.arange(32).reshape(2, 16) / 32, expected)
    np.testing.assert_allclose(np.array(values.split(), np.float32), expected.detach(), atol=1e-4)


def test_kernels_of_products_and_the_header_of_generated_code_are_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, compiler = tmp_path / "log", tmp_path / "c++"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("GRAPHFFI_CACHE_DIR", str(tmp_path / "cache"))
    found = []
    for size in (3, 4):
        layer = torch.nn.Linear(size, size)
        x = torch.ones(2, size)
        library = str(tmp_path / f"layer{size}.so")
        graphffi_torch.to_library(torch.export.export(layer, (x,)), library)
        torch.testing.assert_close(graphffi.load_module(library).main(x), layer(x))
        commands = log.read_text()
        found.append((commands.count("product.cc"), commands.count("c++-header -MD")))
    assert found == [(1, 1), (1, 1)]
