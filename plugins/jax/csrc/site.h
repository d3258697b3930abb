// SPDX-License-Identifier: Apache-2.0
// Call sites: what a program's custom calls become when XLA instantiates them.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "attributes.h"
#include "callframe/call_frame.h"
#include "callframe/kernel_ref.h"
#include "callframe/plan.h"

namespace graphffi {

/// A resolved kernel, its parsed plan and its converted attributes: immutable, shared by all call
/// sites that say the same, counted by them.
class Site {
 public:
  /// *New reference*. \throws Error(KeyError, RuntimeError, ValueError): no such kernel, library,
  /// name in the plan.
  static Site* Get(CallAttributes attributes);
  void Release();

  const Kernel& kernel() const { return kernel_; }
  const Plan& plan() const { return plan_; }
  Bank attributes() const {
    return {values_.data(), nullptr, static_cast<int32_t>(values_.size())};
  }
  int64_t mutated() const { return mutated_; }
  /// The plan passes one of `count` results, so that the kernel fills them.
  bool PassesResults(int32_t count) const { return first_output_ < count; }
  /// Tensors are lent as owning Tensor objects instead of being passed as views.
  bool lends() const { return lends_; }
  /// The kernel may enter Python, so that calls must be over before the interpreter ends.
  bool gated() const { return gated_; }
  const std::string& subject() const { return subject_; }

  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

 private:
  Site(CallAttributes attributes, TVMFFIObjectHandle function, const KernelFacts& facts,
       std::string key);
  ~Site();

  // What a call reads comes first.
  Kernel kernel_;
  int64_t mutated_;
  bool lends_, gated_;
  Plan plan_;
  int32_t first_output_;
  std::vector<TVMFFIAny> values_;  // owned
  std::string subject_;
  TVMFFIObjectHandle function_;
  const std::string key_;
  int64_t references_ = 1;  // under the mutex of the table of sites
};

}  // namespace graphffi
