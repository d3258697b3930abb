// SPDX-License-Identifier: Apache-2.0
// What torch keeps for each thread and direct calls ask for. Torch's own functions look it up at
// each call, in several steps of the loader's.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <vector>

namespace graphffi_torch {

#ifdef GRAPHFFI_TORCH_HAS_MODE_STACK
/// The function modes themselves, which are private: C++ lets explicit instantiations name them.
using FunctionModeStack = std::vector<std::shared_ptr<c10::SafePyObject>>;
const FunctionModeStack& StackOf(const at::impl::PythonTorchFunctionTLS& modes);
template <FunctionModeStack at::impl::PythonTorchFunctionTLS::* member>
struct StackMember {
  friend const FunctionModeStack& StackOf(const at::impl::PythonTorchFunctionTLS& modes) {
    return modes.*member;
  }
};
template struct StackMember<&at::impl::PythonTorchFunctionTLS::stack_>;
#endif

/// Where the state of a thread is, which is found once.
class ThreadState {
 public:
  static C10_ALWAYS_INLINE const ThreadState& OfThread() {
    return C10_LIKELY(of_thread_.opt_keys_ != nullptr) ? of_thread_ : Find();
  }

  c10::impl::LocalDispatchKeySet keys() const { return *opt_keys_; }

  bool has_function_mode() const {
#ifdef GRAPHFFI_TORCH_HAS_MODE_STACK
    if (StackOf(*function_modes_).empty()) return false;
#endif
    return at::impl::torch_function_mode_enabled();
  }

 private:
  static C10_NOINLINE const ThreadState& Find() {
    of_thread_.opt_keys_ = &c10::impl::raw_local_dispatch_key_set;
    of_thread_.function_modes_ = &at::impl::PythonTorchFunctionTLS::get_state();
    return of_thread_;
  }

  const c10::impl::PODLocalDispatchKeySet* opt_keys_;
  const at::impl::PythonTorchFunctionTLS* function_modes_;
  static thread_local ThreadState of_thread_;
};

inline thread_local ThreadState ThreadState::of_thread_{};

}  // namespace graphffi_torch
