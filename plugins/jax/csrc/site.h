// SPDX-License-Identifier: Apache-2.0
// Call sites: what a program's custom calls become when XLA instantiates them.
#pragma once

#include <tvm/ffi/function.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "call/call_frame.h"
#include "call/layout.h"
#include "call/plan.h"
#include "kernels/kernel_ref.h"
#include "kernels/kernel_slot.h"
#include "observe/debug_call.h"

namespace graphffi_jax {

/// Borrowed from `function`.
inline TVMFFIObjectHandle HandleOf(const tvm::ffi::Function& function) {
  return tvm::ffi::detail::ObjectUnsafe::TVMFFIObjectPtrFromObjectRef(function);
}

/// A call site as its text, or that of a NamedTarget, says it.
struct SiteParts {
  std::string key;  ///< equal for equal parts only
  std::shared_ptr<const graphffi::KernelSlot> kernel;
  graphffi::KernelFacts facts;
  std::string subject;  ///< begins the text of errors
  graphffi::TensorNames names;
  graphffi::Plan plan;                    ///< over i0…, o0… and attributes
  std::vector<tvm::ffi::Any> attributes;  ///< their values
  int64_t mutated = 0;                    ///< how many of the last operands alias the last results
  bool pass_owning_tensor = false;        ///< lend Tensor objects instead of views
  bool is_ordered = false;                ///< a token comes before operands and results
  bool has_workspace = false;             ///< the last result is scratch memory
  bool is_named = false;                  ///< of a NamedTarget
};

/// Shared by the calls of a site that have the same numbers of arrays.
struct Arity {
  int64_t num_operands, num_results;  ///< of XLA's call, but for tokens
  graphffi::Layout layout;            ///< of exactly as many values as there are
  int32_t num_inputs, num_outputs;    ///< that the plan picks from
  int32_t num_values;                 ///< these, and constants
  int32_t num_returned;               ///< of the outputs: results, not operands that are updated
  bool is_passed;    ///< the plan passes one of these, so that the kernel fills them
  bool is_filled;    ///< the kernel may return nothing: that, or there are none
  bool needs_frame;  ///< tensors are lent, or the arguments are not just the values in order
  std::unique_ptr<const Arity> opt_next;
};

/// A kernel and its plan, with the attributes in it: shared by all call sites that say the same,
/// counted by them, and immutable but for functions that are registered anew.
class Site {
 public:
  /// *New reference*. \throws Error for a value that the plan can't convert.
  static Site* Get(const SiteParts& parts);
  void Release();

  const graphffi::KernelSlot& kernel() const { return *kernel_; }
  /// Has no attributes left.
  const graphffi::Plan& plan() const { return plan_; }
  /// The Arity of a call with these numbers of arrays. Borrowed from the site. \throws
  /// Error(ValueError)
  const Arity& ArityOf(int64_t num_operands, int64_t num_results) const {
    const Arity* newest = opt_arities_.load(std::memory_order_acquire);
    const bool fits = newest != nullptr && newest->num_operands == num_operands &&
                      newest->num_results == num_results;
    return fits ? *newest : OtherArityOf(num_operands, num_results);
  }
  /// Tensors are lent as owning Tensor objects instead of being passed as views.
  bool lends() const { return lends_; }
  /// The kernel may enter Python, so that calls must be over before the interpreter ends.
  bool gated() const { return gated_; }
  /// Gated, ordered or with a workspace: there is something to do around a call.
  bool is_guarded() const { return is_guarded_; }
  /// The first operand and the first result are tokens, by which XLA orders calls.
  bool is_ordered() const { return is_ordered_; }
  /// The last result is scratch memory, hidden from the program.
  bool has_workspace() const { return has_workspace_; }
  /// The kernel gets it as an argument; otherwise the env's allocator serves from it.
  bool passes_workspace() const { return passes_workspace_; }
  /// As targets of jax-tvm-ffi: float4 is passed in pairs, and kernels that are not given the
  /// results may return nothing.
  bool is_named() const { return is_named_; }
  const std::string& subject() const { return subject_; }
  const graphffi::TensorNames& names() const { return names_; }

  /// Remembers that a call needed `bytes` of a workspace of `capacity`.
  void NoteWorkspace(int64_t bytes, int64_t capacity) const;

  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

 private:
  explicit Site(const SiteParts& parts);
  ~Site() { delete opt_arities_.load(std::memory_order_relaxed); }
  struct Deleter {
    void operator()(Site* site) const { delete site; }
  };
  /// *New reference*; NULL where there is none.
  static Site* Find(const std::string& key);
  const Arity* FindArity(int64_t num_operands, int64_t num_results) const;
  const Arity& OtherArityOf(int64_t num_operands, int64_t num_results) const;
  const Arity& AddArity(int64_t num_operands, int64_t num_results) const;

  // The fields that a call reads come first.
  std::shared_ptr<const graphffi::KernelSlot> kernel_;
  mutable std::atomic<const Arity*> opt_arities_{nullptr};  // owned; they are only ever added
  bool lends_, gated_, is_ordered_, has_workspace_, is_named_, is_guarded_, passes_workspace_;
  const int64_t mutated_;
  graphffi::Plan plan_;
  mutable std::atomic<int64_t> workspace_peak_{-1};
  std::string subject_;
  const graphffi::TensorNames names_;
  const std::string key_;
  int64_t references_ = 1;  // under the mutex of the table of sites
};

}  // namespace graphffi_jax
