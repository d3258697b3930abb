// SPDX-License-Identifier: Apache-2.0
// Compiler attributes, token pasting and static initialisation: what every other header stands on.
#pragma once

#include <tvm/ffi/c_api.h>
#include <tvm/ffi/endian.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#define TVM_FFI_INLINE __attribute__((always_inline)) inline
#define TVM_FFI_NO_INLINE __attribute__((noinline))
#define TVM_FFI_COLD_CODE __attribute__((cold))
#define TVM_FFI_UNREACHABLE() __builtin_unreachable()
#define TVM_FFI_PREDICT_TRUE(cond) (__builtin_expect(static_cast<bool>(cond), 1))
#define TVM_FFI_PREDICT_FALSE(cond) (__builtin_expect(static_cast<bool>(cond), 0))
#define TVM_FFI_FUNC_SIG __PRETTY_FUNCTION__

#define TVM_FFI_STR_CONCAT_(a, b) a##b
#define TVM_FFI_STR_CONCAT(a, b) TVM_FFI_STR_CONCAT_(a, b)

#define TVM_FFI_STATIC_INIT_BLOCK_DEF_(name, ...)                                    \
  static void name();                                                                \
  [[maybe_unused]] static const int TVM_FFI_STR_CONCAT(name, _done) = ((name)(), 0); \
  static void name() __VA_ARGS__

/// Runs a block when the library is loaded: `TVM_FFI_STATIC_INIT_BLOCK() { … }`, or, as older
/// kernels write it, `TVM_FFI_STATIC_INIT_BLOCK({ … });`. An exception in it ends the process, as
/// in any static initialiser.
#define TVM_FFI_STATIC_INIT_BLOCK(...)                                                   \
  TVM_FFI_STATIC_INIT_BLOCK_DEF_(TVM_FFI_STR_CONCAT(TVMFFIStaticInitBlock, __COUNTER__), \
                                 __VA_ARGS__)

// All of the C++ API lives in an inline namespace: its symbols differ from those of other
// implementations of tvm::ffi in the same process, while sources written for tvm::ffi compile
// unchanged.
namespace tvm::ffi {
inline namespace graphffi_v1 {

namespace detail {

template <typename T>
using RemoveCVRef = std::remove_cv_t<std::remove_reference_t<T>>;

/// Calls f(index, arg) for each argument.
template <typename F, typename... Args>
void for_each(const F& f, Args&&... args) {
  [[maybe_unused]] size_t index = 0;
  (f(index++, std::forward<Args>(args)), ...);
}

/// The mixing step of every hash in the ABI (map keys depend on it).
constexpr uint64_t StableHashCombine(uint64_t seed, uint64_t value) {
  return seed ^ (value + 0x9e3779b9u + (seed << 6) + (seed >> 2));
}

}  // namespace detail

/// The spelling that kernels written before TVM FFI 0.1.15 use.
namespace details = detail;

}  // namespace graphffi_v1
}  // namespace tvm::ffi
