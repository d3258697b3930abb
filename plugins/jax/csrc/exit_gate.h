// SPDX-License-Identifier: Apache-2.0
// Calls that may enter Python: which one a thread is in; and none is under way, nor begins, when
// the interpreter goes.
#pragma once

#include <dlpack/dlpack.h>

#include "xla_ffi.h"

namespace graphffi_jax {

/// A call that may enter Python, for a scope.
class GatedCall {
 public:
  /// Does nothing unless `gated`. `call` is borrowed.
  GatedCall(bool gated, const xla::Call& call, DLDeviceType device_type)
      : gated_(gated), admitted_(!gated || Enter(call, device_type)) {}
  ~GatedCall() {
    if (gated_) Leave();
  }
  GatedCall(const GatedCall&) = delete;
  GatedCall& operator=(const GatedCall&) = delete;

  /// False once the gate is closed: the call must not be made.
  bool admitted() const { return admitted_; }

  /// The innermost one of this thread, if it is on the CPU; else NULL.
  static const xla::Call* opt_current_on_cpu();

 private:
  bool Enter(const xla::Call& call, DLDeviceType device_type);
  void Leave();

  bool gated_, admitted_;
  const xla::Call* opt_outer_ = nullptr;
};

/// From now on no call is admitted. Waits until those in flight are over, `timeout_ms` at most;
/// true if they are.
bool CloseExitGate(int timeout_ms);

/// Admits calls again.
void OpenExitGate();

}  // namespace graphffi_jax
