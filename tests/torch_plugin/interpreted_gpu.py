# SPDX-License-Identifier: Apache-2.0
"""A GPU whose kernels Triton interprets: tests/core/fake_cuda_driver.c, and kernels of libraries
that cuda_without_gpu.py made. Its tensors are TVM FFI's, on ``cuda``, in the driver's memory."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import math as tl_math

import graphffi

TENSORS: Final = """
#include <dlfcn.h>

void* Library() {
  static void* library = dlopen(std::getenv("GRAPHFFI_LIBCUDA"), RTLD_NOW);
  return library;
}

template <typename F>
F* Driver(const char* name) {
  return reinterpret_cast<F*>(dlsym(Library(), name));
}

struct Current {
  explicit Current(DLDevice device) {
    Driver<int(void*)>("cuCtxPushCurrent_v2")(reinterpret_cast<void*>(device.device_id + 10L));
  }
  ~Current() {
    void* context = nullptr;
    Driver<int(void**)>("cuCtxPopCurrent_v2")(&context);
  }
};

struct GpuMemory {
  void AllocData(DLTensor* t) {
    const Current current(t->device);
    t->data = nullptr;
    const size_t bytes = tvm::ffi::GetDataSize(*t);
    if (bytes != 0) Driver<int(void**, size_t)>("cuMemAlloc_v2")(&t->data, bytes);
  }
  void FreeData(DLTensor* t) {
    const Current current(t->device);
    if (t->data != nullptr) Driver<int(void*, void*)>("cuMemFreeAsync")(t->data, nullptr);
  }
};

tvm::ffi::Tensor to_gpu(tvm::ffi::TensorView source, int device_id) {
  auto t = tvm::ffi::Tensor::FromNDAlloc(GpuMemory(), source.shape(), source.dtype(),
                                         DLDevice{kDLCUDA, device_id});
  std::memcpy(t.data_ptr(), source.data_ptr(), tvm::ffi::GetDataSize(*t.operator->()));
  return t;
}

void to_cpu(tvm::ffi::TensorView source, tvm::ffi::TensorView target) {
  std::memcpy(target.data_ptr(), source.data_ptr(), target.numel() * target.dtype().bits / 8);
}

tvm::ffi::Tensor strided(tvm::ffi::Tensor t, tvm::ffi::Array<int64_t> shape,
                         tvm::ffi::Array<int64_t> strides) {
  return t.as_strided(tvm::ffi::Shape(shape), tvm::ffi::Shape(strides));
}

int64_t num_allocated = 0;
int AllocateInHost(DLTensor* prototype, DLManagedTensorVersioned** out, void*,
                   void (*)(void*, const char*, const char*)) {
  ++num_allocated;
  auto t = tvm::ffi::Tensor::FromNDAlloc(
      GpuMemory(), tvm::ffi::Shape(prototype->shape, prototype->shape + prototype->ndim),
      prototype->dtype, prototype->device);
  *out = t.ToDLPackVersioned();
  return 0;
}
// Torch's for the process has no memory of this GPU.
void use_allocator(bool is_used) {
  TVMFFIEnvSetDLPackManagedTensorAllocator(nullptr, 1, nullptr);
  TVMFFIEnvSetDLPackManagedTensorAllocator(is_used ? &AllocateInHost : nullptr, 0, nullptr);
}
int64_t allocated() { return num_allocated; }
"""
FUNCTIONS: Final = ["to_gpu", "to_cpu", "strided", "use_allocator", "allocated"]


class _Functions:
    """CUDA's own library of functions, which the interpreter has not, by those of Triton."""

    def __getattr__(self, name: str) -> Any:
        return getattr(tl, name)

    @staticmethod
    def isnan(x: Any) -> Any:
        return x != x

    @staticmethod
    def isinf(x: Any) -> Any:
        return tl.abs(x) == float("inf")


