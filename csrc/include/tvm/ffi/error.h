// SPDX-License-Identifier: Apache-2.0
// Errors: an Error is both a counted object that crosses the ABI and a C++ exception; and the throw
// and check macros.
#pragma once

#include <tvm/ffi/memory.h>

// <cstring>, <iomanip> and <iostream> are for sources written for TVM FFI, which count on them.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// The object behind Error. cause_chain and extra_context of foreign errors may not exist: they are
/// never read here but in errors that this library made.
class ErrorObj : public Object, public TVMFFIErrorCell {
 public:
  static constexpr int32_t _type_index = kTVMFFIError;
  static constexpr bool _type_final = true;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC(StaticTypeKey::kTVMFFIError, ErrorObj, Object);
};

namespace detail {

/// An error whose text this library owns.
class OwnedErrorObj : public ErrorObj {
 public:
  OwnedErrorObj(std::string kind, std::string message, std::string backtrace,
                TVMFFIObject* opt_cause, TVMFFIObject* opt_context)
      : kind_text_(std::move(kind)),
        message_text_(std::move(message)),
        backtrace_text_(std::move(backtrace)) {
    this->kind = View(kind_text_);
    this->message = View(message_text_);
    this->backtrace = View(backtrace_text_);
    this->update_backtrace = UpdateBacktrace;
    this->cause_chain = opt_cause;
    this->extra_context = opt_context;
    ObjectUnsafe::IncRefObjectHandle(opt_cause);
    ObjectUnsafe::IncRefObjectHandle(opt_context);
  }
  ~OwnedErrorObj() {
    ObjectUnsafe::DecRefObjectHandle(this->cause_chain);
    ObjectUnsafe::DecRefObjectHandle(this->extra_context);
  }

 private:
  static TVMFFIByteArray View(const std::string& text) { return {text.data(), text.size()}; }
  static void UpdateBacktrace(TVMFFIObjectHandle self, const TVMFFIByteArray* text, int32_t mode) {
    auto* error = static_cast<OwnedErrorObj*>(static_cast<Object*>(self));
    if (mode == kTVMFFIBacktraceUpdateModeReplace) error->backtrace_text_.clear();
    error->backtrace_text_.append(text->data, text->size);
    error->backtrace = View(error->backtrace_text_);
  }

  std::string kind_text_;
  std::string message_text_;
  std::string backtrace_text_;
};

}  // namespace detail

/// An error with the name of a Python exception class as its kind.
class Error : public ObjectRef, public std::exception {
 public:
  /// backtrace: lines `  File "…", line …, in …`, the most recent frame first.
  Error(std::string kind, std::string message, std::string backtrace)
      : Error(std::move(kind), std::move(message), std::move(backtrace), std::nullopt,
              std::nullopt) {}
  /// cause: the error that led to this one. context: any object that helps to explain it.
  Error(std::string kind, std::string message, std::string backtrace, std::optional<Error> cause,
        std::optional<ObjectRef> context);
  Error(std::string kind, std::string message, const TVMFFIByteArray* backtrace)
      : Error(std::move(kind), std::move(message), std::string(backtrace->data, backtrace->size)) {}

  std::string kind() const { return ToString(get()->kind); }
  std::string message() const { return ToString(get()->message); }
  /// The most recent frame first.
  std::string backtrace() const { return ToString(get()->backtrace); }
  /// The backtrace in Python's order: the most recent frame last.
  std::string TracebackMostRecentCallLast() const;
  /// The text that Python would print: backtrace, kind and message.
  std::string FullMessage() const {
    return "Traceback (most recent call last):\n" + TracebackMostRecentCallLast() + kind() + ": " +
           message();
  }
  /// The message. Valid as long as the error object lives.
  const char* what() const noexcept override { return get()->message.data; }
  /// mode: TVMFFIBacktraceUpdateMode.
  void UpdateBacktrace(const TVMFFIByteArray* text, int32_t mode) const {
    get()->update_backtrace(const_cast<ErrorObj*>(get()), text, mode);
  }

  /// Nothing for errors that another library made: old kernels have no such fields.
  std::optional<Error> cause_chain() const;
  std::optional<ObjectRef> extra_context() const;
  /// An error of another library is replaced by a copy that carries the context.
  void SetExtraContext(const ObjectRef& context);

  explicit Error(ObjectPtr<ErrorObj> data) : ObjectRef(std::move(data)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Error, ObjectRef, ErrorObj);

