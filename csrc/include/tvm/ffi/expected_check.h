// SPDX-License-Identifier: Apache-2.0
// Checks that return an error instead of throwing it, for functions whose result is an Expected.
#pragma once

#include <tvm/ffi/expected.h>

#include <ostream>
#include <sstream>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

/// Collects a message; converts to an Unexpected or to any Expected.
class UnexpectedBuilder {
 public:
  TVM_FFI_COLD_CODE UnexpectedBuilder(const char* kind, const char* file, int line,
                                      const char* function)
      : kind_(kind), file_(file), line_(line), function_(function) {}

  template <typename T>
  UnexpectedBuilder&& operator<<(T&& value) && {
    message_ << std::forward<T>(value);
    return std::move(*this);
  }
  UnexpectedBuilder&& operator<<(std::ostream& (*manipulator)(std::ostream&)) && {
    message_ << manipulator;
    return std::move(*this);
  }

  operator Unexpected<Error>() && {  // NOLINT(runtime/explicit)
    std::ostringstream frame;
    frame << "  File \"" << file_ << "\", line " << line_ << ", in " << function_ << '\n';
    return Unexpected<Error>(Error(kind_, message_.str(), frame.str()));
  }
  template <typename T>
  operator Expected<T>() && {  // NOLINT(runtime/explicit)
    return static_cast<Unexpected<Error>>(std::move(*this));
  }

 private:
  const char* kind_;
  const char* file_;
  int line_;
  const char* function_;
  std::ostringstream message_;
};

}  // namespace detail

/// `return TVM_FFI_UNEXPECTED(ValueError) << "…";`
#define TVM_FFI_UNEXPECTED(ErrorKind) \
  ::tvm::ffi::detail::UnexpectedBuilder(#ErrorKind, __FILE__, __LINE__, TVM_FFI_FUNC_SIG)

/// `TVM_FFI_RET_CHECK(condition, ValueError) << "…";` returns an error if the condition does not
/// hold. The comparisons print both operands.
#define TVM_FFI_RET_CHECK(cond, ErrorKind) \
  for (; TVM_FFI_PREDICT_FALSE(!(cond));)  \
  return TVM_FFI_UNEXPECTED(ErrorKind) << "Check failed: (" #cond ") is false: "

#define TVM_FFI_RET_CHECK_BINARY_OP(Name, op, x, y, ErrorKind)               \
  while (auto tvm_ffi_operands_ = ::tvm::ffi::detail::Check##Name((x), (y))) \
  return TVM_FFI_UNEXPECTED(ErrorKind)                                       \
         << "Check failed: " #x " " #op " " #y << *tvm_ffi_operands_ << ": "

#define TVM_FFI_RET_CHECK_EQ(x, y, ErrorKind) TVM_FFI_RET_CHECK_BINARY_OP(EQ, ==, x, y, ErrorKind)
#define TVM_FFI_RET_CHECK_NE(x, y, ErrorKind) TVM_FFI_RET_CHECK_BINARY_OP(NE, !=, x, y, ErrorKind)
#define TVM_FFI_RET_CHECK_LT(x, y, ErrorKind) TVM_FFI_RET_CHECK_BINARY_OP(LT, <, x, y, ErrorKind)
#define TVM_FFI_RET_CHECK_LE(x, y, ErrorKind) TVM_FFI_RET_CHECK_BINARY_OP(LE, <=, x, y, ErrorKind)
#define TVM_FFI_RET_CHECK_GT(x, y, ErrorKind) TVM_FFI_RET_CHECK_BINARY_OP(GT, >, x, y, ErrorKind)
#define TVM_FFI_RET_CHECK_GE(x, y, ErrorKind) TVM_FFI_RET_CHECK_BINARY_OP(GE, >=, x, y, ErrorKind)

/// Checks of what cannot happen: they return an InternalError.
#define TVM_FFI_RET_ICHECK(cond) TVM_FFI_RET_CHECK(cond, InternalError)
#define TVM_FFI_RET_ICHECK_EQ(x, y) TVM_FFI_RET_CHECK_EQ(x, y, InternalError)
#define TVM_FFI_RET_ICHECK_NE(x, y) TVM_FFI_RET_CHECK_NE(x, y, InternalError)
#define TVM_FFI_RET_ICHECK_LT(x, y) TVM_FFI_RET_CHECK_LT(x, y, InternalError)
#define TVM_FFI_RET_ICHECK_LE(x, y) TVM_FFI_RET_CHECK_LE(x, y, InternalError)
#define TVM_FFI_RET_ICHECK_GT(x, y) TVM_FFI_RET_CHECK_GT(x, y, InternalError)
#define TVM_FFI_RET_ICHECK_GE(x, y) TVM_FFI_RET_CHECK_GE(x, y, InternalError)

}  // namespace graphffi_v1
}  // namespace tvm::ffi
