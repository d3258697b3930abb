// SPDX-License-Identifier: Apache-2.0
// Errors: the exception inside the runtime, the guard at its C functions, Error objects, the
// thread's slot.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "object.h"

namespace graphffi::runtime {

/// The exception of the runtime; the guard turns it into an Error object in the thread's slot.
struct Error : std::exception {
  Error(std::string_view kind, std::string message) : kind(kind), message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }

  std::string kind;
  std::string message;
};

/// A call into foreign code returned `code`, and what it put into the slot stays there.
struct ForeignError {
  int code;
};

namespace detail {
inline void Append(std::string* text, std::string_view part) { text->append(part); }
template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
void Append(std::string* text, T number) {
  text->append(std::to_string(number));
}
}  // namespace detail

/// Joins strings and integers.
template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::string text;
  (detail::Append(&text, parts), ...);
  return text;
}

template <typename... Parts>
[[noreturn]] __attribute__((cold)) void Throw(std::string_view kind, const Parts&... parts) {
  throw Error(kind, Concat(parts...));
}

/// Ends the process: for the functions of the ABI that cannot report an error.
[[noreturn]] void ExitWithMessage(std::string_view message) noexcept;

/// Puts the exception that is being handled into the thread's slot. Returns what the C function
/// returns.
int RaiseCurrentException() noexcept;

/// Runs the body of a C function: no exception leaves it.
template <typename Body>
int Guard(Body&& body) noexcept {
  try {
    body();
    return 0;
  } catch (...) {
    return RaiseCurrentException();
  }
}

/// \throws ForeignError if `code`, the result of a foreign function, is not 0.
inline void CheckForeign(int code) {
  if (code != 0) throw ForeignError{code};
}

/// Error object with an empty backtrace.
ObjectPtr<> MakeError(std::string_view kind, std::string_view message,
                      std::string_view backtrace = {});

/// Puts a new Error object into the thread's slot.
void SetRaised(std::string_view kind, std::string_view message) noexcept;

inline std::string_view View(const TVMFFIByteArray& bytes) {
  return bytes.size == 0 ? std::string_view() : std::string_view(bytes.data, bytes.size);
}

}  // namespace graphffi::runtime
