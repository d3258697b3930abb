// SPDX-License-Identifier: Apache-2.0
#include "banks.h"

#include <ATen/DLConvertor.h>

#include <atomic>
#include <cstring>

#include "callframe/device_name.h"
#include "callframe/error.h"
#include "text_value.h"

namespace graphffi_torch {
namespace {

using Conversion = graphffi::Plan::Conversion;

TVMFFIAny AnyOf(int32_t type_index) {
  TVMFFIAny any{};
  any.type_index = type_index;
  return any;
}

const at::Tensor& UndefinedTensor() {
  static const at::Tensor undefined;
  return undefined;
}

void* RetainTensor(const void* source) {
  return new at::Tensor(*static_cast<const at::Tensor*>(source));
}

void ReleaseTensor(void* token) { delete static_cast<at::Tensor*>(token); }

/// Before the first list, value k is slot k.
void BeginSlots(bool* has_list, c10::SmallVectorImpl<graphffi::Slot>* slots, size_t count) {
  if (*has_list) return;
  *has_list = true;
  for (size_t i = 0; i < count; ++i) slots->push_back({static_cast<int32_t>(i)});
}

TVMFFIAny ConvertString(const std::string& text, Conversion conversion) {
  if (conversion == Conversion::kDType) {
    TVMFFIAny any = AnyOf(kTVMFFIDataType);
    TVMFFIByteArray bytes{text.data(), text.size()};
    int rc = TVMFFIDataTypeFromString(&bytes, &any.v_dtype);
    if (rc != 0) throw graphffi::Error::TakeRaised(rc);
    return any;
  }
  if (conversion == Conversion::kDevice) {
    TVMFFIAny any = AnyOf(kTVMFFIDevice);
    any.v_device = graphffi::DeviceFromName(text);
    return any;
  }
  return TextValue(text);
}

TVMFFIAny ConvertAttribute(const c10::IValue& value, Conversion conversion) {
  if (value.isNone()) return AnyOf(kTVMFFINone);
  if (value.isString()) return ConvertString(value.toStringRef(), conversion);
  if (value.isBool()) {
    TVMFFIAny any = AnyOf(kTVMFFIBool);
    any.v_int64 = value.toBool() ? 1 : 0;
    return any;
  }
  if (value.isDouble() || value.isSymFloat()) {
    TVMFFIAny any = AnyOf(kTVMFFIFloat);
    any.v_float64 =
        value.isDouble() ? value.toDouble() : value.toSymFloat().guard_float(__FILE__, __LINE__);
    return any;
  }
  TVMFFIAny any = AnyOf(kTVMFFIInt);
  any.v_int64 = value.isInt() ? value.toInt() : value.toSymInt().guard_int(__FILE__, __LINE__);
  return any;
}

/// What a kernel can't read by a data pointer and strides.
constexpr c10::DispatchKeySet kUnreadable =
    c10::sparse_ks | c10::sparse_csr_ks | c10::mkldnn_ks |
    c10::DispatchKeySet(
        {c10::DispatchKey::NestedTensor, c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});

}  // namespace

const graphffi::Lending kTensorLending{&RetainTensor, &ReleaseTensor};

c10::ArrayRef<c10::IValue> ListOf(const c10::IValue& value) {
  return value.isNone() ? c10::ArrayRef<c10::IValue>() : value.toListRef();
}

void FillView(const at::Tensor& tensor, DLTensor* view) {
  // By scalar type; found on first use, and the same whoever finds it.
  static std::atomic<uint32_t> known[static_cast<size_t>(at::ScalarType::NumOptions)];
  std::atomic<uint32_t>& packed = known[static_cast<size_t>(tensor.scalar_type())];
  uint32_t bits = packed.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(bits == 0)) {
    const DLDataType dtype = at::getDLDataType(tensor);
    std::memcpy(&bits, &dtype, sizeof(bits));
    packed.store(bits, std::memory_order_relaxed);
  }
  std::memcpy(&view->dtype, &bits, sizeof(bits));
  view->data = tensor.mutable_data_ptr();
  view->device = C10_LIKELY(tensor.is_cpu()) ? DLDevice{kDLCPU, 0}
                                             : at::torchDeviceToDLDevice(tensor.device());
  const at::IntArrayRef sizes = tensor.sizes();
  view->ndim = static_cast<int32_t>(sizes.size());
  view->shape = const_cast<int64_t*>(sizes.data());
  view->strides = const_cast<int64_t*>(tensor.strides().data());
  view->byte_offset = 0;
}

