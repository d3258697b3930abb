// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_slot.h"

#include <utility>

#include "call/global_function.h"
#include "call/registry_watch.h"
#include "kernels/kernel_ref.h"

namespace graphffi {
namespace {

/// The epoch of functions that are never looked up again.
constexpr std::atomic<uint64_t> kConstantEpoch{0};

}  // namespace

KernelSlot::KernelSlot(std::string reference, std::string opt_origin)
    : reference_(std::move(reference)),
      opt_origin_(std::move(opt_origin)),
      epoch_(&kConstantEpoch) {}

KernelSlot::KernelSlot(TVMFFIObjectHandle function) : epoch_(&kConstantEpoch) {
  Released none;
  current_ = Bind(ObjectRef(function), Kernel::FromFunction(function), &none);
  resolved_ = kConstantEpoch.load();
}

void KernelSlot::Resolve() const {
  const bool is_global = !IsLibraryReference(reference_);
  const std::atomic<uint64_t>* epoch = is_global ? RegistryWatch::Get().epoch : &kConstantEpoch;
  const uint64_t now = epoch->load();  // before the look-up, which may see later changes as well
  ResolvedKernel found;
  Released released;  // after the mutex is: functions may be Python's, whose end takes the GIL
  // Before the mutex is taken: this may wait for the GIL.
  ObjectRef opt_function;
  const bool is_bound = resolved_.load(std::memory_order_acquire) != kNever;
  if (is_bound && IsOwnName(reference_)) {
    opt_function = FindGlobal(reference_);
    if (opt_function) found.kernel = Kernel::FromFunction(opt_function.get());
  } else {
    opt_function = ResolveKernel(reference_, opt_origin_, &found);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t resolved = resolved_.load(std::memory_order_relaxed);
  if (resolved != kNever && resolved >= now) return;
  if (!opt_function) return resolved_.store(now, std::memory_order_release);  // the name is gone
  epoch_.store(epoch, std::memory_order_relaxed);
  current_.store(Bind(std::move(opt_function), found.kernel, &released));
  resolved_.store(now, std::memory_order_release);
  ReleaseUnused(&released);
}

KernelSlot::Binding* KernelSlot::Bind(ObjectRef function, const Kernel& kernel,
                                      Released* released) const {
  for (const auto& binding : bindings_) {
    if (binding->opt_function.get() != function.get()) continue;
    released->push_back(std::move(function));
    return binding.get();
  }
  Binding* binding = UnusedBinding();
  binding->kernel = kernel;
  binding->opt_function = std::move(function);
  return binding;
}

KernelSlot::Binding* KernelSlot::UnusedBinding() const {
  for (const auto& binding : bindings_) {
    if (!binding->opt_function) return binding.get();
  }
  bindings_.push_back(std::make_unique<Binding>(/*counted=*/!bindings_.empty()));
  return bindings_.back().get();
}

/// Calls that begin from now on see that these are no longer current: see Enter.
void KernelSlot::ReleaseUnused(Released* released) const {
  const Binding* current = current_.load();
  for (const auto& binding : bindings_) {
    if (!binding->is_counted || binding.get() == current || binding->num_calls.load() != 0)
      continue;
    if (binding->opt_function)
      released->push_back(std::exchange(binding->opt_function, ObjectRef()));
  }
}

KernelSlot::Binding* KernelSlot::Enter() const {
  for (;;) {
    Binding* binding = current_.load();
    binding->num_calls.fetch_add(1);
    // Otherwise it may have been released before the call was counted.
    if (current_.load() == binding) return binding;
    binding->num_calls.fetch_sub(1);
  }
}

}  // namespace graphffi
