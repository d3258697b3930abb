// SPDX-License-Identifier: Apache-2.0
#include "banks.h"

#include <ATen/DLConvertor.h>

#include "call/convert.h"
#include "call/error.h"
#include "call/value.h"

namespace graphffi_torch {
namespace {

void* RetainTensor(const void* source) {
  return new at::Tensor(*static_cast<const at::Tensor*>(source));
}

void ReleaseTensor(void* token) { delete static_cast<at::Tensor*>(token); }

/// The value of a bool, a float or an int, symbolic ones too, or None.
TVMFFIAny NumberOf(const c10::IValue& value) {
  if (value.isNone()) return {};
  if (value.isBool()) return graphffi::ToAny(value.toBool());
  if (value.isDouble()) return graphffi::ToAny(value.toDouble());
  if (value.isSymFloat()) {
    return graphffi::ToAny(value.toSymFloat().guard_float(__FILE__, __LINE__));
  }
  return graphffi::ToAny(value.isInt() ? value.toInt()
                                       : value.toSymInt().guard_int(__FILE__, __LINE__));
}

/// Whether DLPack has the data type, in as many bits as torch says.
bool HasDLPack(at::ScalarType type) {
  const bool is_part_of_byte = (type >= at::ScalarType::UInt1 && type <= at::ScalarType::UInt7) ||
                               (type >= at::ScalarType::Int1 && type <= at::ScalarType::Int7);
  return !is_part_of_byte && !at::isQIntType(type) && !at::isBitsType(type);
}

}  // namespace

const graphffi::Lending kTensorLending{&RetainTensor, &ReleaseTensor};

c10::ArrayRef<c10::IValue> ListOf(const c10::IValue& value) {
  return value.isNone() ? c10::ArrayRef<c10::IValue>() : value.toListRef();
}

std::atomic<uint64_t> known_dtypes[static_cast<size_t>(at::ScalarType::NumOptions)];

void CheckDataType(const std::string& tensor, at::ScalarType type) {
  if (HasDLPack(type)) return;
  throw graphffi::Error(
      "TypeError",
      tensor + ": expected a data type that kernels can take, got " + c10::toString(type) +
          (at::isQIntType(type) ? "; call .dequantize()" : "; pass the bytes, .view(torch.uint8)"));
}

const void* FillOtherView(const at::Tensor& tensor, DLTensor* view) {
  TORCH_CHECK(tensor.unsafeGetTensorImpl()->storage_initialized(),
              "expected a tensor with data, got one without memory");
  TORCH_CHECK(HasDLPack(tensor.scalar_type()), "expected a data type of DLPack");
  const DLDataType dtype = at::getDLDataType(tensor);
  uint32_t bits = 0;
  static_assert(sizeof(bits) == sizeof(dtype));
  std::memcpy(&bits, &dtype, sizeof(bits));
  known_dtypes[static_cast<size_t>(tensor.scalar_type())].store(
      uint64_t{tensor.dtype().itemsize()} << 32 | bits, std::memory_order_relaxed);
  view->data = tensor.mutable_data_ptr();
  view->device = tensor.is_cpu() ? DLDevice{kDLCPU, 0} : at::torchDeviceToDLDevice(tensor.device());
  view->ndim = static_cast<int32_t>(tensor.dim());
  view->dtype = dtype;
  view->shape = const_cast<int64_t*>(tensor.sizes().data());
  view->strides = const_cast<int64_t*>(tensor.strides().data());
  view->byte_offset = 0;
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  return storage ? storage.data() : nullptr;
}

void TensorBank::FillOther(const at::Tensor& tensor, size_t i, graphffi::LentTensor* lent) {
  try {
    lent->SetMemory(FillOtherView(tensor, lent->view()));
  } catch (const c10::Error&) {  // which names neither op nor operand
    Refuse(tensor, i);
  }
  // NumPy 2.4's are 0, and kernels compare them with those of a contiguous tensor.
  if (tensor.numel() == 0) lent->view()->strides = nullptr;
  lent->CopyDims();
  has_strides_ |= !tensor.is_contiguous();
  const bool is_on_cpu = lent->view()->device.device_type == kDLCPU;
  if (opt_accelerated_ == nullptr && !is_on_cpu) opt_accelerated_ = &tensor;
}

void TensorBank::MakeRowMajor(const graphffi::Plan& plan, Copies* copies) {
  const graphffi::Bank all = bank();
  copies->reserve(copies->size() +
                  static_cast<size_t>(values_.size()));  // they stay where they are
  for (int32_t k = 0; k < all.size; ++k) {
    if (plan.is_strided(op_, k)) continue;
    const graphffi::Slot slot = all.slot(k);
    for (int32_t i = slot.begin; i < slot.begin + slot.num_values(); ++i) {
      const at::Tensor* tensor = opt_tensor(static_cast<size_t>(i));
      if (tensor == nullptr || tensor->is_contiguous()) continue;
      copies->emplace_back(tensor->contiguous(), tensor);
      graphffi::LentTensor* lent = graphffi::LentTensor::Of(&values_[i]);
      lent->Replace(&copies->back().first);
      lent->SetMemory(FillView(copies->back().first, lent->view()));
      lent->CopyDims();
    }
  }
}

void TensorBank::Refuse(const at::Tensor& tensor, size_t i) const {
  const c10::DispatchKeySet keys = tensor.key_set();
  const std::string subject = signature_.subject() + ": " + NameOf(i);
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
    CheckDataType(subject, tensor.scalar_type());
    problem = "expected a tensor with data, got one without memory";
  }
  throw graphffi::Error("ValueError", subject + ": " + problem);
}

