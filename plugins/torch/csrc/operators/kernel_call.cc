// SPDX-License-Identifier: Apache-2.0
#include "kernel_call.h"

#include <ATen/DLConvertor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "call/call_frame.h"
#include "call/error.h"
#include "call/returned.h"
#include "env.h"
#include "env/overlap.h"

namespace graphffi_torch {

namespace {

/// Where the elements of a tensor are in its storage.
DLTensor PlaceOf(const at::Tensor& tensor) {
  const auto bytes = static_cast<int64_t>(tensor.itemsize());
  DLTensor place{};
  place.data = reinterpret_cast<void*>(tensor.storage_offset() * bytes);
  place.ndim = static_cast<int32_t>(tensor.dim());
  place.dtype = {kDLUInt, 8, static_cast<uint16_t>(bytes)};
  place.shape = const_cast<int64_t*>(tensor.sizes().data());
  place.strides = const_cast<int64_t*>(tensor.strides().data());
  return place;
}

}  // namespace

bool Overlap(const at::Tensor& a, const at::Tensor& b) {
  if (!a.has_storage() || !b.has_storage() || !a.is_alias_of(b)) return false;
  return graphffi::ShareMemory(PlaceOf(a), PlaceOf(b));
}

bool OverlapsItself(const at::Tensor& tensor) {
  return !tensor.is_contiguous() && graphffi::OverlapsItself(PlaceOf(tensor));
}

namespace {

/// The first of `values` from `begin` until `end` that shares memory with `output`; `end` if none
/// does. Few begin in the same storage.
size_t FindShared(const TVMFFIAny* values, size_t begin, size_t end,
                  const graphffi::LentTensor& output) {
  for (size_t i = begin; i < end; ++i) {
    if (values[i].type_index == kTVMFFINone) continue;
    const graphffi::LentTensor& lent = *graphffi::LentTensor::Of(values[i]);
    if (lent.memory() != output.memory()) continue;
    if (Overlap(*TensorBank::TensorOf(output), *TensorBank::TensorOf(lent))) return i;
  }
  return end;
}

void AddDevices(const TensorBank& inputs, const TensorBank& outputs, TorchEnvScope* env) {
  for (const TensorBank* bank : {&inputs, &outputs}) {
    for (size_t i = 0; i < bank->size(); ++i) {
      if (const at::Tensor* tensor = bank->opt_tensor(i)) env->AddDevice(tensor->device());
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

void FailOverlap(const std::string& subject, const std::string& output) {
  throw graphffi::Error("ValueError",
                        subject + ": operand " + output +
                            ": expected elements that do not overlap, got a tensor whose strides "
                            "have them share memory; pass a contiguous one");
}

void FailSharedMemory(const std::string& subject, const std::string& output,
                      const std::string& with) {
  throw graphffi::Error("ValueError", subject + ": operand " + output +
                                          ": expected memory of its own, got memory shared with "
                                          "operand " +
                                          with + "; pass a clone of one of them");
}

/// Outputs must not overlap inputs or each other.
void KernelCall::CheckOutputMemory(size_t num_fresh) const {
  const size_t num_inputs = inputs_.size(), num_outputs = outputs_.size();
  const TVMFFIAny *inputs = inputs_.bank().values, *outputs = outputs_.bank().values;
  const std::string& subject = target_->signature.subject();
  for (size_t i = num_fresh; i < num_outputs; ++i) {
    if (outputs[i].type_index == kTVMFFINone) continue;
    const graphffi::LentTensor& output = *graphffi::LentTensor::Of(outputs[i]);
    const at::Tensor& tensor = *TensorBank::TensorOf(output);
    if (OverlapsItself(tensor)) FailOverlap(subject, outputs_.NameOf(i));
    const size_t input = FindShared(inputs, 0, num_inputs, output);
    if (input != num_inputs) {
      FailSharedMemory(subject, outputs_.NameOf(i), inputs_.NameOf(input));
    }
    const size_t other = FindShared(outputs, num_fresh, i, output);
    if (other != i) {
      FailSharedMemory(subject, outputs_.NameOf(i), outputs_.NameOf(other));
    }
  }
}

template <typename Frame>
void KernelCall::InvokeIn(Frame* frame) {
  const graphffi::KernelSlot::Use function(target_->kernel);
  // Results that the plan does not pass are what the kernel returns.
  const graphffi::Signature& signature = target_->signature;
  const int32_t first_passed = signature.plan().first_output();
  const bool is_filled = first_passed == 0 || outputs_.bank().size == 0;
  graphffi::CallForResults(
      function.kernel(), is_filled,
      [&] {
        const auto tensors = graphffi::DeclaredTensors::Of(
            signature, inputs_.bank(), outputs_.bank(), static_cast<int32_t>(num_fresh_),
            target_->kernel.reference().c_str());
        return graphffi::Results{tensors,   std::min(first_passed, tensors.outputs.size),
                                 is_filled, &CopyReturned,
                                 nullptr,   target_->returns_none};
      },
      frame);
}

void KernelCall::InvokeApart(DLDevice device, void* stream, const TVMFFIAny& workspace) {
  graphffi::CallFrame frame(&loans_);
  frame.PushPlan(target_->signature,
                 {inputs_.bank(), outputs_.bank(), attributes_.bank(), stream, workspace, device});
  InvokeIn(&frame);
}

void KernelCall::Invoke(DLDevice device, void* stream, const TVMFFIAny& workspace) {
  const graphffi::Layout& layout = target_->signature.layout();
  if (!layout.is_in_order()) return InvokeApart(device, stream, workspace);
  layout.PutConstants(room_);
  graphffi::PlacedFrame frame(&loans_, room_, layout.num_args);
  InvokeIn(&frame);
}

void KernelCall::Run(size_t num_fresh, const TVMFFIAny& workspace) {
  num_fresh_ = num_fresh;
  CheckOutputMemory(num_fresh);
  if (inputs_.has_strides() || outputs_.has_strides()) return RunRowMajor(workspace);
  RunAnywhere(workspace);
}

/// The kernel ignores strides, unless the plan says otherwise.
void KernelCall::RunRowMajor(const TVMFFIAny& workspace) {
  at::AutoDispatchBelowADInplaceOrView guard;
  TensorBank::Copies read, updated;
  inputs_.MakeRowMajor(target_->signature.plan(), &read);
  outputs_.MakeRowMajor(target_->signature.plan(), &updated);
  RunAnywhere(workspace);
  for (const auto& [copy, tensor] : updated) tensor->copy_(copy);
}

void KernelCall::RunAnywhere(const TVMFFIAny& workspace) {
  const at::Tensor* tensor = inputs_.opt_accelerated();
  if (tensor == nullptr) tensor = outputs_.opt_accelerated();
  if (tensor != nullptr) return RunOn(tensor->device(), workspace);
  const graphffi::AllocatorScope env(&AllocateWithTorch, shared_allocator);
  Invoke({kDLCPU, 0}, nullptr, workspace);
}

void KernelCall::RunOn(c10::Device device, const TVMFFIAny& workspace) {
  TorchEnvScope env(device);
  AddDevices(inputs_, outputs_, &env);
  Invoke(at::torchDeviceToDLDevice(device), env.stream(), workspace);
}

}  // namespace graphffi_torch