 private:
  static std::string ToString(const TVMFFIByteArray& text) { return {text.data, text.size}; }
  /// Whether this library made the error, so that all fields exist.
  bool IsOwned() const;
  TVMFFIObject* OptOwned(TVMFFIObjectHandle ErrorObj::* field) const;
};

/// Thrown to pass on an error that the host language already holds (Python's Ctrl-C).
class EnvErrorAlreadySet : public Error {
 public:
  EnvErrorAlreadySet() : Error("EnvErrorAlreadySet", "", "") {}
  explicit EnvErrorAlreadySet(const Error& error) : Error(error) {}
};

inline Error::Error(std::string kind, std::string message, std::string backtrace,
                    std::optional<Error> cause, std::optional<ObjectRef> context)
    : ObjectRef(make_object<detail::OwnedErrorObj>(
          std::move(kind), std::move(message), std::move(backtrace),
          cause ? detail::ObjectUnsafe::TVMFFIObjectPtrFromObjectRef(*cause) : nullptr,
          context ? detail::ObjectUnsafe::TVMFFIObjectPtrFromObjectRef(*context) : nullptr)) {}

inline std::string Error::TracebackMostRecentCallLast() const {
  std::string_view rest(get()->backtrace.data, get()->backtrace.size);
  std::string reversed;
  while (!rest.empty()) {
    size_t end = rest.back() == '\n' ? rest.size() - 1 : rest.size();
    size_t newline = end == 0 ? std::string_view::npos : rest.rfind('\n', end - 1);
    size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    reversed.append(rest.substr(begin, end - begin)).push_back('\n');
    rest = rest.substr(0, begin);
  }
  return reversed;
}

inline bool Error::IsOwned() const {
  return detail::ObjectUnsafe::GetHeader(get())->deleter ==
         detail::ObjectDeleter<detail::OwnedErrorObj>::Delete;
}

inline TVMFFIObject* Error::OptOwned(TVMFFIObjectHandle ErrorObj::* field) const {
  return IsOwned() ? static_cast<TVMFFIObject*>(get()->*field) : nullptr;
}

inline std::optional<Error> Error::cause_chain() const {
  TVMFFIObject* cause = OptOwned(&ErrorObj::cause_chain);
  if (cause == nullptr) return std::nullopt;
  return Error(detail::ObjectUnsafe::ObjectPtrFromUnowned<ErrorObj>(cause));
}

inline std::optional<ObjectRef> Error::extra_context() const {
  TVMFFIObject* context = OptOwned(&ErrorObj::extra_context);
  if (context == nullptr) return std::nullopt;
  return ObjectRef(detail::ObjectUnsafe::ObjectPtrFromUnowned<Object>(context));
}

inline void Error::SetExtraContext(const ObjectRef& context) {
  if (!IsOwned()) {
    *this = Error(kind(), message(), backtrace(), std::nullopt, context);
    return;
  }
  auto* error = const_cast<ErrorObj*>(get());
  ObjectRef kept = context;
  TVMFFIObjectHandle previous = error->extra_context;
  error->extra_context = detail::ObjectUnsafe::MoveObjectRefToTVMFFIObjectPtr(std::move(kept));
  detail::ObjectUnsafe::DecRefObjectHandle(previous);
}

namespace detail {

/// Takes the thread's error out of its slot.
TVM_FFI_COLD_CODE inline Error MoveFromSafeCallRaised() {
  TVMFFIObjectHandle raised = nullptr;
  TVMFFIErrorMoveFromRaised(&raised);
  if (raised == nullptr) return Error("InternalError", "a call failed without an error", "");
  return Error(ObjectUnsafe::ObjectPtrFromOwned<ErrorObj>(raised));
}

/// Puts error into the thread's slot.
TVM_FFI_COLD_CODE inline void SetSafeCallRaised(const Error& error) {
  TVMFFIErrorSetRaised(ObjectUnsafe::TVMFFIObjectPtrFromObjectRef(error));
}

/// Throws what a call with return code rc raised. -2 was, before TVM FFI 0.1.9, an error that the
/// host language holds.
[[noreturn]] TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE inline void ThrowSafeCallRaised(int rc) {
  if (rc == -2) throw EnvErrorAlreadySet();
  Error error = MoveFromSafeCallRaised();
  if (error.kind() == "EnvErrorAlreadySet") throw EnvErrorAlreadySet(error);
  throw error;
}

/// Collects a message and throws it as an Error at the end of the full expression.
class ErrorBuilder {
 public:
  TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE ErrorBuilder(const char* kind, const char* file, int line,
                                                   const char* function, bool log,
                                                   std::optional<ObjectRef> context = std::nullopt)
      : kind_(kind), log_(log), context_(std::move(context)) {
    const TVMFFIByteArray* frames = TVMFFIBacktrace(file, line, function, 0);
    backtrace_.assign(frames->data, frames->size);
  }
  ErrorBuilder(const ErrorBuilder&) = delete;
  ErrorBuilder& operator=(const ErrorBuilder&) = delete;

