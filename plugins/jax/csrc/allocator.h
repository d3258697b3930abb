// SPDX-License-Identifier: Apache-2.0
// The tensor allocators that kernels get under XLA on GPUs.
#pragma once

#include <dlpack/dlpack.h>

#include "env/allocation.h"
#include "scratch_block.h"
#include "xla_ffi.h"

namespace graphffi_jax {

/// Memory of the ScratchScope that is open on this thread; valid until that closes.
int AllocateScratch(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                    graphffi::SetAllocationError set_error);

/// Refuses: memory can't be had while XLA records a command buffer.
int RefuseUnderCapture(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                       graphffi::SetAllocationError set_error);

/// The scratch memory of one call on a device: what AllocateScratch hands out on this thread while
/// it is open.
class ScratchScope {
 public:
  explicit ScratchScope(const xla::Call& call);
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

  /// Gives the memory back to XLA. Returns how many tensors the kernel still holds, which are
  /// dangling now.
  int Close();

 private:
  friend int AllocateScratch(DLTensor*, DLManagedTensorVersioned**, void*,
                             graphffi::SetAllocationError);
  ScratchBlock* Allocate(const DLTensor& prototype);

  const xla::Call& call_;
  ScratchScope* outer_;
  ScratchBlock* blocks_ = nullptr;
};

}  // namespace graphffi_jax
