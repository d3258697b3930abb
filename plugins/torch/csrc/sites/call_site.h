// SPDX-License-Identifier: Apache-2.0
// Call sites: calls of tvm_ffi::call of which everything but the values is known, prepared once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "call/value.h"
#include "errors.h"
#include "operators/kernel_call.h"
#include "shapes/conditions.h"

namespace graphffi_torch {

/// How many values of each kind a call has.
struct CallCounts {
  int32_t inputs = 0, outputs = 0, ints = 0, floats = 0, strs = 0;
  int32_t fresh = 0;  ///< outputs, the first, that were just allocated and share no memory
};

/// One call in a graph. Immutable once it is bound; runs on any thread.
class CallSite {
 public:
  /// `digest` may carry names for errors, see CallNames. `opt_origin` is the folder of the artifact
  /// that holds the call.
  /// \throws graphffi::Error for a plan that does not parse.
  CallSite(const std::string& func, const std::string& plan, const CallCounts& counts,
           const std::string& digest, std::string opt_origin = "");

  const CallCounts& counts() const { return counts_; }
  const std::string& subject() const { return target_.subject; }
  /// The target for a KernelCall, whose attributes are ints, floats and strings, in this order.
  const CallTarget& target() const { return target_; }

  /// Makes it a site of calls whose attributes have these values, but for those in `open`.
  /// \throws graphffi::Error for a value that can't be converted.
  void Bind(const std::vector<tvm::ffi::Any>& attributes, const std::vector<int32_t>& open);

  /// Runs a call of the target, to which everything has been added.
  /// \throws graphffi::Error
  GRAPHFFI_TORCH_API void Run(KernelCall* call) const;

 private:
  void CheckConditions(KernelCall* call) const;

  CallCounts counts_;
  CallTarget target_;
  std::optional<graphffi::Conditions> conditions_;
};

/// The arguments of a call of tvm_ffi::call in a graph, without the tensors themselves.
struct SiteArguments {
  std::string func;
  int32_t num_inputs = 0, num_outputs = 0;
  std::string plan;
  std::vector<std::optional<int64_t>> ints;  ///< nullopt: given at each call
  std::vector<double> floats;
  std::vector<std::string> strs;
  std::string digest;

  CallCounts Counts(int32_t num_fresh) const;
};

/// A call of a compiled graph: also the attributes are known, but for some ints.
class BoundSite {
 public:
  /// `num_fresh` as in CallCounts, `opt_origin` as for CallSite. \throws graphffi::Error likewise.
  GRAPHFFI_TORCH_API BoundSite(const SiteArguments& arguments, int32_t num_fresh,
                               std::string opt_origin = "");
  BoundSite(const BoundSite&) = delete;
  BoundSite& operator=(const BoundSite&) = delete;

  /// Inputs and outputs.
  int32_t num_tensors() const { return site_.counts().inputs + site_.counts().outputs; }
  /// Ints that are given at each call.
  int32_t num_ints() const { return num_ints_; }

  /// `tensors`: inputs, then outputs; undefined for None. Borrowed for the call.
  /// \throws graphffi::Error
  GRAPHFFI_TORCH_API void Run(const at::Tensor* const* tensors, const int64_t* ints) const;

 private:
  void RunUnprofiled(const at::Tensor* const* tensors, const int64_t* ints) const;
  void RunResolved(const at::Tensor* const* tensors, const int64_t* ints) const;
  void RunPlain(const at::Tensor* const* tensors, const int64_t* ints) const;

  CallSite site_;
  int32_t num_ints_ = 0;
};

/// The names in a digest of the form `ns::op(x, w, xs[0] -> out) 0123456789abcdef`. In an exported
/// program, a line with conditions on the inputs and the outputs follows: see shapes/conditions.h.
struct CallNames {
  std::string subject;
  std::vector<std::string> inputs, outputs;
  std::string conditions;

  /// Without such names, the subject is `func`.
  static CallNames Parse(const std::string& digest, const std::string& func);
  /// The subject alone.
  static std::string ParseSubject(const std::string& digest, const std::string& func);
};

}  // namespace graphffi_torch
