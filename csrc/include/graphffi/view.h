// SPDX-License-Identifier: Apache-2.0
// Views: tensor parameters of kernels that say their element type and rank. Calls check them, and
// definitions of ops read them from the library's metadata.
// Works with the TVM FFI headers beside it and with those of apache-tvm-ffi.
#pragma once

#include <tvm/ffi/tvm_ffi.h>

#include <complex>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

namespace graphffi {

/// The data type of a C++ type. Specialize it for a type of your own:
/// `template <> struct graphffi::ElementType<Half> { static constexpr DLDataType value{kDLFloat,
/// 16, 1}; };`
template <typename T, typename = void>
struct ElementType;

namespace view_detail {

template <DLDataTypeCode kCode, typename T>
struct Plain {
  static constexpr DLDataType value{kCode, 8 * sizeof(T), 1};
};

}  // namespace view_detail

template <>
struct ElementType<bool> : view_detail::Plain<kDLBool, bool> {};
template <typename T>
struct ElementType<T, std::enable_if_t<std::is_integral_v<T>>>
    : view_detail::Plain<std::is_signed_v<T> ? kDLInt : kDLUInt, T> {};
template <>
struct ElementType<float> : view_detail::Plain<kDLFloat, float> {};
template <>
struct ElementType<double> : view_detail::Plain<kDLFloat, double> {};
template <typename T>
struct ElementType<std::complex<T>> : view_detail::Plain<kDLComplex, std::complex<T>> {};
#ifdef __FLT16_MAX__
template <>
struct ElementType<_Float16> : view_detail::Plain<kDLFloat, _Float16> {};
#endif
// Of CUDA's headers, where they are included before.
#ifdef __CUDA_FP16_TYPES_EXIST__
template <>
struct ElementType<__half> : view_detail::Plain<kDLFloat, __half> {};
#endif
#ifdef __CUDA_BF16_TYPES_EXIST__
template <>
struct ElementType<__nv_bfloat16> : view_detail::Plain<kDLBfloat, __nv_bfloat16> {};
#endif

/// The element type of a view that takes several: `View<const OneOf<float, double>, 2>`.
template <typename... T>
struct OneOf;

constexpr int kAnyRank = -1;

template <typename T, int kRank = kAnyRank, DLDeviceType kDevice = kDLCPU>
class View;

namespace view_detail {

/// The element types of a view, without const. `void`: any.
template <typename T>
struct Elements {
  static constexpr bool kIsOne = true;
  template <typename F>
  static bool Any(F&& accept) {
    return accept(static_cast<T*>(nullptr));
  }
};
template <>
struct Elements<void> {
  static constexpr bool kIsOne = false;
  template <typename F>
  static bool Any(F&&) {
    return true;
  }
};
template <typename... T>
struct Elements<OneOf<T...>> {
  static constexpr bool kIsOne = false;
  template <typename F>
  static bool Any(F&& accept) {
    return (accept(static_cast<T*>(nullptr)) || ...);
  }
};

template <typename T>
using With = Elements<std::remove_const_t<T>>;

inline std::string ToText(DLDataType dtype) {
  // No runtime (apache-tvm-ffi 0.1.15) has text for these.
  if (dtype.code == kDLComplex) return "complex" + std::to_string(dtype.bits);
  std::ostringstream text;
  text << dtype;
  return text.str();
}

inline std::string ToText(DLDeviceType device) {
  if (device == kDLCPU) return "cpu";
  if (device == kDLCUDA) return "cuda";
  return "device type " + std::to_string(static_cast<int>(device));
}

/// The names of the data types, each between `quote`; empty for any.
template <typename T>
std::string DTypeNames(const char* quote, const char* between) {
  std::string names;
  With<T>::Any([&](auto* element) {
    using Element = std::remove_pointer_t<decltype(element)>;
    names += (names.empty() ? "" : between) + (quote + ToText(ElementType<Element>::value)) + quote;
    return false;
  });
  return names;
}

inline bool IsRowMajor(const DLTensor& tensor) {
  int64_t stride = 1;
  bool is_row_major = true;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.strides == nullptr) continue;
    is_row_major &= tensor.shape[i] == 1 || tensor.strides[i] == stride;
    stride *= tensor.shape[i];
  }
  return is_row_major;
}

/// `numbers`: a pointer or an iterator.
template <typename Numbers>
std::string ListText(Numbers numbers, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  return text + "]";
}

/// `float32[2, 3] on cuda`; strides where they are not row-major.
inline std::string ToText(const DLTensor& tensor) {
  std::string text = ToText(tensor.dtype) + ListText(tensor.shape, tensor.ndim);
  if (!IsRowMajor(tensor)) text += " with strides " + ListText(tensor.strides, tensor.ndim);
  if (tensor.device.device_type == kDLCPU) return text;
  return text + " on " + ToText(tensor.device.device_type);
}

}  // namespace view_detail

/// A tensor parameter of a kernel: row-major, with elements of type T, `kRank` dimensions, on a
/// device of type `kDevice`. T is const where the kernel only reads; it is a type, OneOf several,
/// or void for any. Borrowed: lives no longer than the call. An argument of another data type,
/// rank, layout or device is a TypeError that names its place.
///
///     void Scale(graphffi::View<const float> x, double factor, graphffi::View<float> out);
///     float Dot(graphffi::View<const float, 1> a, graphffi::View<const float, 1> b);
template <typename T, int kRank, DLDeviceType kDevice>
class View {
  static_assert(kRank >= kAnyRank, "View: expected a rank of 0 or more, or kAnyRank");
  using Elements = view_detail::With<T>;

 public:
  /// What data() points to: T, or void where T leaves the type open.
  using Element = std::conditional_t<Elements::kIsOne, T,
                                     std::conditional_t<std::is_const_v<T>, const void, void>>;