void TensorBank::Refuse(size_t i) const {
  const at::Tensor& tensor = *tensors_[i];
  const c10::DispatchKeySet keys = tensor.key_set();
  std::string problem;
  if (keys.has(c10::DispatchKey::NestedTensor)) {
    problem = "expected a strided tensor, got a nested one; call .to_padded_tensor(0)";
  } else if (tensor.layout() != at::kStrided) {
    problem = "expected a strided tensor, got " + c10::str(tensor.layout()) + "; call .to_dense()";
  } else if (keys.has(c10::DispatchKey::Conjugate)) {
    problem = "expected elements as they are in memory, got their conjugates; call .resolve_conj()";
  } else if (keys.has(c10::DispatchKey::Negative)) {
    problem = "expected elements as they are in memory, got their negatives; call .resolve_neg()";
  } else {
    problem = "expected a tensor with data, got one without memory";
  }
  throw graphffi::Error("ValueError", subject_ + ": " + NameOf(i) + ": " + problem);
}

void TensorBank::Lend(size_t i) {
  const at::Tensor& tensor = *tensors_[i];
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (C10_UNLIKELY(impl.key_set().has_any(kUnreadable) || !impl.storage_initialized())) Refuse(i);
  graphffi::LentTensor* lent = loans_.Take(&tensor);
  FillView(tensor, lent->view());
  lent->CopyDims();
  if (C10_UNLIKELY(lent->view()->device.device_type != kDLCPU) && opt_accelerated_ == nullptr) {
    opt_accelerated_ = &tensor;
  }
  values_[i] = lent->AsAny();
}

void TensorBank::BeginList(size_t count) {
  BeginSlots(&has_list_, &slots_, values_.size());
  slots_.push_back({static_cast<int32_t>(values_.size()), static_cast<int32_t>(count)});
}

void TensorBank::AddVacant() { Add(UndefinedTensor()); }

void TensorBank::Add(const c10::IValue& tensor_or_none) {
  Add(tensor_or_none.isTensor() ? tensor_or_none.toTensor() : UndefinedTensor());
}

void TensorBank::AddEach(c10::ArrayRef<c10::IValue> list) {
  for (const c10::IValue& value : list) Add(value);
}

void TensorBank::AddList(c10::ArrayRef<c10::IValue> list) {
  BeginList(list.size());
  for (const c10::IValue& value : list) {
    Append(value.isTensor() ? value.toTensor() : UndefinedTensor());
  }
}

void TensorBank::AddList(c10::ArrayRef<const at::Tensor*> list) {
  BeginList(list.size());
  for (const at::Tensor* tensor : list) Append(*tensor);
}

std::string TensorBank::NameOf(size_t i) const {
  size_t slot = i;
  std::string index;
  for (size_t k = 0; k < slots_.size(); ++k) {
    const auto begin = static_cast<size_t>(slots_[k].begin);
    if (begin > i) break;
    slot = k;
    const bool is_list = slots_[k].count != graphffi::Slot::kSingle;
    index = is_list ? "[" + std::to_string(i - begin) + "]" : "";
  }
  return "'" + (opt_names_ ? (*opt_names_)[slot] : prefix_ + std::to_string(slot)) + index + "'";
}

void AttributeBank::Add(const c10::IValue& value, Conversion conversion) {
  Add(ConvertAttribute(value, conversion));
}

void AttributeBank::BeginList(size_t count) {
  BeginSlots(&has_list_, &slots_, values_.size());
  slots_.push_back({static_cast<int32_t>(values_.size()), static_cast<int32_t>(count)});
}

void AttributeBank::AddEach(c10::ArrayRef<c10::IValue> list) {
  for (const c10::IValue& value : list) Add(value);
}

void AttributeBank::AddList(c10::ArrayRef<c10::IValue> list, Conversion conversion) {
  BeginList(list.size());
  for (const c10::IValue& value : list) values_.push_back(ConvertAttribute(value, conversion));
}

}  // namespace graphffi_torch
