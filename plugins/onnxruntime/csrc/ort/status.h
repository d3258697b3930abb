// SPDX-License-Identifier: Apache-2.0
// Errors as they cross the boundary to ONNX Runtime: a status, with kind and text.
#pragma once

#include <exception>
#include <string>

#include "call/error.h"
#include "ort/ort_api.h"

namespace graphffi_onnxruntime {

/// \throws Error(RuntimeError) with the text of `opt_status`, which is released.
[[noreturn, gnu::cold]] void FailWith(const ort::Api* api, ort::Status* status);
inline void Check(const ort::Api* api, ort::Status* opt_status) {
  if (opt_status != nullptr) FailWith(api, opt_status);
}

/// Calls a function that gives a status. \throws Error(RuntimeError)
template <typename Slot, typename... Args>
inline void Call(const ort::Api* api, Args... args) {
  Check(api, Slot::Call(api, args...));
}

/// The error that is being handled as a status: *new reference*. `subject` begins its text.
ort::Status* StatusOfCaught(const ort::Api* api, const std::string& subject) noexcept;

/// Runs what must not throw. NULL, or the status of what it threw.
template <typename Run>
ort::Status* Guard(const ort::Api* api, const std::string& subject, Run&& run) noexcept {
  try {
    run();
    return nullptr;
  } catch (...) {
    return StatusOfCaught(api, subject);
  }
}

}  // namespace graphffi_onnxruntime
