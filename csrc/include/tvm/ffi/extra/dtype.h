// SPDX-License-Identifier: Apache-2.0
// dtype_trait<T>::value: the DLDataType of a C++ element type, those of CUDA and HIP included.
#pragma once

#include <dlpack/dlpack.h>
#include <tvm/ffi/base_detail.h>

#include <cstdint>
#include <type_traits>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

template <int kCode, int kBits, int kLanes = 1>
struct DTypeConstant {
  static constexpr DLDataType value = {static_cast<uint8_t>(kCode), static_cast<uint8_t>(kBits),
                                       static_cast<uint16_t>(kLanes)};
};

template <typename T>
inline constexpr bool kIsPlainInteger =
    std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> &&
    !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>;

}  // namespace detail

/// No value for types that are no element types.
template <typename T, typename = void>
struct dtype_trait {};

template <typename T>
struct dtype_trait<T, std::enable_if_t<detail::kIsPlainInteger<T>>>
    : detail::DTypeConstant<std::is_signed_v<T> ? kDLInt : kDLUInt, 8 * sizeof(T)> {};
template <>
struct dtype_trait<float> : detail::DTypeConstant<kDLFloat, 32> {};
template <>
struct dtype_trait<double> : detail::DTypeConstant<kDLFloat, 64> {};
template <>
struct dtype_trait<bool> : detail::DTypeConstant<kDLBool, 8> {};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

// Declared here, so that neither cuda_fp16.h and its like nor their HIP counterparts are needed.
#define TVM_FFI_DTYPE_TRAIT_(Type, ...) \
  struct Type;                          \
  template <>                           \
  struct tvm::ffi::dtype_trait<Type> : tvm::ffi::detail::DTypeConstant<__VA_ARGS__> {}
TVM_FFI_DTYPE_TRAIT_(__half, kDLFloat, 16);
TVM_FFI_DTYPE_TRAIT_(__nv_bfloat16, kDLBfloat, 16);
TVM_FFI_DTYPE_TRAIT_(__nv_fp8_e4m3, kDLFloat8_e4m3fn, 8);
TVM_FFI_DTYPE_TRAIT_(__nv_fp8_e5m2, kDLFloat8_e5m2, 8);
TVM_FFI_DTYPE_TRAIT_(__nv_fp8_e8m0, kDLFloat8_e8m0fnu, 8);
TVM_FFI_DTYPE_TRAIT_(__nv_fp4_e2m1, kDLFloat4_e2m1fn, 4);
TVM_FFI_DTYPE_TRAIT_(__nv_fp4x2_e2m1, kDLFloat4_e2m1fn, 4, 2);
TVM_FFI_DTYPE_TRAIT_(__hip_bfloat16, kDLBfloat, 16);
TVM_FFI_DTYPE_TRAIT_(hip_bfloat16, kDLBfloat, 16);
TVM_FFI_DTYPE_TRAIT_(__hip_fp8_e4m3, kDLFloat8_e4m3fn, 8);
TVM_FFI_DTYPE_TRAIT_(__hip_fp8_e4m3_fnuz, kDLFloat8_e4m3fnuz, 8);
TVM_FFI_DTYPE_TRAIT_(__hip_fp8_e5m2, kDLFloat8_e5m2, 8);
TVM_FFI_DTYPE_TRAIT_(__hip_fp8_e5m2_fnuz, kDLFloat8_e5m2fnuz, 8);
TVM_FFI_DTYPE_TRAIT_(__hip_fp4_e2m1, kDLFloat4_e2m1fn, 4);
TVM_FFI_DTYPE_TRAIT_(__hip_fp4x2_e2m1, kDLFloat4_e2m1fn, 4, 2);
#undef TVM_FFI_DTYPE_TRAIT_
