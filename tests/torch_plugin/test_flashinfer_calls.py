# SPDX-License-Identifier: Apache-2.0
"""FlashInfer's own Python code in a graph, where it is installed: fake tensors of a GPU.

Its modules are one library here, whose functions have FlashInfer's parameters and do nothing.
"""

from __future__ import annotations

import pytest

from tests.torch_plugin.test_apache_calls import run

pytestmark = [pytest.mark.needs("tvm_ffi", "flashinfer"), pytest.mark.slow]

PROGRAM = r"""
from types import SimpleNamespace

import torch
import tvm_ffi

# What the device can, as torch tells it; torch.compile asks while it traces.
properties = object.__new__(torch.cuda._CudaDeviceProperties)
properties.__dict__.update(major=9, minor=0, multi_processor_count=132)
torch.cuda.get_device_properties = lambda device=None: properties

import flashinfer
import graphffi_torch
from flashinfer.jit.core import JitSpec
from torch._subclasses.fake_tensor import FakeTensorMode

SOURCE = '''
#include <tvm/ffi/tvm_ffi.h>
using T = tvm::ffi::TensorView;
using OptT = tvm::ffi::Optional<T>;
using Ints = tvm::ffi::Array<int64_t>;

void rmsnorm(T out, T x, T w, double eps, bool enable_pdl) {}
void fused_add_rmsnorm(T x, T residual, T w, double eps, bool enable_pdl) {}
void silu_and_mul(T out, T x, bool enable_pdl) {}
void apply_rope_pos_ids_cos_sin_cache(T q, T k, T q_rope, T k_rope, T cos_sin_cache, T pos_ids,
                                      bool interleave) {}
void append_paged_kv_cache(T k, T v, T batch_indices, T positions, T k_cache, T v_cache,
                           T indices, T indptr, T last_page_len, int64_t layout) {}
void softmax(T workspace, T logits, T out, OptT temperatures, double temperature, bool pdl) {}
Ints plan(int64_t batch) { return {batch, 2, 3}; }
void run(T floats, T ints, Ints plan, T q, T k_cache, T v_cache, T indptr, T indices, T last,
         T o, OptT lse, int64_t layout, int64_t window_left, bool enable_pdl, OptT alibi,
         double cap, double scale, double rope_scale, double rope_theta) {}
'''
NAMES = (
    "rmsnorm fused_add_rmsnorm silu_and_mul apply_rope_pos_ids_cos_sin_cache "
    "append_paged_kv_cache softmax plan run"
).split()
module = tvm_ffi.cpp.load_inline("flashinfer_calls", cpp_sources=SOURCE, functions=NAMES)
JitSpec.build_and_load = lambda self: module


def planned():
    "A wrapper that was planned on the CPU, then moved."
    empty, get = torch.empty, flashinfer.decode.get_batch_decode_module

    def get_module(*key):
        plan = lambda *args: module.plan(args[4])
        return SimpleNamespace(plan=plan, workspace_size=None, run=get(*key).run)

    flashinfer.decode.get_batch_decode_module = get_module
    torch.empty = lambda *args, pin_memory=False, **named: empty(*args, **named)
    workspace = torch.zeros(1024, dtype=torch.uint8)
    decode = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, backend="fa2")
    indptr, indices, last = (torch.arange(n, dtype=torch.int32) for n in (5, 4, 4))
    kinds = {"q_data_type": torch.float16, "kv_data_type": torch.float16}
    decode.plan(indptr, indices, last, 2, 1, 64, 16, **kinds)
    torch.empty = empty
    with mode:
        for name, value in vars(decode).items():
            if isinstance(value, torch.Tensor):
                moved = torch.empty(value.shape, dtype=value.dtype, device="cuda")
                setattr(decode, name, moved)
    return decode


def keep(owner, name, *keys):
    getter = getattr(owner, name)
    made = {key: getter(*key) for key in keys or [()]}
    setattr(owner, name, lambda *key: made[key])


keep(flashinfer.norm, "get_norm_module")
keep(flashinfer.rope, "get_rope_module")
keep(flashinfer.page, "get_page_module")
keep(flashinfer.sampling, "get_sampling_module")
keep(flashinfer.activation, "get_act_and_mul_module", ("silu",))


def layer(decode, x, residual, w, q, k, v, positions, cos_sin, cache, indices, indptr):
    flashinfer.norm.fused_add_rmsnorm(x, residual, w)
    flashinfer.rope.apply_rope_with_cos_sin_cache_inplace(positions, q, k, 64, cos_sin)
    k, v = k.view(-1, 1, 64), v.view(-1, 1, 64)
    flashinfer.page.append_paged_kv_cache(
        k, v, positions, positions, cache, indices, indptr, indices
    )
    o = decode.run(q.view(-1, 2, 64), cache)
    h = flashinfer.activation.silu_and_mul(o.view(-1, 128))
    return flashinfer.sampling.softmax(flashinfer.norm.rmsnorm(h, w))


calls = []


def backend(graph, examples):
    nodes = graph.graph.find_nodes(op="call_function", target=torch.ops.tvm_ffi.call.default)
    calls.append([node.args[0].rpartition("::")[2] for node in nodes])
    return graph.forward  # a torch without CUDA can't make it functional


mode = FakeTensorMode()
decode = planned()
with mode, torch.no_grad():
    half, number, word = torch.float16, torch.float32, torch.int32
    sizes = [
        *[((4, 64), half), ((4, 64), half), ((64,), half), ((4, 128), half), ((4, 64), half)],
        *[((4, 64), half), ((4,), word), ((99, 64), number), ((8, 2, 16, 1, 64), half)],
        *[((4,), word), ((5,), word)],
    ]
    inputs = [torch.empty(size, dtype=kind, device="cuda") for size, kind in sizes]
    out = torch.compile(layer, fullgraph=True, backend=backend)(decode, *inputs)
assert (out.shape, out.device.type) == ((4, 64), "cuda"), out
assert calls == [
    [
        "fused_add_rmsnorm",
        "apply_rope_pos_ids_cos_sin_cache",
        "append_paged_kv_cache",
        "run",
        "silu_and_mul",
        "rmsnorm",
        "softmax",
    ]
], calls
"""


def test_a_decoder_layer_is_one_graph_with_one_node_a_launch() -> None:
    run(PROGRAM, FLASHINFER_CUDA_ARCH_LIST="9.0a")
