// SPDX-License-Identifier: Apache-2.0
// For generated code that loads kernels as it launches them.
#pragma once

#include <mutex>

namespace graphffi_standalone {

/// Sets a kernel to what `load()` gives at its first launch, which several threads may begin.
template <typename Kernel, typename Load>
void LoadOnce(Kernel* kernel, Load&& load) {
  if (__atomic_load_n(kernel, __ATOMIC_ACQUIRE) != nullptr) return;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (*kernel == nullptr) __atomic_store_n(kernel, load(), __ATOMIC_RELEASE);
}

}  // namespace graphffi_standalone
