// SPDX-License-Identifier: Apache-2.0
// Calls at which somebody looks: see watch.h.
#pragma once

#include <tvm/ffi/c_api.h>

#include <optional>

#include "call/call_frame.h"
#include "observe/debug_call.h"
#include "observe/watch.h"

namespace graphffi {

/// One call that is recorded, by the thread that makes it.
class WatchedCall {
 public:
  /// All are borrowed.
  WatchedCall(const Kernel& kernel, const DeclaredTensors& declared, const TVMFFIAny* args,
              int32_t num_args) {
    if (watch->has(Watch::kRecord)) {
      opt_token_ = watch->begin_record(
          {declared.subject, declared.kernel, kernel.safe_call, args, num_args,
           declared.opt_names != nullptr ? &declared.outputs : nullptr, declared.num_fresh});
    }
    is_range_ = watch->has(Watch::kRanges);
    if (!is_range_) return;
    watch->begin_range(*declared.subject != '\0' ? declared.subject : declared.kernel);
  }
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

  /// After the kernel, before what is lent is settled.
  void Finish(int rc, const TVMFFIAny& returned) {
    if (is_range_) watch->end_range();
    if (opt_token_ != nullptr) watch->end_record(opt_token_, rc, returned);
  }

 private:
  void* opt_token_ = nullptr;
  bool is_range_;
};

/// frame->Invoke, with those who look at it.
template <typename Frame>
int InvokeWatched(const Kernel& kernel, const DeclaredTensors& declared, Frame* frame,
                  TVMFFIAny* returned) {
  std::optional<DebugChecks> checks;
  if (IsDebugging() && declared.opt_names != nullptr) checks.emplace(*frame, declared);
  WatchedCall call(kernel, declared, frame->args(), frame->num_args());
  const int rc = frame->Invoke(kernel, returned);
  call.Finish(rc, *returned);
  return checks.has_value() ? checks->Finish(rc, *returned) : rc;
}

/// For a call without a frame; without the checks of GRAPHFFI_DEBUG=1.
inline int CallWatched(const Kernel& kernel, const DeclaredTensors& declared, const TVMFFIAny* args,
                       int32_t num_args, TVMFFIAny* returned) {
  WatchedCall call(kernel, declared, args, num_args);
  const int rc = kernel.safe_call(kernel.handle, args, num_args, returned);
  call.Finish(rc, *returned);
  return rc;
}

}  // namespace graphffi