  /// Nothing is checked.
  explicit View(const DLTensor& tensor)
      : data_(static_cast<char*>(tensor.data) + tensor.byte_offset),
        shape_(tensor.shape),
        ndim_(tensor.ndim),
        dtype_(tensor.dtype) {}

  /// Whether a view of this type may be made of `tensor`.
  static bool Takes(const DLTensor& tensor) {
    const bool has_type = Elements::Any([&](auto* element) {
      return tensor.dtype == ElementType<std::remove_pointer_t<decltype(element)>>::value;
    });
    return has_type && (kRank == kAnyRank || tensor.ndim == kRank) &&
           tensor.device.device_type == kDevice && view_detail::IsRowMajor(tensor);
  }

  Element* data() const { return static_cast<Element*>(data_); }
  DLDataType dtype() const { return dtype_; }
  int ndim() const { return kRank == kAnyRank ? ndim_ : kRank; }
  const int64_t* shape() const { return shape_; }
  /// Dimensions count from the end where i is negative.
  int64_t size(int i) const { return shape_[i < 0 ? i + ndim() : i]; }
  int64_t numel() const {
    int64_t count = 1;
    for (int i = 0; i < ndim(); ++i) count *= shape_[i];
    return count;
  }

  /// All elements, row by row.
  Element* begin() const { return data(); }
  Element* end() const { return data() + numel(); }

  /// Of a view of n > 1 dimensions, a view of n - 1: `x[i][j]`. Of others the element, which counts
  /// row by row where the rank is open. Not checked.
  decltype(auto) operator[](int64_t i) const {
    if constexpr (kRank > 1) {
      int64_t count = 1;
      for (int k = 1; k < kRank; ++k) count *= shape_[k];
      return View<T, kRank - 1, kDevice>(data() + i * count, shape_ + 1, dtype_);
    } else {
      return (data()[i]);
    }
  }

  /// The same view with one element type. \throws tvm::ffi::Error(TypeError) if it is another.
  template <typename Other>
  View<std::conditional_t<std::is_const_v<T>, const Other, Other>, kRank, kDevice> as() const {
    if (dtype_ != ElementType<Other>::value) {
      throw ::tvm::ffi::Error("TypeError",
                              "expected elements of type " +
                                  view_detail::ToText(ElementType<Other>::value) + ", got " +
                                  view_detail::ToText(dtype_),
                              "");
    }
    return {data_, shape_, ndim_, dtype_};
  }

  /// Calls `f` with the view with the element type that it has, of those of OneOf.
  template <typename F>
  void visit(F&& f) const {
    static_assert(!std::is_void_v<T>, "View: expected OneOf several types to visit");
    Elements::Any([&](auto* element) {
      using One = std::remove_pointer_t<decltype(element)>;
      if (dtype_ != ElementType<One>::value) return false;
      f(as<One>());
      return true;
    });
  }

 private:
  template <typename, int, DLDeviceType>
  friend class View;

  View(Element* data, const int64_t* shape, DLDataType dtype) : View(data, shape, kRank, dtype) {}
  View(const void* data, const int64_t* shape, int ndim, DLDataType dtype)
      : data_(const_cast<void*>(data)), shape_(shape), ndim_(ndim), dtype_(dtype) {}

  void* data_;
  const int64_t* shape_;
  int ndim_;
  DLDataType dtype_;
};

}  // namespace graphffi

namespace tvm::ffi {

template <typename T, int kRank, DLDeviceType kDevice>
struct TypeTraits<::graphffi::View<T, kRank, kDevice>> : TypeTraitsBase {
  using Self = ::graphffi::View<T, kRank, kDevice>;
  static constexpr bool storage_enabled = false;

  static std::optional<Self> TryCastFromAnyView(const TVMFFIAny* source) {
    const DLTensor* tensor = OptTensor(source);
    if (tensor == nullptr || !Self::Takes(*tensor)) return std::nullopt;
    return Self(*tensor);
  }
  static std::string GetMismatchTypeInfo(const TVMFFIAny* source) {
    const DLTensor* tensor = OptTensor(source);
    if (tensor == nullptr) return TypeTraitsBase::GetMismatchTypeInfo(source);
    return ::graphffi::view_detail::ToText(*tensor);
  }

  /// `View<const float32 | float64, 2>`
  static std::string TypeStr() {
    std::string names = ::graphffi::view_detail::DTypeNames<T>("", " | ");
    if (names.empty()) names = "void";
    std::string text = (std::is_const_v<T> ? "View<const " : "View<") + names;
    if (kRank != ::graphffi::kAnyRank) text += ", " + std::to_string(kRank);
    if (kDevice != kDLCPU) text += " on " + ::graphffi::view_detail::ToText(kDevice);
    return text + ">";
  }
  static std::string TypeSchema() {
    std::string text = "{\"type\":\"DLTensor*\",\"view\":{\"dtypes\":[" +
                       ::graphffi::view_detail::DTypeNames<T>("\"", ",") + "],";
    if (kRank != ::graphffi::kAnyRank) text += "\"rank\":" + std::to_string(kRank) + ",";
    return text + "\"device\":" + std::to_string(static_cast<int>(kDevice)) +
           ",\"writes\":" + (std::is_const_v<T> ? "false" : "true") + "}}";
  }

 private:
  static const DLTensor* OptTensor(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIDLTensorPtr) {
      return static_cast<const DLTensor*>(source->v_ptr);
    }
    if (source->type_index == kTVMFFITensor) return TVMFFITensorGetDLTensorPtr(source->v_obj);
    return nullptr;
  }
};

}  // namespace tvm::ffi
