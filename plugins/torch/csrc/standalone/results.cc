// SPDX-License-Identifier: Apache-2.0
#include "results.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <string>

#include "call/call_frame.h"
#include "call/describe_tensor.h"
#include "call/value.h"

namespace graphffi_standalone {
namespace {

/// The next run puts result `i` where it belongs as it makes it.
void Learn(const Method& method, int32_t i, TVMFFIObjectHandle result) {
  Tensor* opt_own = Tensor::OptOf(result);
  const Tensor* opt_root = opt_own == nullptr ? nullptr : Tensor::OptOf(opt_own->root());
  if (opt_root != nullptr) {
    __atomic_store_n(&method.ordinals[i], opt_root->ordinal(), __ATOMIC_RELAXED);
  }
}

/// True if a result shares no memory with those before it.
bool IsApart(int32_t i, const BoundedList<ObjectRef>& results) {
  const DLTensor& view = *TVMFFITensorGetDLTensorPtr(results[i].get());
  for (int32_t k = 0; k < i; ++k) {
    if (Overlap(view, *TVMFFITensorGetDLTensorPtr(results[k].get()))) return false;
  }
  return true;
}

}  // namespace

Tensor* HostResults::OptTake(int32_t, const DLTensor& prototype) {
  if (!has_allocator_ || !graphffi::IsCompact(prototype)) return nullptr;
  const ObjectRef taken(AllocateInEnv(prototype));
  return Tensor::View(DataOf(*TVMFFITensorGetDLTensorPtr(taken.get())), prototype, taken.get());
}

void HostResults::Finish(int32_t i, BoundedList<ObjectRef>* results, const Operands& operands) {
  ObjectRef& result = (*results)[i];
  const DLTensor& view = *TVMFFITensorGetDLTensorPtr(result.get());
  if (graphffi::IsCompact(view) && !operands.Have(result.get()) && IsApart(i, *results)) {
    Tensor* opt_own = Tensor::OptOf(result.get());
    if (opt_own == nullptr) return;  // a kernel's tensor, as it is
    if (!opt_own->is_lent()) {
      const Tensor* opt_root = Tensor::OptOf(opt_own->root());
      if (!has_allocator_ || opt_root == nullptr || opt_root->is_of_env()) return;
      Learn(method_, i, result.get());
    }
  }
  result = Copy(view);
}

ObjectRef HostResults::Copy(const DLTensor& from) const {
  if (!has_allocator_) return ObjectRef(CompactCopy(from)->handle());
  ObjectRef copy(AllocateInEnv(from));
  CopyElements(from, *TVMFFITensorGetDLTensorPtr(copy.get()));
  return copy;
}

Destinations::Destinations(const Method& method, const char* suffix, const TVMFFIAny* args,
                           const Operands& operands)
    : method_(method), suffix_(suffix), tensors_(method.num_results) {
  for (int32_t i = 0; i < method.num_results; ++i) {
    const DLTensor* tensor = graphffi::TensorOf(args[i]);
    if (tensor == nullptr) Fail(i, "a tensor", "another value", "TypeError");
    tensors_.Add(tensor);
    const DLDevice device = operands.device();
    const bool is_there = tensor->device.device_type == device.device_type &&
                          tensor->device.device_id == device.device_id;
    if (!is_there || !graphffi::IsCompact(*tensor)) {
      Fail(i, "a contiguous tensor on " + graphffi::DeviceToName(device),
           graphffi::DescribeTensor(*tensor));
    }
    CheckMemory(i, operands);
  }
}

void Destinations::Fail(int32_t i, const std::string& expected, const std::string& got,
                        const char* kind) const {
  throw graphffi::Error(kind, method_.name + std::string(suffix_) + ": result " +
                                  std::to_string(i) + ": expected " + expected + ", got " + got);
}

void Destinations::CheckMemory(int32_t i, const Operands& operands) const {
  const DLTensor& tensor = *tensors_[i];
  for (int32_t k = 0; k < operands.views().size(); ++k) {
    if (Overlap(tensor, operands.views()[k])) {
      Fail(i, "memory of its own",
           std::string("memory shared with operand '") + method_.operands[k].name + "'");
    }
  }
  for (int32_t k = 0; k < i; ++k) {
    if (Overlap(tensor, *tensors_[k])) {
      Fail(i, "memory of its own", "memory shared with result " + std::to_string(k));
    }
  }
}

Tensor* Destinations::OptTake(int32_t i, const DLTensor& prototype) {
  const DLTensor& destination = *tensors_[i];
  if (SpanBytes(prototype) != SpanBytes(destination)) return nullptr;
  return Tensor::View(DataOf(destination), prototype, nullptr);
}

void Destinations::Fill(const BoundedList<ObjectRef>& results) const {
  BoundedList<ObjectRef> copies(results.size());
  BoundedList<const DLTensor*> sources(results.size());
  for (int32_t i = 0; i < results.size(); ++i) {
    const DLTensor& result = *TVMFFITensorGetDLTensorPtr(results[i].get());
    const DLTensor& to = *tensors_[i];
    if (!AreAlike(result, to)) {
      Fail(i, graphffi::DescribeTensor(result), graphffi::DescribeTensor(to));
    }
    const bool is_there = DataOf(result) == DataOf(to) && graphffi::IsCompact(result);
    sources.Add(is_there ? nullptr : &result);
    // It may be in the memory of another destination, which may be filled before.
    const auto shares = [&](const DLTensor* other) { return Overlap(result, *other); };
    if (!is_there && std::any_of(tensors_.begin(), tensors_.end(), shares)) {
      sources[i] = TVMFFITensorGetDLTensorPtr(copies.Add(CompactCopy(result)->handle()).get());
    }
    Learn(method_, i, results[i].get());
  }
  for (int32_t i = 0; i < sources.size(); ++i) {
    if (sources[i] != nullptr) CopyElements(*sources[i], *tensors_[i]);
  }
}

}  // namespace graphffi_standalone
