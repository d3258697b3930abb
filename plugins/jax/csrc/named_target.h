// SPDX-License-Identifier: Apache-2.0
// Custom-call targets with names of their own, whose attributes are the kernel's arguments.
#pragma once

#include <string>
#include <vector>

#include "site.h"
#include "xla_ffi.h"

namespace graphffi_jax {

/// A target, with all that it was registered with. Never freed: XLA has no way to forget a target.
struct NamedTarget {
  SiteParts parts;                      ///< all but the attributes
  std::vector<std::string> attributes;  ///< names in the program, in the order of n0, n1, …
  bool graph = false;

  /// A call site from the attributes that the program gives. \throws Error(TypeError or
  /// ValueError) naming all that are missing, unknown or of no usable type.
  SiteParts Decode(const xla::Attributes& given) const;
};

}  // namespace graphffi_jax
