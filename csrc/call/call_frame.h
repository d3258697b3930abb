// SPDX-License-Identifier: Apache-2.0
// The call frame: the only code that packs a kernel's TVMFFIAny arguments and owns what lives as
// long as a call.
#pragma once

#include <tvm/ffi/c_api.h>

#include <algorithm>
#include <cstdint>

#include "call/arithmetic.h"
#include "call/lent_tensor.h"
#include "call/plan.h"
#include "call/value.h"

namespace graphffi {

class Signature;

/// A function to call: its safe_call and what that gets as handle. Borrowed from the function
/// object.
struct Kernel {
  TVMFFISafeCallType safe_call = nullptr;
  void* handle = nullptr;

  static Kernel FromFunction(TVMFFIObjectHandle function) {
    return {TVMFFIFunctionGetCellPtr(function)->safe_call, function};
  }
};

/// Arguments of one call that stand where the caller has them. Not shared between threads; lives on
/// the stack of the caller.
class PlacedFrame {
 public:
  /// All are borrowed. `loans` are those that the call settles.
  PlacedFrame(Loans* loans, TVMFFIAny* args, int32_t num_args)
      : loans_(*loans), args_(args), size_(num_args) {}
  PlacedFrame(const PlacedFrame&) = delete;
  PlacedFrame& operator=(const PlacedFrame&) = delete;

  const Loans& loans() const { return loans_; }
  const TVMFFIAny* args() const { return args_; }
  int32_t num_args() const { return size_; }

  /// The two halves of a call. What is lent stays valid in between, *result included. 0 with
  /// *result owned by the caller; otherwise the error is in this thread's slot (for -2, see
  /// Error::TakeRaised).
  int Invoke(const Kernel& kernel, TVMFFIAny* result) {
    *result = TVMFFIAny{};
    return kernel.safe_call(kernel.handle, args_, size_, result);
  }
  /// `rc` is what Invoke returned, or -1 with an error that was raised since; *result is released
  /// on failure. A tensor that was kept and can't be retained is a RuntimeError.
  int Settle(int rc, TVMFFIAny* result) {
    return rc == 0 && loans_.Settle() == 0 ? 0 : SettleFailed(rc, result);
  }

 protected:
  Loans& loans_;
  TVMFFIAny* args_;
  int32_t size_;

 private:
  int SettleFailed(int rc, TVMFFIAny* result);
};

/// Arguments of one call. Not shared between threads; lives on the stack of the caller. Up to
/// kInline arguments cost no allocation.
class CallFrame : public PlacedFrame {
 public:
  static constexpr int32_t kInline = 64;

  /// With `opt_loans` (borrowed), which the call settles, a DLTensor* is passed as a Tensor that is
  /// lent. Without, it is passed as the weak view that it is; but inside an ffi.Array, where only
  /// owning tensors are possible, it is lent without the possibility to retain.
  explicit CallFrame(Loans* opt_loans = nullptr)
      : PlacedFrame(opt_loans == nullptr ? &own_loans_ : opt_loans, inline_args_, 0),
        lends_all_(opt_loans != nullptr) {}
  ~CallFrame() {
    if (num_owned_ != 0 || has_grown_) Clear();
  }
  CallFrame(const CallFrame&) = delete;
  CallFrame& operator=(const CallFrame&) = delete;

  /// `value` stays the caller's until the call has returned.
  void Push(const TVMFFIAny& value) {
    const bool is_view = value.type_index == kTVMFFIDLTensorPtr && value.v_ptr != nullptr;
    if (is_view && (lends_all_ || array_depth_ > 0)) return PushLent(value);
    Append(value);
  }
  /// The frame takes over the reference that `value` holds.
  void PushOwned(TVMFFIAny value);
  /// The values that are pushed in between become one ffi.Array. \throws Error when the runtime
  /// can't make one.
  void BeginArray();
  void EndArray();
  /// Everything that the plan says. \throws Error(ValueError) when a value that it names is not
  /// there, or can't be computed.
  void PushPlan(const Signature& signature, const CallValues& values);

  /// Calls once: Invoke, then Settle.
  int Call(const Kernel& kernel, TVMFFIAny* result);
  int Invoke(const Kernel& kernel, TVMFFIAny* result) {
    const int rc = PlacedFrame::Invoke(kernel, result);
    if (num_owned_ != 0) ReleaseOwned();
    return rc;
  }

 private:
  void PushLent(const TVMFFIAny& view);
  void Append(const TVMFFIAny& value) {
    if (size_ == capacity_) GrowArguments();
    args_[size_++] = value;
  }
  void GrowArguments();
  void ReleaseOwned();
  void PushSlot(const Bank& bank, int32_t index, const char* what);
  void Clear();
  static const TVMFFIAny& WorkspaceSize(const Plan& plan, const Plan::Item& item,
                                        const CallValues& values);
  [[noreturn, gnu::cold]] static void FailMissing(const char* what, int32_t index, int32_t size);
  void PushWorkspace(const Plan& plan, const Plan::Item& item, const CallValues& values);
  void PushAttribute(const Plan::Item& item, const Bank& bank);
  void PushSize(const Plan::Size& size, const CallValues& values, const Signature& signature);
  void Combine(Arithmetic operation);

  Loans own_loans_{kWithoutRetaining};
  bool lends_all_;
  bool has_grown_ = false;
  int32_t array_depth_ = 0;
  int32_t capacity_ = kInline;
  int32_t num_owned_ = 0, owned_capacity_ = kInline;
  TVMFFIObjectHandle* owned_ = inline_owned_;
  TVMFFIAny inline_args_[kInline];
  TVMFFIObjectHandle inline_owned_[kInline];
};

/// Row-major strides, in elements, of `shape`; 1 where a dimension is empty.
inline void FillCompactStrides(const int64_t* shape, int64_t ndim, int64_t* strides) {
  int64_t stride = 1;
  for (int64_t i = ndim - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape[i] == 0 ? 1 : shape[i];
  }
}

/// Writes the shape of `tensor` to `dims`, which has room for 2 * ndim, then its strides, or
/// compact ones where it has none.
inline void CopyDims(const DLTensor& tensor, int64_t* dims) {
  int64_t* strides = std::copy_n(tensor.shape, tensor.ndim, dims);
  if (tensor.strides != nullptr) {
    std::copy_n(tensor.strides, tensor.ndim, strides);
  } else {
    FillCompactStrides(tensor.shape, tensor.ndim, strides);
  }
}

/// Whether the elements of `tensor` are row by row; if there are none, they are.
bool IsCompact(const DLTensor& tensor);

}  // namespace graphffi
