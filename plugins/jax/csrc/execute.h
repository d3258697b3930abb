// SPDX-License-Identifier: Apache-2.0
// The execution of a call site.
#pragma once

#include <dlpack/dlpack.h>

#include "site.h"
#include "xla_ffi.h"

namespace graphffi_jax {

/// The device, and the use, that a handler is registered for.
struct Target {
  DLDeviceType device_type;
  bool graph;  ///< may be recorded into a command buffer
};

/// Calls the kernel of the call's site with XLA's buffers. NULL, or an error for XLA.
xla::Status* ExecuteCall(const xla::Call& call, Target target) noexcept;

}  // namespace graphffi_jax
