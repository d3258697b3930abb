// SPDX-License-Identifier: Apache-2.0
#include "stack_guard.h"

#include <pthread.h>

namespace graphffi::runtime {
namespace {

struct StackRange {
  uintptr_t low = 0;
  uintptr_t high = 0;

  static StackRange OfThread() {
    StackRange range;
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return range;
    void* address = nullptr;
    size_t size = 0;
    if (pthread_attr_getstack(&attributes, &address, &size) == 0) {
      range.low = reinterpret_cast<uintptr_t>(address);
      range.high = range.low + size;
    }
    pthread_attr_destroy(&attributes);
    return range;
  }
};

}  // namespace

bool IsStackLow() {
  constexpr uintptr_t kReserve = 256 << 10;  // For what callbacks and destructors need.
  thread_local const StackRange range = StackRange::OfThread();
  auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return here < range.low + kReserve || here >= range.high;
}

}  // namespace graphffi::runtime
