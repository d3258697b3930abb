// SPDX-License-Identifier: Apache-2.0
// Calls whose results a framework has allocated, of kernels that fill them or return tensors.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>

#include "call/call_frame.h"
#include "call/error.h"
#include "observe/debug_call.h"
#include "observe/watched_call.h"

namespace graphffi {

/// Copies `from` into `to`, which have one dtype, shape and device and are both compact.
/// \throws Error
using CopyTensor = void (*)(void* context, const DLTensor& from, const DLTensor& to);

/// Between tensors on the CPU. \throws Error(NotImplementedError) for other devices.
void CopyOnCpu(void* context, const DLTensor& from, const DLTensor& to);

/// The results that a call has to fill.
struct Results {
  DeclaredTensors tensors;  ///< the results come first in its outputs
  int32_t count;            ///< how many of them are results; operands that are updated follow
  bool is_passed = true;    ///< the plan passes results: the kernel fills them
  CopyTensor copy = &CopyOnCpu;
  void* copy_context = nullptr;
  bool returns_none = false;  ///< the kernel may not return anything
};

/// The end of CallForResults, for a call with more to do after the kernel.
void FinishCall(int rc, const Results& results, TVMFFIAny* returned, PlacedFrame* frame);

/// FinishCall after a call without a frame.
void FinishCall(int rc, const Results& results, TVMFFIAny* returned);

/// Calls once. Where the plan does not pass the results, what the kernel returns is copied into
/// them: one tensor, or an array of `count`. `results()` gives the Results, where they are asked
/// for: `is_filled` says that they are passed or that there are none. \throws Error of the kernel,
/// or (TypeError, ValueError) where it returned something else, or tensors although it was given
/// the results.
template <typename GetResults, typename Frame>
inline void CallForResults(const Kernel& kernel, bool is_filled, GetResults&& results,
                           Frame* frame) {
  TVMFFIAny returned;
  const int rc = IsWatched() ? InvokeWatched(kernel, results().tensors, frame, &returned)
                             : frame->Invoke(kernel, &returned);
  if (rc != 0 || !is_filled || returned.type_index != kTVMFFINone) {
    return FinishCall(rc, results(), &returned, frame);
  }
  if (frame->Settle(rc, &returned) != 0) throw Error::TakeRaised(-1);
}

/// CallForResults with arguments that stay the caller's, none of them lent; without the checks of
/// GRAPHFFI_DEBUG=1.
template <typename GetResults>
inline void CallForResults(const Kernel& kernel, const TVMFFIAny* args, int32_t num_args,
                           bool is_filled, GetResults&& results) {
  TVMFFIAny returned{};
  const int rc = IsWatched() ? CallWatched(kernel, results().tensors, args, num_args, &returned)
                             : kernel.safe_call(kernel.handle, args, num_args, &returned);
  if (rc != 0 || !is_filled || returned.type_index != kTVMFFINone) {
    FinishCall(rc, results(), &returned);
  }
}

}  // namespace graphffi
