// SPDX-License-Identifier: Apache-2.0
// From the IValues on a dispatcher stack to the banks of a call frame.
#pragma once

#include <ATen/DLConvertor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "call/lent_tensor.h"
#include "call/signature.h"
#include "call/value.h"
#include "call/value_list.h"
#include "errors.h"

namespace graphffi_torch {

/// The items of a list. An empty list also arrives as None (AOTInductor's ProxyExecutor),
/// and an int[] as a list of any of int and SymInt (Inductor's C++ wrapper).
c10::ArrayRef<c10::IValue> ListOf(const c10::IValue& value);

/// DLPack's data type for `type` in the lower 32 bits, the bytes of an element in the upper ones. 0
/// until FillOtherView has seen such a tensor. One table for both libraries: a copy of its own in
/// each would stay empty where the other's FillOtherView is called.
extern GRAPHFFI_TORCH_API std::atomic<uint64_t>
    known_dtypes[static_cast<size_t>(at::ScalarType::NumOptions)];

/// Keys of tensors that a kernel can't read by a data pointer and strides.
inline constexpr c10::DispatchKeySet kUnreadable =
    c10::sparse_ks | c10::sparse_csr_ks | c10::mkldnn_ks |
    c10::DispatchKeySet(
        {c10::DispatchKey::NestedTensor, c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});

/// Refuses data types that DLPack does not have; `tensor` begins the message.
/// \throws graphffi::Error(TypeError)
GRAPHFFI_TORCH_API void CheckDataType(const std::string& tensor, at::ScalarType type);

/// FillView for the tensors that TryFillView leaves. \throws c10::Error for a tensor without memory
/// of its own.
GRAPHFFI_TORCH_API const void* FillOtherView(const at::Tensor& tensor, DLTensor* view);

/// at::toDLPackNonOwning for tensors on the CPU, in fewer loads. The view borrows shape and
/// strides. Returns the beginning of the storage, or NULL for tensors that need FillOtherView.
inline const void* TryFillView(const at::Tensor& tensor, DLTensor* view) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  // First what may need a call, before much has to be kept across it.
  const at::IntArrayRef strides = impl.strides(), sizes = impl.sizes();
  const int64_t offset = impl.storage_offset();
  const bool is_empty = impl.numel() == 0;
  const c10::Storage& storage = impl.unsafe_storage();
  const bool is_on_cpu = impl.key_set().has_backend(c10::BackendComponent::CPUBit);
  if (!storage || !is_on_cpu || is_empty) return nullptr;
  char* const begin = static_cast<char*>(storage.mutable_data());
  const auto type = static_cast<size_t>(impl.dtype().toScalarType());
  const uint64_t known = known_dtypes[type].load(std::memory_order_relaxed);
  if (begin == nullptr || known == 0) return nullptr;
  const auto dtype = static_cast<uint32_t>(known);
  view->data = begin + offset * static_cast<int64_t>(known >> 32);
  view->device = {kDLCPU, 0};
  view->ndim = static_cast<int32_t>(sizes.size());
  std::memcpy(&view->dtype, &dtype, sizeof(dtype));
  view->shape = const_cast<int64_t*>(sizes.data());
  view->strides = const_cast<int64_t*>(strides.data());
  view->byte_offset = 0;
  return begin;
}

/// Fills a view of any tensor. \throws c10::Error as FillOtherView does.
inline const void* FillView(const at::Tensor& tensor, DLTensor* view) {
  const void* begin = TryFillView(tensor, view);
  return begin != nullptr ? begin : FillOtherView(tensor, view);
}

/// Loans of torch's tensors: their sources are `const at::Tensor*`.
extern GRAPHFFI_TORCH_API const graphffi::Lending kTensorLending;

/// Tensors of one bank, lent to a call. Borrows them and the IValues: they stay put until the call
/// has returned.
class GRAPHFFI_TORCH_API TensorBank {
 public:
  /// All are borrowed. `op` is the plan's word for slots of this bank: kInput or kOutput. `place`
  /// is what the signature's layout says of a room.
  TensorBank(graphffi::Loans* loans, const graphffi::Signature& signature, graphffi::Plan::Op op,
             TVMFFIAny* room, const graphffi::Layout::Range& place, graphffi::Spill* spill)
      : loans_(*loans),
        signature_(signature),
        op_(op),
        values_(room + place.begin, place.capacity, spill) {}

  TensorBank(const TensorBank&) = delete;
  TensorBank& operator=(const TensorBank&) = delete;

  /// One slot: a tensor or, where it is undefined, None.
  void Add(const at::Tensor& tensor) { Append(tensor, values_.AddSlot()); }
  /// Add for a tensor that is defined and has no key of kUnreadable.
  void AddReadable(const at::Tensor& tensor) {
    TVMFFIAny* const place = values_.AddSlot();
    LendReadable(tensor, size() - 1, place);
  }
  void Add(const c10::IValue& tensor_or_none);
  /// One slot, which the plan passes as an ffi.Array.
  void AddList(c10::ArrayRef<c10::IValue> list);
  void AddList(c10::ArrayRef<const at::Tensor*> list);
  /// One slot for a tensor that comes later: None until then.
  void AddVacant() { *values_.AddSlot() = TVMFFIAny{}; }
  /// Fills the vacant slot that value `i` is.
  void Fill(size_t i, const at::Tensor& tensor) {
    if (tensor.defined()) Lend(tensor, i, &values_[static_cast<int32_t>(i)]);
  }

