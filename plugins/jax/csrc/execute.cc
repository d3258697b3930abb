// SPDX-License-Identifier: Apache-2.0
#include "execute.h"

#include <functional>
#include <memory>
#include <numeric>
#include <string>

#include "allocator.h"
#include "call/error.h"
#include "call/placed_call.h"
#include "call/value.h"
#include "dtype.h"
#include "env/allocation.h"
#include "env/env_scope.h"
#include "error_ring.h"
#include "exit_gate.h"
#include "tensors.h"
#include "workspace.h"
#include "xla_api.h"

namespace graphffi_jax {

using graphffi::AllocatorScope;
using graphffi::CallPlace;
using graphffi::Error;
using graphffi::Layout;

namespace {

constexpr CallPlace kOnCpu{{kDLCPU, 0}};

/// Memory for the arguments of one call. Borrowed.
struct Storage {
  TVMFFIAny* values;
  TensorRoom tensors;
};

int64_t CountElements(const xla::Buffer& buffer) {
  return std::accumulate(buffer.dims, buffer.dims + buffer.rank, int64_t{1}, std::multiplies<>());
}

/// Refuses updates of a result that nobody has filled. \throws Error(ValueError)
void CheckAliases(const xla::Call& arrays, const Arity& arity) {
  for (int32_t i = 0; i < arity.num_outputs - arity.num_returned; ++i) {
    auto& operand = *static_cast<const xla::Buffer*>(arrays.args.buffers[arity.num_inputs + i]);
    auto& result = *static_cast<const xla::Buffer*>(arrays.rets.buffers[arity.num_returned + i]);
    if (operand.data == result.data || CountElements(operand) == 0) continue;
    throw Error("ValueError", "updated: expected operand " + std::to_string(arity.num_inputs + i) +
                                  " in the memory of result " +
                                  std::to_string(arity.num_returned + i) +
                                  ", got a copy; pass input_output_aliases to jax.ffi.ffi_call");
  }
}

/// Calls the kernel, with arguments in `storage`. False where the tensors' strides don't fit, and
/// nothing was called.
bool CallInStorage(const xla::Call& arrays, const Site& site, const CallPlace& place,
                   const Arity& arity, Storage storage) {
  const Layout& layout = arity.layout;
  TVMFFIAny* const values = storage.values;
  if (arity.num_returned != arity.num_outputs) CheckAliases(arrays, arity);
  if (!MakeViews(arrays.args, arity.num_inputs, place.device, "operand ", &storage.tensors,
                 values + layout.inputs.begin) ||
      !MakeViews(arrays.rets, arity.num_outputs, place.device, "result ", &storage.tensors,
                 values + layout.outputs.begin)) {
    return false;
  }
  if (site.is_named &&
      !(PairFloat4(values + layout.inputs.begin, arity.num_inputs, &storage.tensors) &&
        PairFloat4(values + layout.outputs.begin, arity.num_outputs, &storage.tensors))) {
    return false;
  }
  const graphffi::KernelSlot::Use kernel(*site.kernel);
  arity.Call(site.signature, kernel.kernel(), site.kernel->reference().c_str(), place, values);
  return true;
}

/// Calls with more tensors than fit on the stack: their memory is one block, which is not cleared.
void CallOnHeap(const xla::Call& arrays, const Site& site, const CallPlace& place,
                const Arity& arity) {
  const auto num_values = static_cast<size_t>(arity.num_values);
  const auto num_tensors = static_cast<size_t>(arity.num_inputs + arity.num_outputs);
  // Each tensor's strides and, where float4 is passed in pairs, its shape.
  const auto num_dims = static_cast<size_t>(2 * (CountDims(arrays.args) + CountDims(arrays.rets)));
  const std::unique_ptr<char[]> block(
      new char[num_values * sizeof(TVMFFIAny) + num_tensors * sizeof(DLTensor) +
               num_dims * sizeof(int64_t)]);
  auto* values = reinterpret_cast<TVMFFIAny*>(block.get());
  auto* tensors = reinterpret_cast<DLTensor*>(values + num_values);
  auto* strides = reinterpret_cast<int64_t*>(tensors + num_tensors);
  CallInStorage(arrays, site, place, arity, {values, {tensors, strides, strides + num_dims}});
}

/// A call of the site's kernel with XLA's arrays, in an env that is set. \throws Error
void CallKernel(const xla::Call& arrays, const Site& site, const CallPlace& place) try {
  constexpr int32_t kInlineValues = 64, kInlineDims = 128;
  const Arity& arity = site.ArityOf(arrays.args.size, arrays.rets.size);
  TVMFFIAny values[kInlineValues];
  DLTensor tensors[kInlineValues];
  int64_t strides[kInlineDims];
  const bool fits = arity.num_values <= kInlineValues &&
                    CallInStorage(arrays, site, place, arity,
                                  {values, {tensors, strides, strides + kInlineDims}});
  if (!fits) CallOnHeap(arrays, site, place, arity);
} catch (const Error& error) {
  // Variables of Python's functions may be views of XLA's memory: they go before that does.
  ClearFrames(error);
  throw;
}

struct Workspace {
  void* data = nullptr;
  int64_t num_bytes = 0;
};

/// The last result: bytes of any shape (a batch of calls has a batch of workspaces).
Workspace WorkspaceOf(const xla::Call& call) {
  if (call.rets.size == 0) {
    throw Error("ValueError", "workspace: expected a result for it, got none");
  }
  auto& buffer = *static_cast<const xla::Buffer*>(call.rets.buffers[call.rets.size - 1]);
  if (buffer.dtype != xla::kU8) {
    throw Error("TypeError",
                "workspace: expected uint8 as the last result, got " + DataTypeName(buffer.dtype));
  }
  return {buffer.data, CountElements(buffer)};
}

[[noreturn, gnu::cold]] void FailHeld(int held, const char* memory) {
  throw Error("RuntimeError", "graphffi: the kernel kept " + std::to_string(held) +
                                  " of the tensors that it allocated; " + memory +
                                  " lives as long as the call");
}

/// Serves what the kernel allocates from its workspace.
void RunAllocatingFromWorkspace(const xla::Call& arrays, const Site& site, const CallPlace& place,
                                const Workspace& workspace) {
  WorkspaceScope scope(workspace.data, workspace.num_bytes, place.device);
  CallKernel(arrays, site, place);
  const int held = scope.Close();
  site.NoteWorkspace(scope.peak(), scope.capacity());
  if (scope.peak() > scope.capacity()) {
    throw Error("MemoryError", "workspace: expected at least " + std::to_string(scope.peak()) +
                                   " bytes, got " + std::to_string(scope.capacity()) +
                                   "; declare a larger workspace=");
  }
  if (held != 0) FailHeld(held, "a workspace");
}

/// Gives the kernel its workspace as an argument: one dimension, in bytes.
void RunPassingWorkspace(const xla::Call& arrays, const Site& site, CallPlace place,
                         Workspace workspace) {
  int64_t stride = 1;
  const DLDataType bytes{kDLUInt, 8, 1};
  DLTensor tensor{workspace.data, place.device, 1, bytes, &workspace.num_bytes, &stride, 0};
  place.workspace = graphffi::ToAny(&tensor);
  CallKernel(arrays, site, place);
}

/// Calls with or without a workspace.
void Run(const xla::Call& arrays, const Site& site, const CallPlace& place) {
  if (!site.has_workspace) return CallKernel(arrays, site, place);
  const Workspace workspace = WorkspaceOf(arrays);
  if (site.passes_workspace()) return RunPassingWorkspace(arrays, site, place, workspace);
  RunAllocatingFromWorkspace(arrays, site, place, workspace);
}

/// Kernels with a workspace, kernels that may enter Python, and threads with another allocator. The
/// shared one does not stay: a call of another framework that comes from here would leave it, too,
/// and get memory of the workspace.
void ExecuteApartOnCpu(const xla::Call& arrays, const Site& site) {
  AllocatorScope env(&AllocateForCall);
  NoWorkspaceScope without;
  Run(arrays, site, kOnCpu);
}

void ExecuteOnCpu(const xla::Call& arrays, const Site& site) {
  if (!AllocatorScope::HasEither(&AllocateForCall, shared_allocator)) {
    return ExecuteApartOnCpu(arrays, site);
  }
  NoWorkspaceScope without;
  CallKernel(arrays, site, kOnCpu);
}

DLPackManagedTensorAllocator GpuAllocator(const Site& site, Target target) {
  if (site.has_workspace && !site.passes_workspace()) return &AllocateForCall;
  return target.graph ? &RefuseUnderCapture : &AllocateScratch;
}

void ExecuteOnGpu(const xla::Call& arrays, const Site& site, Target target) {
  const DLDevice device = {target.device_type, xla::GetDeviceOrdinal(arrays)};
  const CallPlace place{device, xla::GetStream(arrays)};
  graphffi::EnvScope env(device, place.stream, GpuAllocator(site, target));
  ScratchScope scratch(arrays);
  Run(arrays, site, place);
  if (const int held = scratch.Close()) FailHeld(held, "XLA's scratch memory");
}

/// Takes the first buffer away. \throws Error
void SkipToken(const char* bank, xla::Buffers* buffers) {
  if (buffers->size == 0 || buffers->tags[0] != xla::kBuffer ||
      static_cast<const xla::Buffer*>(buffers->buffers[0])->dtype != xla::kToken) {
    throw Error("TypeError", std::string("ordered: expected a token as the first ") + bank);
  }
  --buffers->size;
  ++buffers->tags;
  ++buffers->buffers;
}

/// The call without the tokens by which XLA orders it, in *rest. \throws Error
const xla::Call* SkipTokens(const xla::Call& call, xla::Call* rest) {
  *rest = call;
  SkipToken("operand", &rest->args);
  SkipToken("result", &rest->rets);
  return rest;
}

[[gnu::cold]] xla::Status* RefuseAtExit(const xla::Api* api, const Site& site) {
  return xla::MakeStatus(api, xla::kCancelled, site.subject() + ": the process is ending");
}

/// Calls on GPUs, and of sites where there is something to do around a call.
xla::Status* ExecuteGuarded(const xla::Call& call, const Site& site, Target target) {
  GatedCall gate(site.gated(), target.device_type);
  if (!gate.admitted()) return RefuseAtExit(call.api, site);
  xla::Call rest;
  const xla::Call& arrays = site.is_ordered ? *SkipTokens(call, &rest) : call;
  if (target.device_type != kDLCPU) {
    ExecuteOnGpu(arrays, site, target);
  } else {
    ExecuteApartOnCpu(arrays, site);
  }
  return nullptr;
}

}  // namespace

xla::Status* ExecuteCall(const xla::Call& call, Target target) noexcept {
  void* state;
  if (xla::Status* status = xla::GetState(call, &state)) return status;
  auto& site = *static_cast<const Site*>(state);
  try {
    if (target.device_type != kDLCPU || site.is_guarded()) {
      return ExecuteGuarded(call, site, target);
    }
    ExecuteOnCpu(call, site);
    return nullptr;
  } catch (...) {
    return ReportCaught(call.api, site.subject());
  }
}

}  // namespace graphffi_jax
