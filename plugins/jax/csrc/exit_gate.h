// SPDX-License-Identifier: Apache-2.0
// Lets the process end in order: calls that may enter Python are over, and none begins, before the
// interpreter goes.
#pragma once

namespace graphffi {

/// A call that may enter Python, for a scope.
class GatedCall {
 public:
  /// Does nothing unless `gated`.
  explicit GatedCall(bool gated) : gated_(gated), admitted_(!gated || Enter()) {}
  ~GatedCall() {
    if (gated_) Leave();
  }
  GatedCall(const GatedCall&) = delete;
  GatedCall& operator=(const GatedCall&) = delete;

  /// False once the gate is closed: the call must not be made.
  bool admitted() const { return admitted_; }

 private:
  static bool Enter();
  static void Leave();

  bool gated_, admitted_;
};

/// From now on no call is admitted. Waits until those in flight are over, `timeout_ms` at most;
/// true if they are.
bool CloseExitGate(int timeout_ms);

/// Admits calls again.
void OpenExitGate();

}  // namespace graphffi
