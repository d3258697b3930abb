// SPDX-License-Identifier: Apache-2.0
#include "exit_gate.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace graphffi_jax {
namespace {

std::atomic<int64_t> in_flight{0};
std::atomic<bool> closed{false};
thread_local bool is_on_cpu = false;

/// A child of fork has no calls of other threads. If the one that forks is in a call, the count is
/// -1 at its end.
[[maybe_unused]] const int watches_forks =
    pthread_atfork(nullptr, nullptr, [] { in_flight.store(0); });

}  // namespace

// Sequentially consistent: either the call sees the gate closed, or the one who closes sees the
// call.
bool GatedCall::Enter(DLDeviceType device_type) {
  in_flight.fetch_add(1);
  is_outer_on_cpu_ = is_on_cpu;
  is_on_cpu = device_type == kDLCPU;
  return !closed.load();
}

void GatedCall::Leave() {
  is_on_cpu = is_outer_on_cpu_;
  in_flight.fetch_sub(1);
}

bool GatedCall::is_current_on_cpu() { return is_on_cpu; }

bool CloseExitGate(int timeout_ms) {
  closed.store(true);
  auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (in_flight.load() > 0) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace graphffi_jax
