# SPDX-License-Identifier: Apache-2.0
"""What kernels allocate where PyTorch and JAX share a process, whichever was imported first."""

from __future__ import annotations

import subprocess
import sys

import pytest

import graphffi

pytestmark = pytest.mark.needs("torch", "jax")

KERNELS = r"""
#include <cstring>
#include <vector>

namespace ffi = tvm::ffi;
std::vector<ffi::Tensor> kept_tensors;

ffi::Tensor alloc_like(ffi::TensorView x) {
  return ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
}
size_t num_bytes(ffi::TensorView x) {
  return (static_cast<size_t>(x.numel()) * x.dtype().bits * x.dtype().lanes + 7) / 8;
}
void through_scratch(ffi::TensorView x, ffi::TensorView out) {
  ffi::Tensor scratch = alloc_like(x);
  std::memcpy(scratch.data_ptr(), x.data_ptr(), num_bytes(x));
  std::memcpy(out.data_ptr(), scratch.data_ptr(), num_bytes(x));
}
void elsewhere(ffi::TensorView x, ffi::TensorView) {
  ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), DLDevice{kDLCUDA, 1});
}
void fresh(ffi::TensorView x, ffi::TensorView out) {
  std::memcpy(out.data_ptr(), alloc_like(x).data_ptr(), num_bytes(x));
}
void keep(ffi::TensorView x, ffi::TensorView out) {
  ffi::Tensor copy = alloc_like(x);
  std::memcpy(copy.data_ptr(), x.data_ptr(), num_bytes(x));
  std::memcpy(out.data_ptr(), x.data_ptr(), num_bytes(x));
  kept_tensors.push_back(copy);
}
ffi::Tensor take_kept() {
  ffi::Tensor first = kept_tensors.front();
  kept_tensors.erase(kept_tensors.begin());
  return first;
}
int64_t allocator() {
  return reinterpret_cast<int64_t>(TVMFFIEnvGetDLPackManagedTensorAllocator());
}
"""

SETUP = """
import sys
for name in sys.argv[2].split():
    __import__(name)
import numpy as np, jax, jax.numpy as jnp
import graphffi, graphffi_jax

kernels = graphffi.load_module(sys.argv[1])

def define(name, kernel=None, **options):
    return graphffi.define_op(f"alloc::{name}", schema="(Tensor x) -> Tensor out", plan="x, out",
                              kernel=kernel or kernels[name], infer=graphffi.like, **options)

names = ("through_scratch", "fresh", "keep", "elsewhere")
through_scratch, fresh, keep, elsewhere = (define(name) for name in names)
in_workspace = define("in_workspace", kernels.through_scratch, workspace=1024)
before = kernels.allocator()

def inside(name, call, **options):
    # An op whose kernel is `call`, in Python.
    def kernel(x, out):
        torch.from_dlpack(out).copy_(torch.from_dlpack(call(x)))
    return define(name, kernel, **options)

def from_torch(op):
    return lambda x: op(torch.from_dlpack(x))

def from_jax(op):
    def call(x):
        return np.asarray(jax.jit(op)(jnp.array(np.from_dlpack(x))))
    return call

def check_kept(*values):
    for _ in range(50):  # what takes the memory, if it is free
        in_workspace(jnp.zeros(4))
        through_scratch(jnp.zeros(4))
        through_scratch(torch.zeros(4))
    for value in values:
        kept = np.from_dlpack(kernels.take_kept())
        np.testing.assert_array_equal(kept, np.full(4, value, np.float32))
    assert kernels.allocator() == before
"""

APART = """
for dtype in "int4 uint4 int8 float16 bfloat16 float8_e5m2 complex64".split():
    x = jnp.arange(8).astype(dtype)
    for op in (through_scratch, in_workspace):
        y = jax.jit(op)(x)
        np.testing.assert_array_equal(y.astype(jnp.complex64), x.astype(jnp.complex64))
for x in (torch.arange(6.0).reshape(2, 3), torch.tensor(3), torch.ones(0, 2).half()):
    assert torch.equal(through_scratch(x), x)
    assert torch.equal(in_workspace(x), x)
keep(jnp.full(4, 1, np.float32))
keep(torch.full((4,), 2.0))
jax.jit(keep)(jnp.full(4, 3, np.float32)).block_until_ready()
check_kept(1, 2, 3)
"""

NESTED = """
outer = {
    "jax": inside("torch_in_jax", from_torch(keep)),
    "workspace": inside("torch_in_workspace", from_torch(keep), workspace=1024),
}
torch_around = inside("jax_in_torch", from_jax(keep))
torch_around_workspace = inside("workspace_in_torch", from_jax(in_workspace))
x = np.full(4, 5, np.float32)
for name, op in outer.items():
    np.testing.assert_array_equal(jax.jit(op)(jnp.array(x)), x, err_msg=name)
np.testing.assert_array_equal(torch_around(torch.from_dlpack(x)).numpy(), x)
np.testing.assert_array_equal(torch_around_workspace(torch.from_dlpack(x)).numpy(), x)
check_kept(5, 5, 5)
"""

WHOSE = """
def allocated_by_torch(call, x):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        jax.block_until_ready(call(x))
    return sum(event.name == "aten::empty" for event in profile.events())

assert allocated_by_torch(through_scratch, torch.ones(4)) == 2  # the result, and the kernel's
assert allocated_by_torch(through_scratch, jnp.ones(4)) == 0
for workspace in (None, 1024):
    op = inside(f"whose_{workspace}", from_torch(through_scratch), workspace=workspace)
    assert allocated_by_torch(jax.jit(op), jnp.ones(4)) == 2
op = inside("whose", from_jax(through_scratch))
assert allocated_by_torch(op, torch.ones(4)) == 1
try:
    jax.block_until_ready(elsewhere(jnp.ones(4)))
except Exception as error:
    assert "expected a tensor on cpu, got one on cuda:1" in str(error)
else:
    assert False
torch.use_deterministic_algorithms(True)
assert fresh(torch.ones(100)).isnan().all()
"""

LATE = """
def kernel(x, out):
    global torch
    import torch
    torch.from_dlpack(out).copy_(keep(torch.from_dlpack(x)))

assert "torch" not in sys.modules
jax.block_until_ready(define("late", kernel, workspace=1024)(jnp.full(4, 5, np.float32)))
assert "graphffi_torch" in sys.modules
check_kept(5)
"""


@pytest.fixture(scope="module")
def library() -> str:
    names = ["through_scratch", "fresh", "keep", "elsewhere", "take_kept", "allocator"]
    return graphffi.cpp.build("interop_allocators", cpp_sources=KERNELS, functions=names)


def run(script: str, library: str, order: str) -> None:
    command = [sys.executable, "-c", SETUP + script + "print('done')", library, order]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (result.stdout, result.returncode) == ("done\n", 0), result.stderr


@pytest.mark.parametrize("order", ["graphffi_torch graphffi_jax", "graphffi_jax graphffi_torch"])
def test_memory_lives_as_long_as_its_tensor(library: str, order: str) -> None:
    run("import torch\n" + APART + NESTED + WHOSE, library, order)


def test_a_kernel_with_a_workspace_imports_torch(library: str) -> None:
    run(LATE, library, "graphffi_jax")
