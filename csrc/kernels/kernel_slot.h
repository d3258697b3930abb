// SPDX-License-Identifier: Apache-2.0
// A kernel reference that is called often.
#pragma once

#include <tvm/ffi/c_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "call/call_frame.h"
#include "call/object_ref.h"

namespace graphffi {

/// Resolves its reference at the first call; that of a global function again at the first call
/// after functions were replaced or removed. Thread-safe.
///
/// A Python callable whose name is given up stays that of the slots that have called it.
///
/// A function that was replaced is released once no call of it is under way. The first one of a
/// slot lives as long as the slot instead, because most are never replaced: its calls are not
/// counted, which would take two locked instructions, a sixth of a call in a package.
class KernelSlot {
 public:
  explicit KernelSlot(std::string reference, std::string opt_origin = "");
  /// A slot of one function for good, whose reference it takes over.
  explicit KernelSlot(TVMFFIObjectHandle function);
  KernelSlot(const KernelSlot&) = delete;
  KernelSlot& operator=(const KernelSlot&) = delete;

  const std::string& reference() const { return reference_; }

 private:
  /// A function that the reference named, and maybe still does. Memory of the slot, which another
  /// function gets once it is empty.
  struct Binding {
    explicit Binding(bool counted) : is_counted(counted) {}
    const bool is_counted;
    Kernel kernel{};
    ObjectRef opt_function;             // under the mutex
    std::atomic<int64_t> num_calls{0};  // under way, if they are counted
  };

 public:
  /// The kernel for the duration of one call.
  class Use {
   public:
    /// \throws Error as ResolveKernel does.
    explicit Use(const KernelSlot& slot) {
      const uint64_t resolved = slot.resolved_.load(std::memory_order_acquire);
      const uint64_t now = slot.epoch_.load(std::memory_order_relaxed)->load();
      if (resolved != now) slot.Resolve();
      const Binding* binding = slot.current_.load(std::memory_order_acquire);
      if (binding->is_counted) binding = opt_counted_ = slot.Enter();
      kernel_ = binding->kernel;
    }
    ~Use() {
      if (opt_counted_ != nullptr) opt_counted_->num_calls.fetch_sub(1);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    const Kernel& kernel() const { return kernel_; }

   private:
    Kernel kernel_;
    Binding* opt_counted_ = nullptr;
  };

 private:
  static constexpr uint64_t kNever = ~uint64_t{0};
  using Released = std::vector<ObjectRef>;

  void Resolve() const;
  /// The current binding, whose calls are counted, with one more.
  Binding* Enter() const;
  // Under the mutex:
  Binding* Bind(ObjectRef function, const Kernel& kernel, Released* released) const;
  Binding* UnusedBinding() const;
  void ReleaseUnused(Released* released) const;

  const std::string reference_, opt_origin_;
  // A call reads these. Whoever binds a function writes epoch_, then current_, then resolved_.
  mutable std::atomic<const std::atomic<uint64_t>*> epoch_;  // of the registry, or one that stays 0
  mutable std::atomic<Binding*> current_{nullptr};
  mutable std::atomic<uint64_t> resolved_{kNever};  // the epoch that current_ is of
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Binding>> bindings_;  // the first, then the counted ones
};

}  // namespace graphffi
