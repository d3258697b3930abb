// SPDX-License-Identifier: Apache-2.0
// From the IValues on a dispatcher stack to the banks of a call frame.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

#include "callframe/call_frame.h"
#include "callframe/lent_tensor.h"
#include "callframe/plan.h"
#include "errors.h"

namespace graphffi_torch {

/// What `value` holds as a list. An empty list also arrives as None (AOTInductor's ProxyExecutor),
/// and an int[] as a list of any of int and SymInt (Inductor's C++ wrapper).
c10::ArrayRef<c10::IValue> ListOf(const c10::IValue& value);

/// at::toDLPackNonOwning, which asks for data type and device step by step, in few loads.
GRAPHFFI_TORCH_API void FillView(const at::Tensor& tensor, DLTensor* view);

/// Loans of torch's tensors: their sources are `const at::Tensor*`.
extern GRAPHFFI_TORCH_API const graphffi::Lending kTensorLending;

/// Tensors of one bank, lent to a call. Borrows the IValues: they stay put until the call has
/// returned.
class GRAPHFFI_TORCH_API TensorBank {
 public:
  static constexpr unsigned kInline = graphffi::CallFrame::kInline;

  /// For errors: `subject` begins them; slots are called by `opt_names`, else by `prefix` and their
  /// number.
  TensorBank(graphffi::Loans* loans, const std::string& subject, char prefix,
             const std::vector<std::string>* opt_names = nullptr)
      : loans_(*loans), subject_(subject), prefix_(prefix), opt_names_(opt_names) {}

  TensorBank(const TensorBank&) = delete;
  TensorBank& operator=(const TensorBank&) = delete;

  /// One slot: a tensor or None.
  void Add(const at::Tensor& tensor) {
    if (C10_UNLIKELY(has_list_)) slots_.push_back({static_cast<int32_t>(values_.size())});
    Append(tensor);
  }
  void Add(const c10::IValue& tensor_or_none);
  /// One slot per element.
  void AddEach(c10::ArrayRef<c10::IValue> list);
  /// One slot, which the plan passes as an ffi.Array.
  void AddList(c10::ArrayRef<c10::IValue> list);
  void AddList(c10::ArrayRef<const at::Tensor*> list);
  /// One slot for a tensor that comes later: None until then.
  void AddVacant();
  /// Fills the vacant slot that value `i` is.
  void Fill(size_t i, const at::Tensor& tensor) {
    tensors_[i] = &tensor;
    if (tensor.defined()) Lend(i);
  }

  size_t size() const { return values_.size(); }
  /// Undefined for None.
  const at::Tensor& tensor(size_t i) const { return *tensors_[i]; }
  /// The first that is not on the CPU, or NULL.
  const at::Tensor* opt_accelerated() const { return opt_accelerated_; }
  /// What the user calls value `i`: `x`, `xs[1]`, `i0`.
  std::string NameOf(size_t i) const;
  /// Valid until the next Add.
  graphffi::Bank bank() const {
    return {values_.data(), has_list_ ? slots_.data() : nullptr,
            static_cast<int32_t>(has_list_ ? slots_.size() : values_.size())};
  }

 private:
  void Append(const at::Tensor& tensor) {
    tensors_.push_back(&tensor);
    values_.push_back(TVMFFIAny{});
    if (tensor.defined()) Lend(values_.size() - 1);
  }
  void BeginList(size_t count);
  void Lend(size_t i);
  /// \throws graphffi::Error that says why value `i` is nothing for kernels.
  [[noreturn]] void Refuse(size_t i) const;

  graphffi::Loans& loans_;
  const std::string& subject_;
  char prefix_;
  const std::vector<std::string>* opt_names_;
  bool has_list_ = false;
  const at::Tensor* opt_accelerated_ = nullptr;
  c10::SmallVector<const at::Tensor*, kInline> tensors_;  // parallel to values_
  c10::SmallVector<TVMFFIAny, kInline> values_;
  c10::SmallVector<graphffi::Slot, 16> slots_;  // empty without a list
};

/// Ints, floats, bools and strings. Strings are borrowed from the IValues.
class GRAPHFFI_TORCH_API AttributeBank {
 public:
  using Conversion = graphffi::Plan::Conversion;

  /// One slot. \throws Error when a string does not convert.
  void Add(const c10::IValue& value, Conversion conversion = Conversion::kNone);
  void Add(const TVMFFIAny& value) {
    if (C10_UNLIKELY(has_list_)) slots_.push_back({static_cast<int32_t>(values_.size())});
    values_.push_back(value);
  }
  /// One slot per element.
  void AddEach(c10::ArrayRef<c10::IValue> list);
  /// One slot, which the plan passes as an ffi.Array.
  void AddList(c10::ArrayRef<c10::IValue> list, Conversion conversion = Conversion::kNone);
  /// The same of values that are added next, by AddItem.
  void BeginList(size_t count);
  void AddItem(const TVMFFIAny& value) { values_.push_back(value); }

  graphffi::Bank bank() const {
    return {values_.data(), has_list_ ? slots_.data() : nullptr,
            static_cast<int32_t>(has_list_ ? slots_.size() : values_.size())};
  }

 private:
  bool has_list_ = false;
  c10::SmallVector<TVMFFIAny, 16> values_;
  c10::SmallVector<graphffi::Slot, 16> slots_;  // empty without a list
};

}  // namespace graphffi_torch
