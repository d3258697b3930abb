// SPDX-License-Identifier: Apache-2.0
#include "kernel_call.h"

#include <ATen/DLConvertor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "callframe/call_frame.h"
#include "callframe/error.h"
#include "callframe/returned.h"

namespace graphffi_torch {
namespace {

/// Where the memory of a tensor begins, from which few others begin.
const void* StorageOf(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.storage().data() : nullptr;
}

bool Overlap(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return false;
  at::MemOverlapStatus status = at::get_overlap_status(a, b);
  return status == at::MemOverlapStatus::Full || status == at::MemOverlapStatus::Partial;
}

[[noreturn]] void ThrowShared(const std::string& subject, const std::string& output,
                              const std::string& with) {
  throw graphffi::Error("ValueError", subject + ": output " + output +
                                          ": expected memory of its own, got memory shared " +
                                          with + "; pass a clone of one of them");
}

/// What kernels write must not change what they read, nor each other.
void CheckOutputMemory(const KernelCall& call) {
  for (size_t i = call.num_fresh; i < call.outputs.size(); ++i) {
    const at::Tensor& output = call.outputs.tensor(i);
    if (!output.defined()) continue;
    if (!output.is_contiguous() && at::has_internal_overlap(output) == at::MemOverlap::Yes) {
      throw graphffi::Error("ValueError", call.subject + ": output " + call.outputs.NameOf(i) +
                                              ": expected one place in memory per element, got an "
                                              "expanded tensor; pass a contiguous one");
    }
    const void* storage = StorageOf(output);
    for (size_t k = 0; k < call.inputs.size(); ++k) {
      const at::Tensor& input = call.inputs.tensor(k);
      if (C10_UNLIKELY(StorageOf(input) == storage) && Overlap(output, input)) {
        ThrowShared(call.subject, call.outputs.NameOf(i), "with input " + call.inputs.NameOf(k));
      }
    }
    for (size_t k = call.num_fresh; k < i; ++k) {
      const at::Tensor& other = call.outputs.tensor(k);
      if (C10_UNLIKELY(StorageOf(other) == storage) && Overlap(output, other)) {
        ThrowShared(call.subject, call.outputs.NameOf(i), "with output " + call.outputs.NameOf(k));
      }
    }
  }
}

void AddDevices(const TensorBank& inputs, const TensorBank& outputs, TorchEnvScope* env) {
  for (const TensorBank* bank : {&inputs, &outputs}) {
    for (size_t i = 0; i < bank->size(); ++i) {
      if (bank->tensor(i).defined()) env->AddDevice(bank->tensor(i).device());
    }
  }
}

at::Tensor AsTensor(const DLTensor& view) {
  const at::IntArrayRef shape(view.shape, static_cast<size_t>(view.ndim));
  const auto index = static_cast<c10::DeviceIndex>(view.device.device_id);
  const c10::Device device = at::dlDeviceToTorchDevice(view.device.device_type, index);
  return at::from_blob(static_cast<char*>(view.data) + view.byte_offset, shape,
                       at::TensorOptions().dtype(at::toScalarType(view.dtype)).device(device));
}

/// graphffi::CopyTensor, in the order of the current stream.
void CopyReturned(void*, const DLTensor& from, const DLTensor& to) {
  if (to.device.device_type == kDLCPU) return graphffi::CopyOnCpu(nullptr, from, to);
  at::AutoDispatchBelowADInplaceOrView guard;
  AsTensor(to).copy_(AsTensor(from), /*non_blocking=*/true);
}

}  // namespace

c10::Device DeviceOf(const TensorBank& inputs, const TensorBank& outputs) {
  const at::Tensor* tensor = inputs.opt_accelerated();
  if (tensor == nullptr) tensor = outputs.opt_accelerated();
  return tensor == nullptr ? c10::Device(c10::DeviceType::CPU) : tensor->device();
}

void KernelCall::Run() const {
  CheckOutputMemory(*this);
  graphffi::KernelSlot::Use function(kernel);
  const c10::Device device = DeviceOf(inputs, outputs);
  TorchEnvScope env(device);
  graphffi::CallValues values;
  if (C10_UNLIKELY(!device.is_cpu())) {
    AddDevices(inputs, outputs, &env);
    values.stream = env.stream();
    values.device = at::torchDeviceToDLDevice(device);
  }
  values.inputs = inputs.bank();
  values.outputs = outputs.bank();
  values.attributes = attributes;
  values.workspace = workspace;
  graphffi::CallFrame frame(&loans);
  frame.PushPlan(plan, values);
  // Results that the plan does not pass are what the kernel returns.
  const int32_t count = std::min(plan.first_output(), values.outputs.size);
  graphffi::CallForResults(
      function.kernel(), count == 0,
      [&] {
        return graphffi::Results{&values.outputs, count,   count == 0,
                                 &CopyReturned,   nullptr, subject.c_str()};
      },
      &frame);
}

}  // namespace graphffi_torch
