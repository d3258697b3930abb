// SPDX-License-Identifier: Apache-2.0
// Errors as they cross boundaries: a kind (a Python exception name), a message, a backtrace.
#pragma once

#include <tvm/ffi/c_api.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace graphffi {

/// The exception of graphffi's own C++ code; each front end turns it into its framework's error.
class Error : public std::exception {
 public:
  Error(std::string kind, std::string message, std::string backtrace = "")
      : kind_(std::move(kind)), message_(std::move(message)), backtrace_(std::move(backtrace)) {}

  /// Empties this thread's error slot. `rc` is what the failed call returned: -2, from kernels
  /// built before TVM FFI 0.1.9, means that the host language (Python) holds the error, as do an
  /// empty slot and kind EnvErrorAlreadySet. It is asked for it: the global function
  /// kRaisePendingName puts what is pending there into the slot and fails, or returns if nothing
  /// is.
  static Error TakeRaised(int rc);
  static constexpr char kRaisePendingName[] = "graphffi.raise_pending";

  /// The error object that was raised; *borrowed reference*, NULL for errors of graphffi's own
  /// code.
  TVMFFIObjectHandle opt_object() const { return object_.get(); }
  const std::string& kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::string& backtrace() const { return backtrace_; }
  /// "Kind: message", for frameworks that carry text only.
  const char* what() const noexcept override;

 private:
  explicit Error(std::shared_ptr<void> object);

  std::string kind_, message_, backtrace_;
  std::shared_ptr<void> object_;
  mutable std::string what_;
};

/// Of the values that a plan names, without the op: what knows that says so.
class PlanError : public Error {
 public:
  using Error::Error;
  /// "subject: plan: message"
  Error Of(const std::string& subject) const { return {kind(), subject + ": plan: " + message()}; }
};

/// \throws Error::TakeRaised(rc) unless `rc` is 0.
inline void CheckRc(int rc) {
  if (rc != 0) throw Error::TakeRaised(rc);
}

/// Puts an error into this thread's slot and returns -1, for code that must not throw.
int SetRaised(const std::string& kind, const std::string& message);
/// The same: the very object, where `error` has one.
int SetRaised(const Error& error);

/// The body of a function of TVM FFI: 0, or -1 with the error raised; `kind` is that of exceptions
/// that are no Error.
template <typename Body>
int RaiseErrors(const char* kind, Body&& body) {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    return SetRaised(error);
  } catch (const std::exception& error) {
    return SetRaised(kind, error.what());
  }
}

/// Text that every consumer can show: XLA's ends at a NUL, Python's must be UTF-8.
std::string PrintableText(const std::string& text);

/// "Kind: subject: message", printable, where the message does not begin with the subject itself.
std::string TextOf(const Error& error, const std::string& subject);

/// After a call that returned `rc`: if the kernel refused the number or the types of its arguments,
/// the error in this thread's slot then begins with `subject`, and says what to do. Returns what
/// the call did, or -1.
int NameRefusal(int rc, std::string_view subject);

}  // namespace graphffi
