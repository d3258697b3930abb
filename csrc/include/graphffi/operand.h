// SPDX-License-Identifier: Apache-2.0
// Operands of kernels: tensors with the names that errors use, their checks, and typed access.
// Works with the TVM FFI headers beside it and with those of apache-tvm-ffi.
#pragma once

#include <graphffi/view.h>
#include <tvm/ffi/tvm_ffi.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace graphffi {

constexpr DLDataType kFloat16{kDLFloat, 16, 1};
constexpr DLDataType kFloat32{kDLFloat, 32, 1};
constexpr DLDataType kFloat64{kDLFloat, 64, 1};
constexpr DLDataType kBFloat16{kDLBfloat, 16, 1};
constexpr DLDataType kInt32{kDLInt, 32, 1};
constexpr DLDataType kInt64{kDLInt, 64, 1};
constexpr DLDataType kBool{kDLBool, 8, 1};

/// A tensor argument of the running kernel. Borrowed: lives no longer than the call.
/// Each Expect* compares one property and throws
/// `<kernel>: operand '<name>': expected <X>, got <Y>`.
class Operand {
 public:
  /// \throws Error(ValueError) unless `tensor` is on a device of that type.
  Operand(const char* kernel, const char* name, ::tvm::ffi::TensorView tensor,
          DLDeviceType device = kDLCPU)
      : kernel_(kernel), name_(name), tensor_(tensor), dense_(tensor.IsContiguous()) {
    if (tensor.device().device_type != device)
      FailValue("a tensor on " + view_detail::ToText(device));
  }

  int64_t size(int i) const { return tensor_.size(i); }
  int ndim() const { return tensor_.ndim(); }
  int64_t numel() const { return tensor_.numel(); }
  DLDataType dtype() const { return tensor_.dtype(); }

  /// In elements. Negative dimensions count from the end, as in `size`. Also for a dense tensor
  /// whose DLTensor has no strides.
  int64_t stride(int i) const {
    if (!dense_) return tensor_.stride(i);
    int64_t stride = 1;
    for (int k = ndim() - 1; k > (i < 0 ? i + ndim() : i); --k) stride *= size(k);
    return stride;
  }

  /// Pointer to the first element.
  template <typename T>
  T* pointer() const {
    return reinterpret_cast<T*>(static_cast<char*>(tensor_.data_ptr()) + tensor_.byte_offset());
  }

  /// \throws Error(TypeError)
  void ExpectDtype(DLDataType dtype) const {
    if (tensor_.dtype() != dtype) FailType(view_detail::ToText(dtype));
  }

  /// One of several. \throws Error(TypeError)
  void ExpectDtype(std::initializer_list<DLDataType> dtypes) const {
    std::string known;
    for (DLDataType one : dtypes) {
      if (tensor_.dtype() == one) return;
      known += (known.empty() ? "" : " or ") + view_detail::ToText(one);
    }
    FailType(known);
  }

  /// \throws Error(TypeError)
  void ExpectIndexDtype() const { ExpectDtype({kInt32, kInt64}); }

  /// \throws Error(ValueError)
  void ExpectMinimumRank(int rank) const {
    if (ndim() < rank) FailValue("at least " + std::to_string(rank) + " dimensions");
  }

  /// `meaning` names the dimensions, as in "[batch, tokens]". \throws Error(ValueError)
  void ExpectRank(int rank, const char* meaning) const {
    if (ndim() != rank) FailValue(meaning);
  }

  /// \throws Error(ValueError)
  void ExpectShape(std::initializer_list<int64_t> shape) const {
    bool equal = static_cast<size_t>(ndim()) == shape.size();
    int i = 0;
    for (int64_t extent : shape) equal = equal && size(i++) == extent;
    if (!equal) FailValue("shape " + ShapeText(shape));
  }

  /// The shape of `other`, but for the last dimension, which is `last`. \throws Error(ValueError)
  void ExpectShapeLike(const Operand& other, int64_t last) const {
    bool equal = ndim() > 0 && ndim() == other.ndim() && size(-1) == last;
    for (int i = 0; equal && i + 1 < ndim(); ++i) equal = size(i) == other.size(i);
    if (equal) return;
    std::vector<int64_t> shape;
    for (int i = 0; i + 1 < other.ndim(); ++i) shape.push_back(other.size(i));
    shape.push_back(last);
    FailValue("shape " + ShapeText(shape));
  }

  /// Other dimensions may have any stride. \throws Error(ValueError)
  void ExpectDenseRows() const {
    if (dense_ || size(-1) <= 1 || stride(-1) == 1) return;
    Fail("ValueError", "elements of the last dimension side by side",
         "stride " + std::to_string(stride(-1)) + "; make it contiguous");
  }

  [[noreturn]] void FailType(const std::string& expected) const {
    Fail("TypeError", expected, ToText());
  }
  [[noreturn]] void FailValue(const std::string& expected) const {
    Fail("ValueError", expected, ToText());
  }
  /// `got` may end in "; <what to do>".
  [[noreturn]] void Fail(const char* kind, const std::string& expected,
                         const std::string& got) const {
    throw ::tvm::ffi::Error(
        kind,
        std::string(kernel_) + ": operand '" + name_ + "': expected " + expected + ", got " + got,
        "");
  }

 private:
  template <typename Sizes>
  static std::string ShapeText(const Sizes& sizes) {
    return view_detail::ListText(sizes.begin(), static_cast<int>(sizes.size()));
  }

  std::string ToText() const {
    ::tvm::ffi::ShapeView shape = tensor_.shape();
    const std::string text = view_detail::ToText(dtype()) + ShapeText(shape);
    return text + " on " + view_detail::ToText(tensor_.device().device_type);
  }

  const char* kernel_;
  const char* name_;
  ::tvm::ffi::TensorView tensor_;
  bool dense_;
};

/// The rows of a tensor [..., width] whose leading dimensions have any strides.
template <typename T>
class Rows {
 public:
  explicit Rows(const Operand& operand) : operand_(operand), base_(operand.pointer<T>()) {}

  int64_t count() const {
    int64_t count = 1;
    for (int i = 0; i + 1 < operand_.ndim(); ++i) count *= operand_.size(i);
    return count;
  }

  T* operator[](int64_t row) const {
    int64_t offset = 0;
    for (int i = operand_.ndim() - 2; i >= 0; --i) {
      offset += row % operand_.size(i) * operand_.stride(i);
      row /= operand_.size(i);
    }
    return base_ + offset;
  }

 private:
  const Operand& operand_;
  T* base_;
};

/// The elements of a 0-d or 1-d tensor of int32 or int64.
class Indices {
 public:
  explicit Indices(const Operand& operand)
      : wide_(operand.dtype() == kInt64),
        base_(operand.pointer<char>()),
        stride_(operand.ndim() == 0 ? 0 : operand.stride(0)) {}

  int64_t operator[](int64_t i) const {
    if (wide_) return reinterpret_cast<const int64_t*>(base_)[i * stride_];
    return reinterpret_cast<const int32_t*>(base_)[i * stride_];
  }

 private:
  bool wide_;
  const char* base_;
  int64_t stride_;
};

}  // namespace graphffi
