// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <string>

namespace graphffi_torch {
namespace {

std::atomic<ErrorThrower> opt_error_thrower{nullptr};

}  // namespace

void SetErrorThrower(ErrorThrower opt_thrower) { opt_error_thrower.store(opt_thrower); }

void ThrowTorchError(const graphffi::Error& error) {
  if (ErrorThrower thrower = opt_error_thrower.load()) thrower(error);
  const std::string& kind = error.kind();
  if (kind == "ValueError") C10_THROW_ERROR(ValueError, error.message());
  if (kind == "TypeError") C10_THROW_ERROR(TypeError, error.message());
  if (kind == "IndexError") C10_THROW_ERROR(IndexError, error.message());
  if (kind == "NotImplementedError") C10_THROW_ERROR(NotImplementedError, error.message());
  if (kind == "RuntimeError") C10_THROW_ERROR(Error, error.message());
  C10_THROW_ERROR(Error, kind + ": " + error.message());
}

}  // namespace graphffi_torch
