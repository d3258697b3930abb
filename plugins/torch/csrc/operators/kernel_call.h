// SPDX-License-Identifier: Apache-2.0
// The one routine that every operator of the plugin ends in.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "banks.h"
#include "call/signature.h"
#include "call/value_list.h"
#include "errors.h"
#include "kernels/kernel_slot.h"

namespace graphffi_torch {

/// Shared by all calls of one kernel by one plan. Immutable; used on any thread.
struct CallTarget {
  graphffi::KernelSlot kernel;
  graphffi::Signature signature;
  bool returns_none = false;  // all else that the kernel returns is an error
};

/// \throws graphffi::Error(ValueError) for an output of which elements share memory.
[[noreturn]] void FailOverlap(const std::string& subject, const std::string& output);
/// \throws graphffi::Error(ValueError) that says which operand an output shares memory with.
[[noreturn]] void FailSharedMemory(const std::string& subject, const std::string& output,
                                   const std::string& with);

/// One call of a kernel on real tensors: first its values are added, then it runs once. They are
/// borrowed until then. Lives on the stack.
class GRAPHFFI_TORCH_API KernelCall {
 public:
  /// `target` is borrowed.
  explicit KernelCall(const CallTarget& target)
      : target_(&target),
        inputs_(&loans_, target.signature, graphffi::Plan::Op::kInput, room_,
                target.signature.layout().inputs, &spill_),
        outputs_(&loans_, target.signature, graphffi::Plan::Op::kOutput, room_,
                 target.signature.layout().outputs, &spill_),
        attributes_(room_, target.signature.layout().attributes, &spill_) {}
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

  /// Has the call run the kernel of another target, whose layout has the same ranges. Borrowed.
  void SetTarget(const CallTarget& target) { target_ = &target; }

  TensorBank& inputs() { return inputs_; }
  TensorBank& outputs() { return outputs_; }
  AttributeBank& attributes() { return attributes_; }

  /// Checks that no output shares memory, enters the env of the tensors' devices, calls.
  /// `num_fresh` outputs, the first, were just allocated and share none. `workspace` is bytes, or
  /// None: as CallValues has it.
  /// \throws graphffi::Error, also for what the kernel raised.
  void Run(size_t num_fresh, const TVMFFIAny& workspace = {});

 private:
  void RunOn(c10::Device device, const TVMFFIAny& workspace);
  void Invoke(DLDevice device, void* stream, const TVMFFIAny& workspace);
  template <typename Frame>
  void InvokeIn(Frame* frame);
  void InvokeApart(DLDevice device, void* stream, const TVMFFIAny& workspace);
  void CheckOutputMemory(size_t num_fresh) const;
  void RunRowMajor(const TVMFFIAny& workspace);
  void RunAnywhere(const TVMFFIAny& workspace);

  const CallTarget* target_;
  graphffi::Spill spill_;
  graphffi::Loans loans_{kTensorLending};
  TensorBank inputs_, outputs_;
  AttributeBank attributes_;
  size_t num_fresh_ = 0;
  TVMFFIAny room_[graphffi::Layout::kRoom];  // where the values are
};

/// Whether elements of tensors share memory: graphffi::ShareMemory in their storage.
GRAPHFFI_TORCH_API bool Overlap(const at::Tensor& a, const at::Tensor& b);

/// graphffi::OverlapsItself; tensors without data may be asked, too.
bool OverlapsItself(const at::Tensor& tensor);

}  // namespace graphffi_torch