class Gpu:
    """The GPU of this process.

    Args:
        driver: The library that fake_cuda_driver.c makes.
        tensors: The library of `TENSORS`.
    """

    def __init__(self, driver: str, tensors: str) -> None:
        os.environ["GRAPHFFI_LIBCUDA"] = driver
        self.driver = ctypes.CDLL(driver)
        self.tensors = graphffi.load_module(tensors)
        self.tensors.use_allocator(False)
        self.failures: list[str] = []
        self._lock = threading.Lock()  # the interpreter is for one thread
        self._kernels: dict[str, Callable[..., None]] = {}
        self._types: dict[str, list[str]] = {}
        kind = ctypes.CFUNCTYPE(
            None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), ctypes.POINTER(ctypes.c_void_p)
        )
        self._callback = kind(self._launch)
        pointer = ctypes.cast(self._callback, ctypes.c_void_p)
        ctypes.c_void_p.in_dll(self.driver, "fake_kernel").value = pointer.value
        self.driver.fake_bytes_from.argtypes = [ctypes.c_void_p]
        self.driver.fake_bytes_from.restype = ctypes.c_size_t

    def number(self, name: str, kind: Any = ctypes.c_int) -> Any:
        """A variable of the driver."""
        return kind.in_dll(self.driver, name)

    def load(self, library: Path) -> graphffi.Module:
        """A library, whose kernels are in a file beside it."""
        for name, kernel in json.loads(library.with_suffix(".json").read_text()).items():
            self._kernels[name], self._types[name] = self._interpreted(library, kernel)
        return graphffi.load_module(str(library))

    def _interpreted(
        self, library: Path, kernel: dict[str, Any]
    ) -> tuple[Callable[..., None], list[str]]:
        path = library.with_name(f"{kernel['function']}.py")
        source = f"import triton\n@triton.jit\n{kernel['source']}"
        path.write_text(source)  # the interpreter reads the file
        scope = {
            **{"tl": tl, "triton_helpers": triton_helpers, "tl_math": tl_math},
            "libdevice": _Functions(),
        }
        exec(compile(source, str(path), "exec"), scope)
        function: Any = scope[kernel["function"]]
        constants, signature = kernel["constants"], kernel["signature"]
        passed = [name for name, kind in signature.items() if kind != "constexpr"]

        def launch(grid: tuple[int, ...], values: list[Any]) -> None:
            function[grid](**dict(zip(passed, values, strict=True)), **constants)

        return launch, [signature[name] for name in passed]

    def _launch(self, name: bytes, grid: Any, parameters: Any) -> None:
        kernel = name.decode()
        try:
            values = [
                self._value(kind, parameters[i]) for i, kind in enumerate(self._types[kernel])
            ]
            with self._lock:
                self._kernels[kernel]((grid[0], grid[1], grid[2]), values)
        except Exception:
            self.failures.append(traceback.format_exc())

    def _value(self, kind: str, place: int) -> Any:
        if not kind.startswith("*"):
            types = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "fp32": ctypes.c_float}
            return types[kind].from_address(place).value
        address = ctypes.c_uint64.from_address(place).value
        dtype = dtype_of_pointer(kind)
        size = self.driver.fake_bytes_from(address) // dtype.itemsize
        if size == 0:
            return torch.empty(0, dtype=dtype)
        memory = (ctypes.c_char * (size * dtype.itemsize)).from_address(address)
        return torch.frombuffer(memory, dtype=dtype)

    def put(self, tensor: torch.Tensor, device_id: int = 0) -> Any:
        """A copy of the tensor on the GPU."""
        return self.tensors.to_gpu(graphffi.from_dlpack(tensor.contiguous().numpy()), device_id)

    def get(self, tensor: Any) -> torch.Tensor:
        """A copy of a contiguous tensor of the GPU."""
        copy = torch.empty(tuple(tensor.shape), dtype=getattr(torch, str(tensor.dtype)))
        self.tensors.to_cpu(tensor, graphffi.from_dlpack(copy.numpy()))
        return copy


def dtype_of_pointer(kind: str) -> torch.dtype:
    """The data type of a pointer in a signature of Triton's."""
    names = {
        **{"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"},
        **{"i1": "bool", "i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64"},
    }
    dtype = getattr(torch, names[kind.lstrip("*")])
    assert isinstance(dtype, torch.dtype)
    return dtype
