// SPDX-License-Identifier: Apache-2.0
// Call sites: calls of tvm_ffi::call of which everything but the values is known, prepared once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "call/signature.h"
#include "errors.h"
#include "operators/kernel_call.h"
#include "shapes/conditions.h"

namespace graphffi_torch {

/// One call in a graph. Immutable; runs on any thread.
class CallSite {
 public:
  /// `digest` may carry names for errors, see CallNames. With `opt_attributes`, of calls that are
  /// given the open ones only; otherwise all. `opt_origin` is the folder of the artifact that holds
  /// the call.
  /// \throws graphffi::Error for a plan that does not parse, or a value that can't be converted.
  GRAPHFFI_TORCH_API CallSite(const std::string& func, const std::string& plan,
                              const graphffi::Counts& counts, const std::string& digest,
                              const graphffi::KnownAttributes* opt_attributes = nullptr,
                              std::string opt_origin = "");
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;

  /// Inputs and outputs.
  int32_t num_tensors() const { return signature().num_inputs() + signature().num_outputs(); }
  /// Those that are given at each call.
  int32_t num_attributes() const { return signature().num_attributes(); }

  /// Runs a call. `tensors`: inputs, then outputs, of which the first `num_fresh` were just
  /// allocated and share no memory; NULL or undefined for None. All are borrowed for the call.
  /// \throws graphffi::Error
  GRAPHFFI_TORCH_API void Run(const at::Tensor* const* tensors, const TVMFFIAny* attributes,
                              size_t num_fresh) const;
  /// Run for generated code: does what the dispatcher would do around it.
  GRAPHFFI_TORCH_API void RunGenerated(const at::Tensor* const* tensors,
                                       const TVMFFIAny* attributes, size_t num_fresh) const;

 private:
  const graphffi::Signature& signature() const { return target_.signature; }
  void RunResolved(const at::Tensor* const* tensors, const TVMFFIAny* attributes,
                   size_t num_fresh) const;
  void CheckConditions(KernelCall* call) const;

  CallTarget target_;
  std::optional<graphffi::Conditions> conditions_;
};

/// The names in a digest of the form `ns::op(x, w, xs[0] -> out) 0123456789abcdef`. In an exported
/// program, conditions on the inputs and the outputs follow, with tabs for ends of lines: see
/// shapes/conditions.h. `-> None` before the number: what the function returns would be lost, and
/// is an error.
struct CallNames : graphffi::TensorNames {
  std::string conditions;
  bool returns_none = false;

  /// Without such names, the subject is `func`.
  static CallNames Parse(const std::string& digest, const std::string& func);
  /// Drops the names of inputs, or of outputs, if a call has another number of them.
  void Keep(size_t num_inputs, size_t num_outputs);
  /// The subject alone.
  static std::string ParseSubject(const std::string& digest, const std::string& func);
};

}  // namespace graphffi_torch
