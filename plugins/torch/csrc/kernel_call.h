// SPDX-License-Identifier: Apache-2.0
// The one routine that every operator of the plugin ends in.
#pragma once

#include <string>

#include "banks.h"
#include "callframe/kernel_ref.h"
#include "callframe/layout.h"
#include "callframe/plan.h"
#include "env.h"

namespace graphffi_torch {

/// One call of a kernel on real tensors. Everything is borrowed until Run has returned.
struct KernelCall {
  const graphffi::KernelSlot& kernel;
  const std::string& subject;  ///< begins the text of errors
  const graphffi::Plan& plan;
  const graphffi::Layout& layout;  ///< of the plan's values
  TVMFFIAny* room;                 ///< for the layout, where the values are
  graphffi::Loans& loans;          ///< that the tensors are of; the call settles them
  TensorBank& inputs;
  TensorBank& outputs;
  graphffi::Bank attributes;
  size_t num_fresh = 0;   ///< outputs, the first, that were just allocated and share no memory
  TVMFFIAny workspace{};  ///< bytes, or None: as CallValues has it

  /// Checks that no output shares memory, enters the env of the tensors' devices, calls.
  /// \throws graphffi::Error, also for what the kernel raised.
  void Run() const;

 private:
  void RunOn(c10::Device device) const;
  void Invoke(DLDevice device, void* stream) const;
};

}  // namespace graphffi_torch
