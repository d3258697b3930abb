// SPDX-License-Identifier: Apache-2.0
// Calls from graphs: of one signature and exactly as many tensors each time, whose values stand
// where their layout has them.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <initializer_list>

#include "call/call_frame.h"
#include "call/layout.h"
#include "call/returned.h"
#include "call/signature.h"

namespace graphffi {

/// Where a kernel works, and what plans may pass of it.
struct CallPlace {
  DLDevice device{kDLCPU, 0};
  void* stream = nullptr;
  TVMFFIAny workspace{};  ///< as of CallValues
};

/// Of a call with these tensors: the device of the first one that is not on the CPU, and the stream
/// that this thread's env has for it.
CallPlace PlaceOf(std::initializer_list<Bank> banks);

/// What such calls share. Made once; immutable.
struct PlacedCall {
  /// `lends`: tensors are passed as owning Tensor objects instead of views. The last outputs are
  /// operands that are updated; `num_returned` are results. `may_return_nothing`: a kernel that is
  /// not given the results need not return them.
  static PlacedCall Of(const Signature& signature, int32_t num_inputs, int32_t num_outputs,
                       int32_t num_returned, bool lends, bool may_return_nothing = false);

  Layout layout;
  int32_t num_inputs;    ///< that the plan picks from
  int32_t num_outputs;   ///< the same
  int32_t num_values;    ///< these, attributes and constants
  int32_t num_returned;  ///< of the outputs: results, not operands that are updated
  int32_t num_fresh;     ///< as of DeclaredTensors: num_returned, unless the caller changes it
  bool lends;
  bool is_passed;    ///< there are no results, or the plan passes one: the kernel fills them
  bool is_filled;    ///< the kernel may return nothing: that, or `may_return_nothing`
  bool needs_frame;  ///< tensors are lent, or the arguments are not just the values in order

  /// Calls the kernel. `values` has room for num_values; tensors and attributes are in the layout's
  /// places. Tensors that are lent are views in memory that ends with the call. `place` matters for
  /// calls that need a frame. `reference` is the kernel's, for errors.
  /// \throws Error as CallForResults does
  void Call(const Signature& signature, const Kernel& kernel, const char* reference,
            const CallPlace& place, TVMFFIAny* values) const {
    if (needs_frame) return CallInFrame(signature, kernel, reference, place, values);
    layout.PutConstants(values);
    CallForResults(kernel, values, layout.num_args, is_filled,
                   [&] { return ResultsOf(signature, reference, values); });
  }

 private:
  Results ResultsOf(const Signature& signature, const char* reference,
                    const TVMFFIAny* values) const;
  void CallInFrame(const Signature& signature, const Kernel& kernel, const char* reference,
                   const CallPlace& place, TVMFFIAny* values) const;
};

}  // namespace graphffi
