# SPDX-License-Identifier: Apache-2.0
"""Python code of FlashInfer's shape around functions of apache-tvm-ffi's package, on the CPU.

Getters with caches compile modules, some wrap the functions in closures; a decorator reads the
environment; what the device can is a cached query; a wrapper object plans and runs.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import tvm_ffi

SOURCE = r"""
#include <tvm/ffi/tvm_ffi.h>

namespace ffi = tvm::ffi;
using ffi::Optional;
using ffi::TensorView;

float* Data(TensorView x) { return static_cast<float*>(x.data_ptr()) + x.byte_offset() / 4; }

void rmsnorm(TensorView out, TensorView x, TensorView w, double eps, bool enable_pdl) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    Data(out)[i] = Data(x)[i] * Data(w)[i % w.size(0)] + enable_pdl;
  }
}
void fused_add_rmsnorm(TensorView x, TensorView residual, TensorView w, double eps, bool pdl) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    Data(residual)[i] += Data(x)[i];
    Data(x)[i] = Data(residual)[i] * Data(w)[i % w.size(0)];
  }
}
void silu_and_mul(TensorView out, TensorView x, bool enable_pdl) {
  const int64_t half = out.size(1);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const float* row = Data(x) + i / half * half * 2 + i % half;
    Data(out)[i] = row[0] * row[half];
  }
}
void rope(TensorView q, TensorView k, TensorView q_rope, TensorView k_rope, TensorView positions,
          bool interleave) {
  for (int64_t i = 0; i < q.numel(); ++i) {
    Data(q_rope)[i] = Data(q)[i] + Data(positions)[i / q.stride(0)];
  }
  for (int64_t i = 0; i < k.numel(); ++i) Data(k_rope)[i] = Data(k)[i] * 2;
}
// Caches may be parts of one tensor.
void append(TensorView k, TensorView v, TensorView k_cache, TensorView v_cache, int64_t layout) {
  for (int64_t i = 0; i < k.size(0); ++i) {
    for (int64_t j = 0; j < k.stride(0); ++j) {
      Data(k_cache)[i * k_cache.stride(0) + j] = Data(k)[i * k.stride(0) + j];
      Data(v_cache)[i * v_cache.stride(0) + j] = Data(v)[i * v.stride(0) + j];
    }
  }
}
ffi::Array<int64_t> plan(int64_t batch, int64_t pages) { return {batch, pages}; }
void run(TensorView workspace, ffi::Array<int64_t> plan, TensorView q, TensorView k_cache,
         TensorView o, Optional<TensorView> lse, double scale) {
  for (int64_t i = 0; i < q.numel(); ++i) {
    Data(o)[i] = Data(q)[i] * scale + Data(k_cache)[i % q.stride(0)] + plan[1];
  }
}
"""
NAMES = "rmsnorm fused_add_rmsnorm silu_and_mul rope append plan run".split()


def api(function: Callable[..., Any]) -> Callable[..., Any]:
    """Logs calls, if the environment says so."""

    @functools.wraps(function)
    def wrapper(*args: Any, **named: Any) -> Any:
        if os.environ.get("FLASHINFER_SHAPE_LOG"):
            print(function.__name__)
        return function(*args, **named)

    return wrapper


@functools.cache
def get_module() -> Any:
    """The compiled module."""
    return tvm_ffi.cpp.load_inline("flashinfer_shape", cpp_sources=SOURCE, functions=NAMES)


@functools.cache
def get_activation(name: str) -> Any:
    """A function of the module, in a closure."""
    function = getattr(get_module(), f"{name}_and_mul")

    def act(out: torch.Tensor, x: torch.Tensor, enable_pdl: bool | None = None) -> None:
        function(out, x, supports_pdl(x.device) if enable_pdl is None else enable_pdl)

    return SimpleNamespace(**{f"{name}_and_mul": act})


@functools.cache
def get_function(name: str) -> Any:
    """A function of the module itself."""
    return getattr(get_module(), name)


@functools.cache
def supports_pdl(device: torch.device) -> bool:
    """Asks for the device."""
    return device.type == "cpu"


@api
def rmsnorm(
    x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Allocates its result."""
    out = torch.empty_like(x) if out is None else out
    get_module().rmsnorm(out, x, w, eps, supports_pdl(x.device))
    return out


@api
def fused_add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, w: torch.Tensor, eps: float = 1e-6
) -> None:
    """Updates two tensors."""
    get_module().fused_add_rmsnorm(x, residual, w, eps, supports_pdl(x.device))


@api
def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """Calls a closure around a function."""
    out = torch.empty((*x.shape[:-1], x.shape[-1] // 2), dtype=x.dtype, device=x.device)
    get_activation("silu").silu_and_mul(out, x)
    return out


@api
def rope_inplace(positions: torch.Tensor, q: torch.Tensor, k: torch.Tensor, size: int) -> None:
    """Passes each tensor twice, as views that are made anew."""
    get_function("rope")(
        q.view(q.shape[0], -1, size),
        k.view(k.shape[0], -1, size),
        q.view(q.shape[0], -1, size),
        k.view(k.shape[0], -1, size),
        positions,
        False,
    )


@api
def append(k: torch.Tensor, v: torch.Tensor, cache: torch.Tensor) -> None:
    """Updates two parts of one tensor."""
    get_module().append(k, v, *cache.unbind(dim=1), 0)


class Decode:
    """Plans, then runs."""

    def __init__(self, workspace: torch.Tensor) -> None:
        self._workspace = workspace

    def plan(self, batch: int, pages: int) -> None:
        """Keeps an array that a function returned."""
        self._module = SimpleNamespace(run=get_module().run)
        self._plan_info = get_module().plan(batch, pages)

    @api
    def run(self, q: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        """Allocates its result."""
        out = torch.empty_like(q)
        k_cache, _ = cache.unbind(dim=1)
        self._module.run(self._workspace, self._plan_info, q, k_cache, out, None, 0.5)
        return out
