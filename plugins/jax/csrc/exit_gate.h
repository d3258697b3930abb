// SPDX-License-Identifier: Apache-2.0
// Calls that may enter Python: which one a thread is in; and none is under way, nor begins, when
// the interpreter goes.
#pragma once

#include <dlpack/dlpack.h>

namespace graphffi_jax {

/// A call that may enter Python, for a scope.
class GatedCall {
 public:
  /// Does nothing unless `gated`.
  GatedCall(bool gated, DLDeviceType device_type)
      : gated_(gated), admitted_(!gated || Enter(device_type)) {}
  ~GatedCall() {
    if (gated_) Leave();
  }
  GatedCall(const GatedCall&) = delete;
  GatedCall& operator=(const GatedCall&) = delete;

  /// False once the gate is closed: the call must not be made.
  bool admitted() const { return admitted_; }

  /// True if the innermost one of this thread is of a program on the CPU.
  static bool is_current_on_cpu();

 private:
  bool Enter(DLDeviceType device_type);
  void Leave();

  bool gated_, admitted_;
  bool is_outer_on_cpu_ = false;
};

/// From now on no call is admitted. Waits until those in flight are over, `timeout_ms` at most;
/// true if they are.
bool CloseExitGate(int timeout_ms);

}  // namespace graphffi_jax
