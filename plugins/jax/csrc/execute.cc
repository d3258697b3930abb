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
#include "tensors.h"
#include "workspace.h"
#include "xla_api.h"

namespace graphffi {
namespace {

/// The kernel's call, in an env that is set. \throws Error
inline void CallKernel(const Site& site, const CallValues& values) {
  // Without retain: XLA takes its buffers back when the call returns.
  static constexpr Lending kLending;
  Loans loans(kLending);
  CallFrame frame(site.lends() ? &loans : nullptr);
  frame.PushPlan(site.plan(), values);
  const int32_t count = values.outputs.size - static_cast<int32_t>(site.mutated());
  const Results results{&values.outputs, count, site.PassesResults(count)};
  CallForResults(site.kernel(), results, &frame);
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

[[noreturn]] void FailMutated(int64_t most, const Site& site) {
  throw Error("ValueError", "attribute 'mutated': expected at most " + std::to_string(most) +
                                ", got " + std::to_string(site.mutated()));
}

void FillValues(const xla::CallFrame& call, const Site& site, const Tensors& tensors,
                DLDevice device, CallValues* values) {
  const int64_t num_inputs = call.args.size - site.mutated();
  const int64_t num_outputs = call.rets.size - (site.has_workspace() ? 1 : 0);
  if (num_inputs < 0 || num_outputs < site.mutated()) {
    FailMutated(std::min(call.args.size, num_outputs), site);
  }
  values->inputs.values = tensors.values();
  values->inputs.size = static_cast<int32_t>(num_inputs);
  values->outputs.values = tensors.values() + call.args.size;
  values->outputs.size = static_cast<int32_t>(num_outputs);
  values->device = device;
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

[[noreturn]] void FailHeld(int held, const char* memory) {
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

void ExecuteOnCpu(const xla::CallFrame& call, const Site& site) {
  constexpr DLDevice kDevice = {kDLCPU, 0};
  Tensors tensors(call, kDevice);
  CallValues values;
  FillValues(call, site, tensors, kDevice, &values);
  AllocatorScope env(&AllocateForCall);
  NoWorkspaceScope without;
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
  CallValues values;
  FillValues(call, site, tensors, device, &values);
  values.stream = xla::GetStream(call);
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

void Execute(const xla::CallFrame& call, const Site& site, Target target) {
  if (target.device_type == kDLCPU) {
    ExecuteOnCpu(call, site);
  } else {
    ExecuteOnGpu(call, site, target);
  }
}

}  // namespace

void ExecuteSite(const xla::CallFrame& call, const Site& site, Target target) {
  if (!site.is_ordered()) return Execute(call, site, target);
  xla::CallFrame rest = call;
  SkipToken("operand", &rest.args);
  SkipToken("result", &rest.rets);
  Execute(rest, site, target);
}

}  // namespace graphffi