  std::ostringstream& stream() { return stream_; }

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wterminate"
#endif
  [[noreturn]] TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE ~ErrorBuilder() noexcept(false) {
    Error error(kind_, stream_.str(), std::move(backtrace_), std::nullopt, std::move(context_));
    if (log_) {
      std::fprintf(stderr, "%s\n", error.FullMessage().c_str());
    }
    throw error;
  }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

 private:
  const char* kind_;
  bool log_;
  std::optional<ObjectRef> context_;
  std::string backtrace_;
  std::ostringstream stream_;
};

/// Gives the conditional expression in the check macros two branches of type void.
struct Voidify {
  void operator&(std::ostream&) const {}
};

template <typename T, typename = void>
struct IsPrintable : std::false_type {};
template <typename T>
struct IsPrintable<T, std::void_t<decltype(std::declval<std::ostream&>() << std::declval<T>())>>
    : std::true_type {};

template <typename T>
void PrintOperand(std::ostream& os, const T& value) {
  if constexpr (IsPrintable<const T&>::value) {
    os << value;
  } else if constexpr (std::is_enum_v<T>) {
    os << static_cast<std::underlying_type_t<T>>(value);
  } else {
    os << "?";
  }
}

template <typename X, typename Y>
TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE std::unique_ptr<std::string> DescribeOperands(const X& x,
                                                                                  const Y& y) {
  std::ostringstream os;
  os << " (";
  PrintOperand(os, x);
  os << " vs. ";
  PrintOperand(os, y);
  os << ") ";
  return std::make_unique<std::string>(os.str());
}

// Kernels compare sizes of any signedness with literals: no warning from inside here.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
#endif
#define TVM_FFI_DEFINE_CHECK_(Name, op)                                             \
  template <typename X, typename Y>                                                 \
  TVM_FFI_INLINE std::unique_ptr<std::string> Check##Name(const X& x, const Y& y) { \
    if (TVM_FFI_PREDICT_TRUE(x op y)) return nullptr;                               \
    return DescribeOperands(x, y);                                                  \
  }
TVM_FFI_DEFINE_CHECK_(EQ, ==)
TVM_FFI_DEFINE_CHECK_(NE, !=)
TVM_FFI_DEFINE_CHECK_(LT, <)
TVM_FFI_DEFINE_CHECK_(LE, <=)
TVM_FFI_DEFINE_CHECK_(GT, >)
TVM_FFI_DEFINE_CHECK_(GE, >=)
#undef TVM_FFI_DEFINE_CHECK_
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

}  // namespace detail

#ifndef TVM_FFI_ALWAYS_LOG_BEFORE_THROW
#define TVM_FFI_ALWAYS_LOG_BEFORE_THROW 0
#endif

