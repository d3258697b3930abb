// SPDX-License-Identifier: Apache-2.0
// The last errors of kernels, kept as objects, because XLA carries text only.
#pragma once

#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <optional>
#include <string>

#include "call/error.h"
#include "xla_ffi.h"

namespace graphffi_jax {

/// How many errors are kept.
constexpr int kKeptErrors = 64;

/// XLA's error for `error`: "Kind: subject: message"; `subject` may be empty, or begin the message
/// already. The error object is kept until kKeptErrors newer ones came.
xla::Status* Report(const xla::Api* api, const graphffi::Error& error, const std::string& subject);

/// Reports the exception that is being handled; one that is no Error is a bug. Called in `catch`.
xla::Status* ReportCaught(const xla::Api* api, const std::string& subject) noexcept;

/// An error of kind InternalError with the text `what`.
graphffi::Error InternalError(const std::string& what);

/// The same error as the headers know it; the very object, if one was raised.
tvm::ffi::Error ToTvmFfi(const graphffi::Error& error);

/// From now on, ClearFrames calls `clear` with errors of which `keeps_exception`, which needs no
/// GIL, says that Python raised them.
void ClearFramesBy(tvm::ffi::Function keeps_exception, tvm::ffi::Function clear);

/// Drops the local variables of Python's frames that `error` keeps. Does nothing for other errors.
void ClearFrames(const graphffi::Error& error) noexcept;

/// Keeps an error, which others know by `text`.
void KeepInRing(const graphffi::Error& error, const std::string& text);

/// The newest kept error with the longest text that is part of `report`; nothing if there is none.
/// Kind and message stay: XLA may report it again. A Python exception does not, because its
/// traceback will refer to the frames of those who catch it, and so to their variables.
std::optional<tvm::ffi::Error> TakeFromRing(const std::string& report);

}  // namespace graphffi_jax
