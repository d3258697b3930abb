// SPDX-License-Identifier: Apache-2.0
#include "banks.h"

#include <ATen/DLConvertor.h>

#include "callframe/device_name.h"
#include "callframe/error.h"

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
  TVMFFIAny any = AnyOf(kTVMFFIRawStr);
  any.v_c_str = text.c_str();
  return any;
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

}  // namespace

c10::ArrayRef<c10::IValue> ListOf(const c10::IValue& value) {
  return value.isNone() ? c10::ArrayRef<c10::IValue>() : value.toListRef();
}

void TensorBank::View(size_t i) {
  const at::Tensor& tensor = *tensors_[i];
  if (C10_UNLIKELY(tensor.layout() != at::kStrided)) {
    throw graphffi::Error("ValueError", subject_ + ": " + NameOf(i) +
                                            ": expected a strided tensor, got " +
                                            c10::str(tensor.layout()) + "; call .to_dense()");
  }
  at::toDLPackNonOwning(tensor, &views_[i]);
  values_[i].type_index = kTVMFFIDLTensorPtr;
}

void TensorBank::Append(const at::Tensor& tensor) {
  tensors_.push_back(&tensor);
  views_.emplace_back();
  values_.push_back(AnyOf(kTVMFFINone));
  if (tensor.defined()) View(tensors_.size() - 1);
}

void TensorBank::AddVacant() { Add(UndefinedTensor()); }

void TensorBank::Fill(size_t i, const at::Tensor& tensor) {
  tensors_[i] = &tensor;
  if (tensor.defined()) View(i);
}

void TensorBank::Add(const at::Tensor& tensor) {
  slots_.push_back({static_cast<int32_t>(values_.size())});
  Append(tensor);
}

void TensorBank::Add(const c10::IValue& tensor_or_none) {
  Add(tensor_or_none.isTensor() ? tensor_or_none.toTensor() : UndefinedTensor());
}

void TensorBank::AddEach(c10::ArrayRef<c10::IValue> list) {
  for (const c10::IValue& value : list) Add(value);
}

void TensorBank::AddList(c10::ArrayRef<c10::IValue> list) {
  has_list_ = true;
  slots_.push_back({static_cast<int32_t>(values_.size()), static_cast<int32_t>(list.size())});
  for (const c10::IValue& value : list) {
    Append(value.isTensor() ? value.toTensor() : UndefinedTensor());
  }
}

void TensorBank::AddList(c10::ArrayRef<const at::Tensor*> list) {
  has_list_ = true;
  slots_.push_back({static_cast<int32_t>(values_.size()), static_cast<int32_t>(list.size())});
  for (const at::Tensor* tensor : list) Append(*tensor);
}

const at::Tensor& TensorBank::tensor(size_t i) const { return *tensors_[i]; }

std::string TensorBank::NameOf(size_t i) const {
  int32_t value = static_cast<int32_t>(i);
  for (size_t k = 0; k < slots_.size(); ++k) {
    const graphffi::Slot& slot = slots_[k];
    bool single = slot.count == graphffi::Slot::kSingle;
    if (value < slot.begin || value >= slot.begin + (single ? 1 : slot.count)) continue;
    std::string name = opt_names_ ? (*opt_names_)[k] : prefix_ + std::to_string(k);
    return single ? "'" + name + "'" : "'" + name + "[" + std::to_string(value - slot.begin) + "]'";
  }
  return prefix_ + std::to_string(i);
}

const at::Tensor* TensorBank::Find(const DLTensor* view) const {
  bool inside = view >= views_.begin() && view < views_.end();
  return inside ? tensors_[static_cast<size_t>(view - views_.begin())] : nullptr;
}

graphffi::Bank TensorBank::bank() {
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].type_index == kTVMFFIDLTensorPtr) values_[i].v_ptr = &views_[i];
  }
  return {values_.data(), has_list_ ? slots_.data() : nullptr, static_cast<int32_t>(slots_.size())};
}

void AttributeBank::Add(const c10::IValue& value, Conversion conversion) {
  Add(ConvertAttribute(value, conversion));
}

void AttributeBank::Add(const TVMFFIAny& value) {
  slots_.push_back({static_cast<int32_t>(values_.size())});
  values_.push_back(value);
}

void AttributeBank::BeginList(size_t count) {
  has_list_ = true;
  slots_.push_back({static_cast<int32_t>(values_.size()), static_cast<int32_t>(count)});
}

void AttributeBank::AddEach(c10::ArrayRef<c10::IValue> list) {
  for (const c10::IValue& value : list) Add(value);
}

void AttributeBank::AddList(c10::ArrayRef<c10::IValue> list, Conversion conversion) {
  BeginList(list.size());
  for (const c10::IValue& value : list) values_.push_back(ConvertAttribute(value, conversion));
}

graphffi::Bank AttributeBank::bank() const {
  return {values_.data(), has_list_ ? slots_.data() : nullptr, static_cast<int32_t>(slots_.size())};
}

}  // namespace graphffi_torch