void TensorBank::Add(const c10::IValue& tensor_or_none) {
  if (!tensor_or_none.isTensor()) return AddVacant();
  Add(tensor_or_none.toTensor());
}

void TensorBank::AddList(c10::ArrayRef<c10::IValue> list) {
  values_.BeginList(static_cast<int32_t>(list.size()));
  for (const c10::IValue& value : list) {
    TVMFFIAny* place = values_.Add();
    if (value.isTensor()) {
      Append(value.toTensor(), place);
    } else {
      *place = TVMFFIAny{};
    }
  }
}

void TensorBank::AddList(c10::ArrayRef<const at::Tensor*> list) {
  values_.BeginList(static_cast<int32_t>(list.size()));
  for (const at::Tensor* tensor : list) Append(*tensor, values_.Add());
}

std::string TensorBank::NameOf(size_t i) const {
  size_t slot = i;
  std::string index;
  const graphffi::Bank all = bank();
  for (int32_t k = 0; all.opt_slots != nullptr && k < all.size; ++k) {
    const graphffi::Slot& here = all.opt_slots[k];
    const auto begin = static_cast<size_t>(here.begin);
    if (begin > i) break;
    slot = static_cast<size_t>(k);
    const bool is_list = here.count != graphffi::Slot::kSingle;
    index = is_list ? "[" + std::to_string(i - begin) + "]" : "";
  }
  return "'" + NameOfSlot(slot) + index + "'";
}

TVMFFIAny AttributeBank::Convert(const c10::IValue& value, Conversion conversion) {
  if (!value.isString()) return NumberOf(value);
  return graphffi::ConvertAttribute(Convert(value.toStringRef()), conversion);
}

TVMFFIAny AttributeBank::Convert(const std::string& text) {
  if (text.find('\0') == std::string::npos) return graphffi::ToAny(text.c_str());
  return graphffi::ToAny(owned_.emplace_back(graphffi::MakeString(text)));
}

void AttributeBank::Add(const c10::IValue& value, Conversion conversion) {
  Add(Convert(value, conversion));
}

void AttributeBank::AddList(c10::ArrayRef<c10::IValue> list, Conversion conversion) {
  BeginList(list.size());
  for (const c10::IValue& value : list) AddItem(Convert(value, conversion));
}

}  // namespace graphffi_torch