#define TVM_FFI_THROW_(ErrorKind, Log) \
  ::tvm::ffi::detail::ErrorBuilder(#ErrorKind, __FILE__, __LINE__, TVM_FFI_FUNC_SIG, (Log)).stream()

/// `TVM_FFI_THROW(ValueError) << "…";` throws an Error of that kind, with a backtrace.
#define TVM_FFI_THROW(ErrorKind) TVM_FFI_THROW_(ErrorKind, TVM_FFI_ALWAYS_LOG_BEFORE_THROW)

/// Throws like TVM_FFI_THROW and prints the error first: for code whose exceptions nobody catches.
#define TVM_FFI_LOG_AND_THROW(ErrorKind) TVM_FFI_THROW_(ErrorKind, true)

/// `TVM_FFI_CHECK(condition, ValueError) << "…";` throws an Error of that kind if the condition
/// does not hold.
#define TVM_FFI_CHECK(cond, ErrorKind)                       \
  TVM_FFI_PREDICT_TRUE(cond)                                 \
  ? static_cast<void>(0)                                     \
  : ::tvm::ffi::detail::Voidify() & TVM_FFI_THROW(ErrorKind) \
                                        << "Check failed: (" #cond ") is false: "

#define TVM_FFI_CHECK_BINARY_OP(Name, op, x, y, ErrorKind)                   \
  while (auto tvm_ffi_operands_ = ::tvm::ffi::detail::Check##Name((x), (y))) \
  TVM_FFI_THROW(ErrorKind) << "Check failed: " #x " " #op " " #y << *tvm_ffi_operands_ << ": "

#define TVM_FFI_CHECK_EQ(x, y, ErrorKind) TVM_FFI_CHECK_BINARY_OP(EQ, ==, x, y, ErrorKind)
#define TVM_FFI_CHECK_NE(x, y, ErrorKind) TVM_FFI_CHECK_BINARY_OP(NE, !=, x, y, ErrorKind)
#define TVM_FFI_CHECK_LT(x, y, ErrorKind) TVM_FFI_CHECK_BINARY_OP(LT, <, x, y, ErrorKind)
#define TVM_FFI_CHECK_LE(x, y, ErrorKind) TVM_FFI_CHECK_BINARY_OP(LE, <=, x, y, ErrorKind)
#define TVM_FFI_CHECK_GT(x, y, ErrorKind) TVM_FFI_CHECK_BINARY_OP(GT, >, x, y, ErrorKind)
#define TVM_FFI_CHECK_GE(x, y, ErrorKind) TVM_FFI_CHECK_BINARY_OP(GE, >=, x, y, ErrorKind)
/// Gives x back, or throws if it is null.
#define TVM_FFI_CHECK_NOTNULL(x, ErrorKind) \
  ((x) == nullptr ? (TVM_FFI_THROW(ErrorKind) << "Check not null: " #x " ", (x)) : (x))

/// Checks of what cannot happen: they throw an InternalError.
#define TVM_FFI_ICHECK(cond) TVM_FFI_CHECK(cond, InternalError)
#define TVM_FFI_ICHECK_EQ(x, y) TVM_FFI_CHECK_EQ(x, y, InternalError)
#define TVM_FFI_ICHECK_NE(x, y) TVM_FFI_CHECK_NE(x, y, InternalError)
#define TVM_FFI_ICHECK_LT(x, y) TVM_FFI_CHECK_LT(x, y, InternalError)
#define TVM_FFI_ICHECK_LE(x, y) TVM_FFI_CHECK_LE(x, y, InternalError)
#define TVM_FFI_ICHECK_GT(x, y) TVM_FFI_CHECK_GT(x, y, InternalError)
#define TVM_FFI_ICHECK_GE(x, y) TVM_FFI_CHECK_GE(x, y, InternalError)
#define TVM_FFI_ICHECK_NOTNULL(x) TVM_FFI_CHECK_NOTNULL(x, InternalError)

/// Checks that exist in debug builds only.
#ifdef NDEBUG
#define TVM_FFI_DCHECK_OFF_(check) \
  while (false) check
#else
#define TVM_FFI_DCHECK_OFF_(check) check
#endif
#define TVM_FFI_DCHECK(cond) TVM_FFI_DCHECK_OFF_(TVM_FFI_ICHECK(cond))
#define TVM_FFI_DCHECK_EQ(x, y) TVM_FFI_DCHECK_OFF_(TVM_FFI_ICHECK_EQ(x, y))
#define TVM_FFI_DCHECK_NE(x, y) TVM_FFI_DCHECK_OFF_(TVM_FFI_ICHECK_NE(x, y))
#define TVM_FFI_DCHECK_LT(x, y) TVM_FFI_DCHECK_OFF_(TVM_FFI_ICHECK_LT(x, y))
#define TVM_FFI_DCHECK_LE(x, y) TVM_FFI_DCHECK_OFF_(TVM_FFI_ICHECK_LE(x, y))
#define TVM_FFI_DCHECK_GT(x, y) TVM_FFI_DCHECK_OFF_(TVM_FFI_ICHECK_GT(x, y))
#define TVM_FFI_DCHECK_GE(x, y) TVM_FFI_DCHECK_OFF_(TVM_FFI_ICHECK_GE(x, y))
#ifdef NDEBUG
#define TVM_FFI_DCHECK_NOTNULL(x) (x)
#else
#define TVM_FFI_DCHECK_NOTNULL(x) TVM_FFI_ICHECK_NOTNULL(x)
#endif

/// Throws what a C function of the ABI raised.
#define TVM_FFI_CHECK_SAFE_CALL(func)                       \
  {                                                         \
    int tvm_ffi_rc_ = (func);                               \
    if (TVM_FFI_PREDICT_FALSE(tvm_ffi_rc_ != 0)) {          \
      ::tvm::ffi::detail::ThrowSafeCallRaised(tvm_ffi_rc_); \
    }                                                       \
  }

}  // namespace graphffi_v1
}  // namespace tvm::ffi
