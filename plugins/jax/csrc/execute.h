// SPDX-License-Identifier: Apache-2.0
// What happens at each execution of a call site.
#pragma once

#include <dlpack/dlpack.h>

#include "site.h"
#include "xla_ffi.h"

namespace graphffi {

/// What a handler is registered for.
struct Target {
  DLDeviceType device_type;
  bool graph;  ///< may be recorded into a command buffer
};

/// Calls the site's kernel with XLA's buffers. \throws Error
void ExecuteSite(const xla::CallFrame& call, const Site& site, Target target);

}  // namespace graphffi
