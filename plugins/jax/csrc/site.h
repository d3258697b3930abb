// SPDX-License-Identifier: Apache-2.0
// Call sites: what a program's custom calls become when XLA instantiates them.
#pragma once

#include <tvm/ffi/function.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "call/placed_call.h"
#include "call/signature.h"
#include "kernels/kernel_ref.h"
#include "kernels/kernel_slot.h"
#include "observe/debug_call.h"

namespace graphffi_jax {

/// Borrowed from `function`.
inline TVMFFIObjectHandle HandleOf(const tvm::ffi::Function& function) {
  return tvm::ffi::detail::ObjectUnsafe::TVMFFIObjectPtrFromObjectRef(function);
}

/// A call site as its text, or that of a NamedTarget, says it. The fields that a call reads come
/// first.
struct SiteParts {
  std::shared_ptr<const graphffi::KernelSlot> kernel;
  graphffi::KernelFacts facts;
  bool pass_owning_tensor = false;  ///< lend Tensor objects instead of views
  bool is_ordered = false;          ///< a token comes before operands and results
  bool has_workspace = false;       ///< the last result is scratch memory, which programs don't see
  /// Of a NamedTarget, as targets of jax-tvm-ffi: float4 is passed in pairs, and kernels that are
  /// not given the results may return nothing.
  bool is_named = false;
  int64_t mutated = 0;  ///< how many of the last operands alias the last results
  /// Over i0…, o0… and attributes: how many arrays a call has is not known.
  graphffi::Signature signature;
  std::vector<tvm::ffi::Any> attributes;  ///< their values
  std::string key;                        ///< equal for equal parts only

  const std::string& subject() const { return signature.subject(); }
  /// All that is known until a text is read.
  void SetSubject(std::string subject) {
    signature = graphffi::Signature(graphffi::TensorNames::Parse(std::move(subject), ""));
  }
};

/// Shared by the calls of a site that have the same numbers of arrays.
struct Arity : graphffi::PlacedCall {
  Arity(int64_t operands, int64_t results, graphffi::PlacedCall call)
      : PlacedCall(std::move(call)), num_operands(operands), num_results(results) {}
  int64_t num_operands, num_results;  ///< of XLA's call, but for tokens
  std::unique_ptr<const Arity> opt_next;
};

/// What was said of it, with the attributes in its plan: shared by all call sites that say the
/// same, counted by them, and immutable but for functions that are registered anew.
class Site : public SiteParts {
 public:
  /// *New reference*. \throws Error for a value that the plan can't convert.
  static Site* Get(const SiteParts& parts);
  void Release();

  /// The Arity of a call with these numbers of arrays. Borrowed from the site. \throws
  /// Error(ValueError)
  const Arity& ArityOf(int64_t num_operands, int64_t num_results) const {
    const Arity* newest = opt_arities_.load(std::memory_order_acquire);
    const bool fits = newest != nullptr && newest->num_operands == num_operands &&
                      newest->num_results == num_results;
    return fits ? *newest : OtherArityOf(num_operands, num_results);
  }
  /// The kernel may enter Python, so that calls must be over before the interpreter ends.
  bool gated() const { return !facts.in_library; }
  /// Gated, ordered or with a workspace: there is something to do around a call.
  bool is_guarded() const { return is_guarded_; }
  /// The kernel gets the workspace as an argument; otherwise the env's allocator serves from it.
  bool passes_workspace() const { return passes_workspace_; }

  /// Remembers that a call needed `bytes` of a workspace of `capacity`.
  void NoteWorkspace(int64_t bytes, int64_t capacity) const;

  ~Site() { delete opt_arities_.load(std::memory_order_relaxed); }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

 private:
  explicit Site(const SiteParts& parts);
  /// *New reference*; NULL where there is none.
  static Site* Find(const std::string& key);
  const Arity* FindArity(int64_t num_operands, int64_t num_results) const;
  /// One that is not the newest, or is made now.
  const Arity& OtherArityOf(int64_t num_operands, int64_t num_results) const;

  mutable std::atomic<const Arity*> opt_arities_{nullptr};  // owned; they are only ever added
  bool lends_, is_guarded_, passes_workspace_;
  mutable std::atomic<int64_t> workspace_peak_{-1};
  int64_t references_ = 1;  // under the mutex of the table of sites
};

}  // namespace graphffi_jax
