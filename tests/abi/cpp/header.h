// SPDX-License-Identifier: Apache-2.0
// Parts that the tests of the kernel-author headers share.
#pragma once

#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/tvm_ffi.h>

#include <sstream>

#include "check.h"

using namespace tvm::ffi;  // as kernels do

/// "Kind: message" of the Error that run throws.
inline std::string Message(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.kind() + ": " + error.message();
  }
  return "no error";
}
