// SPDX-License-Identifier: Apache-2.0
// Custom-call targets with names of their own, whose attributes are the kernel's arguments.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "site.h"
#include "xla_ffi.h"

namespace graphffi_jax {

/// A target, with all that it was registered with. Never freed: XLA has no way to forget a target.
struct NamedTarget {
  std::string name;
  std::shared_ptr<const graphffi::KernelSlot> kernel;
  graphffi::KernelFacts facts;
  std::string plan;                     ///< over i0…, o0… and n0, n1, … for the attributes
  bool takes_nothing = false;           ///< there is no plan, the kernel gets no arguments
  std::vector<std::string> attributes;  ///< names in the program, in the order of n0, n1, …
  bool pass_owning_tensor = false;
  bool has_workspace = false;
  bool graph = false;

  /// The attributes' names in the plan.
  std::vector<std::string> AttributeNames() const;
  /// A call site from the attributes that the program gives. \throws Error(TypeError or
  /// ValueError) naming all that are missing, unknown or of no usable type.
  SiteParts Decode(const xla::Attributes& given) const;
};

}  // namespace graphffi_jax