  size_t size() const { return static_cast<size_t>(values_.size()); }
  /// NULL for None.
  const at::Tensor* opt_tensor(size_t i) const {
    const TVMFFIAny& value = values_[static_cast<int32_t>(i)];
    return value.type_index == kTVMFFINone ? nullptr : TensorOf(*graphffi::LentTensor::Of(value));
  }
  static const at::Tensor* TensorOf(const graphffi::LentTensor& lent) {
    return static_cast<const at::Tensor*>(lent.source());
  }
  /// The first that is not on the CPU, or NULL.
  const at::Tensor* opt_accelerated() const { return opt_accelerated_; }
  /// The name of value `i` in error texts: `x`, `xs[1]`, `i0`.
  std::string NameOf(size_t i) const;
  std::string NameOfSlot(size_t slot) const { return signature_.names().NameOf(op_, slot); }
  /// Valid until the next Add.
  graphffi::Bank bank() const { return values_.bank(); }

  /// Whether a tensor is not row-major.
  bool has_strides() const { return has_strides_; }
  /// A row-major copy of a tensor, and the tensor.
  using Copies = std::vector<std::pair<at::Tensor, const at::Tensor*>>;
  /// Lends row-major copies in place of tensors that are not, but for slots that the plan passes
  /// with any strides. They are borrowed from `copies`, to which they are added.
  void MakeRowMajor(const graphffi::Plan& plan, Copies* copies);

 private:
  /// As the last value, which is at `place`.
  void Append(const at::Tensor& tensor, TVMFFIAny* place) {
    if (!tensor.defined()) {
      *place = TVMFFIAny{};
      return;
    }
    Lend(tensor, size() - 1, place);
  }
  /// As value `i`, which is at `place`.
  void Lend(const at::Tensor& tensor, size_t i, TVMFFIAny* place) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (impl.key_set().has_any(kUnreadable) || !impl.storage_initialized()) {
      Refuse(tensor, i);
    }
    LendReadable(tensor, i, place);
  }
  void LendReadable(const at::Tensor& tensor, size_t i, TVMFFIAny* place) {
    graphffi::LentTensor* lent = loans_.Take(&tensor);
    lent->Put(place);
    const void* memory = TryFillView(tensor, lent->view());
    if (memory == nullptr) return FillOther(tensor, i, lent);
    lent->SetMemory(memory);
    lent->CopyDims();
    has_strides_ |= !tensor.is_contiguous();
  }
  /// LendReadable for tensors that are empty, on another device, or of a data type not seen yet.
  void FillOther(const at::Tensor& tensor, size_t i, graphffi::LentTensor* lent);
  /// \throws graphffi::Error that says why value `i` is nothing for kernels.
  [[noreturn]] void Refuse(const at::Tensor& tensor, size_t i) const;

  graphffi::Loans& loans_;
  const graphffi::Signature& signature_;
  const at::Tensor* opt_accelerated_ = nullptr;
  bool has_strides_ = false;
  const graphffi::Plan::Op op_;
  graphffi::ValueList values_;  // lent tensors and None
};

/// Ints, floats, bools and strings. Strings are borrowed from the IValues.
class GRAPHFFI_TORCH_API AttributeBank {
 public:
  using Conversion = graphffi::Plan::Conversion;

  /// As a TensorBank.
  AttributeBank(TVMFFIAny* room, const graphffi::Layout::Range& place, graphffi::Spill* spill)
      : values_(room + place.begin, place.capacity, spill) {}
  AttributeBank(const AttributeBank&) = delete;
  AttributeBank& operator=(const AttributeBank&) = delete;

  /// One slot. \throws Error when a string does not convert.
  void Add(const c10::IValue& value, Conversion conversion = Conversion::kNone);
  void Add(const TVMFFIAny& value) { *values_.AddSlot() = value; }
  /// One slot, which the plan passes as an ffi.Array.
  void AddList(c10::ArrayRef<c10::IValue> list, Conversion conversion = Conversion::kNone);
  /// AddList, with values that are added next, by AddItem.
  void BeginList(size_t count) { values_.BeginList(static_cast<int32_t>(count)); }
  void AddItem(const TVMFFIAny& value) { *values_.Add() = value; }

  graphffi::Bank bank() const { return values_.bank(); }

 private:
  TVMFFIAny Convert(const c10::IValue& value, Conversion conversion);
  /// Borrowed, but for text with NUL, which would end it.
  TVMFFIAny Convert(const std::string& text);

  graphffi::ValueList values_;
  std::vector<tvm::ffi::Any> owned_;
};

}  // namespace graphffi_torch
