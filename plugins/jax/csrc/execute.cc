// SPDX-License-Identifier: Apache-2.0
#include "execute.h"

#include <algorithm>
#include <string>

#include "allocator.h"
#include "callframe/allocation.h"
#include "callframe/env_scope.h"
#include "callframe/error.h"
#include "callframe/returned.h"
#include "callframe/value.h"
#include "error_ring.h"
#include "exit_gate.h"
#include "tensors.h"
#include "workspace.h"
#include "xla_api.h"

namespace graphffi {
namespace {

/// The kernel's call, in an env that is set. \throws Error
[[gnu::always_inline]] inline void CallKernel(const Site& site, const CallValues& values) {
  // Not to be retained: XLA takes its buffers back when the call returns.
  CallFrame frame(site.lends() ? CallFrame::Views::kLent : CallFrame::Views::kPassed);
  frame.PushPlan(site.plan(), values);
  const int32_t count = values.outputs.size - static_cast<int32_t>(site.mutated());
  const bool is_passed = site.PassesResults(count);
  CallForResults(
      site.kernel(), is_passed || count == 0,
      [&] { return Results{&values.outputs, count, is_passed}; }, &frame);
}

struct Workspace {
  void* data = nullptr;
  int64_t num_bytes = 0;
};

/// The last result: bytes of any shape (a batch of calls has a batch of workspaces).
Workspace WorkspaceOf(const xla::CallFrame& call) {
  if (call.rets.size == 0) {
    throw Error("ValueError", "attribute 'workspace': expected a result for it, got none");
  }
  auto& buffer = *static_cast<const xla::Buffer*>(call.rets.buffers[call.rets.size - 1]);
  if (buffer.dtype != xla::kU8) {
    throw Error("TypeError",
                "workspace: expected uint8 as the last result, got " + DataTypeName(buffer.dtype));
  }
  Workspace workspace{buffer.data, 1};
  for (int64_t i = 0; i < buffer.rank; ++i) workspace.num_bytes *= buffer.dims[i];
  return workspace;
}

[[noreturn, gnu::cold]] void FailMutated(int64_t most, const Site& site) {
  throw Error("ValueError", "attribute 'mutated': expected at most " + std::to_string(most) +
                                ", got " + std::to_string(site.mutated()));
}

/// What the plan picks from.
inline CallValues ValuesOf(const xla::CallFrame& call, const Site& site, const Tensors& tensors,
                           DLDevice device, void* stream) {
  const int64_t num_inputs = call.args.size - site.mutated();
  const int64_t num_outputs = call.rets.size - (site.has_workspace() ? 1 : 0);
  if (num_inputs < 0 || num_outputs < site.mutated()) {
    FailMutated(std::min(call.args.size, num_outputs), site);
  }
  const TVMFFIAny* values = tensors.values();
  return {{values, nullptr, static_cast<int32_t>(num_inputs)},
          {values + call.args.size, nullptr, static_cast<int32_t>(num_outputs)},
          {},
          stream,
          {},
          device};
}

/// For kernels that take their workspace as an argument: one dimension, in bytes.
void PassWorkspace(const Workspace& workspace, DLDevice device, int64_t* dim, DLTensor* tensor,
                   CallValues* values) {
  static constexpr int64_t kStride = 1;
  *dim = workspace.num_bytes;
  *tensor = DLTensor{};
  tensor->data = workspace.data;
  tensor->device = device;
  tensor->ndim = 1;
  tensor->dtype = {kDLUInt, 8, 1};
  tensor->shape = dim;
  tensor->strides = const_cast<int64_t*>(&kStride);
  values->workspace = MakeTensorView(tensor);
}

[[noreturn, gnu::cold]] void FailHeld(int held, const char* memory) {
  throw Error("RuntimeError", "graphffi: the kernel kept " + std::to_string(held) +
                                  " of the tensors that it allocated; " + memory +
                                  " lives as long as the call");
}

void CallInWorkspace(const Site& site, const Workspace& workspace, const CallValues& values) {
  WorkspaceScope scope(workspace.data, workspace.num_bytes, values.device);
  CallKernel(site, values);
  const int held = scope.Close();
  site.NoteWorkspace(scope.peak(), scope.capacity());
  if (scope.peak() > scope.capacity()) {
    throw Error("MemoryError", "workspace: expected at least " + std::to_string(scope.peak()) +
                                   " bytes, got " + std::to_string(scope.capacity()) +
                                   "; declare a larger workspace=");
  }
  if (held != 0) FailHeld(held, "a workspace");
}

/// Calls of sites with a workspace.
void CallWithWorkspace(const xla::CallFrame& call, const Site& site, CallValues* values) {
  const Workspace workspace = WorkspaceOf(call);
  if (!site.passes_workspace()) return CallInWorkspace(site, workspace, *values);
  int64_t dim;
  DLTensor tensor;
  PassWorkspace(workspace, values->device, &dim, &tensor, values);
  CallKernel(site, *values);
}

[[gnu::always_inline]] inline void ExecuteOnCpu(const xla::CallFrame& call, const Site& site) {
  constexpr DLDevice kDevice = {kDLCPU, 0};
  AllocatorScope env(&AllocateForCall);
  NoWorkspaceScope without;
  Tensors tensors(call, kDevice);
  CallValues values = ValuesOf(call, site, tensors, kDevice, nullptr);
  if (site.has_workspace()) return CallWithWorkspace(call, site, &values);
  CallKernel(site, values);
}

DLPackManagedTensorAllocator GpuAllocator(const Site& site, Target target) {
  if (site.has_workspace() && !site.passes_workspace()) return &AllocateForCall;
  return target.graph ? &RefuseUnderCapture : &AllocateScratch;
}

void ExecuteOnGpu(const xla::CallFrame& call, const Site& site, Target target) {
  DLDevice device = {target.device_type, xla::GetDeviceOrdinal(call)};
  Tensors tensors(call, device);
  CallValues values = ValuesOf(call, site, tensors, device, xla::GetStream(call));
  EnvScope env(device, values.stream, GpuAllocator(site, target));
  ScratchScope scratch(call);
  if (site.has_workspace()) {
    CallWithWorkspace(call, site, &values);
  } else {
    CallKernel(site, values);
  }
  if (const int held = scratch.Close()) FailHeld(held, "XLA's scratch memory");
}

/// Takes the first buffer away. \throws Error
void SkipToken(const char* bank, xla::Buffers* buffers) {
  if (buffers->size == 0 || buffers->tags[0] != xla::kBuffer ||
      static_cast<const xla::Buffer*>(buffers->buffers[0])->dtype != xla::kToken) {
    throw Error("TypeError",
                std::string("attribute 'ordered': expected a token as the first ") + bank);
  }
  --buffers->size;
  ++buffers->tags;
  ++buffers->buffers;
}

/// The call without the tokens by which XLA orders it, in *rest. \throws Error
const xla::CallFrame* SkipTokens(const xla::CallFrame& call, xla::CallFrame* rest) {
  *rest = call;
  SkipToken("operand", &rest->args);
  SkipToken("result", &rest->rets);
  return rest;
}

[[gnu::always_inline]] inline void Execute(const xla::CallFrame& call, const Site& site,
                                           Target target) {
  if (target.device_type == kDLCPU) {
    ExecuteOnCpu(call, site);
  } else {
    ExecuteOnGpu(call, site, target);
  }
}

[[gnu::cold]] xla::Status* RefuseAtExit(const xla::Api* api, const Site& site) {
  return xla::MakeStatus(api, xla::kCancelled, site.subject() + ": the process is ending");
}

}  // namespace

xla::Status* ExecuteCall(const xla::CallFrame& call, Target target) noexcept {
  const Site* opt_site = nullptr;
  try {
    void* state = nullptr;
    if (xla::Status* status = xla::GetState(call, &state)) return status;
    auto& site = *static_cast<const Site*>(state);
    opt_site = &site;
    GatedCall gate(site.gated(), call, target.device_type);
    if (!gate.admitted()) return RefuseAtExit(call.api, site);
    xla::CallFrame rest;
    const xla::CallFrame* arrays = &call;
    if (site.is_ordered()) arrays = SkipTokens(call, &rest);
    Execute(*arrays, site, target);
    return nullptr;
  } catch (...) {
    return ReportCaught(call.api, opt_site == nullptr ? "" : opt_site->subject());
  }
}

}  // namespace graphffi
