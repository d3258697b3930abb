// SPDX-License-Identifier: Apache-2.0
// Kernel references: the strings by which graphs and artifacts name kernels.
#pragma once

#include <tvm/ffi/c_api.h>

#include <atomic>
#include <string>
#include <string_view>

#include "callframe/call_frame.h"

namespace graphffi {

/// Facts of a kernel beside its function.
struct KernelFacts {
  Kernel kernel;               ///< how to call it, as long as there is a reference to its function
  bool in_library = false;     ///< named by `library.so::symbol`
  bool takes_tensors = false;  ///< its metadata says that a parameter is a Tensor, which owns
};

/// The function that `reference` names; *new reference*. `global.name` is looked up in the function
/// registry at each call; `library.so::symbol` is loaded on first use and kept for the rest of the
/// process: an absolute path, else searched in the folders of GRAPHFFI_LIBRARY_PATH and then in
/// `opt_origin` (the artifact's folder).
/// \throws Error(KeyError) for an unknown function, Error(RuntimeError) for a library that does not
/// load.
TVMFFIObjectHandle ResolveKernel(std::string_view reference, std::string_view opt_origin = {},
                                 KernelFacts* opt_facts = nullptr);

/// Has references by the absolute `path` of a library mean the file that is there now, from the next
/// time that they are resolved. Gives whether that is another file. Thread-safe.
/// \throws Error(RuntimeError) as RenewLibrary does.
bool RenewKernels(const std::string& path);

/// Loads the library at `path`, kept for the rest of the process; from then on, references
/// `name::symbol` mean it, wherever they stand. `name` holds no slash. Thread-safe; the first
/// library of a name stays.
/// \throws Error(RuntimeError) if it does not load.
void ProvideLibrary(const std::string& name, const std::string& path);

/// Whether ProvideLibrary loaded a library as `name`. Thread-safe.
bool IsProvided(const std::string& name);

/// Whether a parameter of a signature (metadata's JSON, whose "type_schema" is JSON in a string) is
/// an owning tensor. What the function returns does not count.
bool TakesTensors(std::string_view metadata);

/// Whether `reference` is of the form `library.so::symbol`.
bool IsLibraryReference(std::string_view reference);

/// A kernel reference that is called often: a function of a library is resolved once, a global one,
/// which may be registered anew, for each call. Thread-safe.
class KernelSlot {
 public:
  explicit KernelSlot(std::string reference, std::string opt_origin = "")
      : reference_(std::move(reference)), opt_origin_(std::move(opt_origin)) {}

  const std::string& reference() const { return reference_; }

  /// The kernel for the duration of one call.
  class Use {
   public:
    /// \throws Error as ResolveKernel does.
    explicit Use(const KernelSlot& slot) {
      const Kernel* kept = slot.opt_kept_.load(std::memory_order_acquire);
      if (__builtin_expect(kept != nullptr, 1)) {
        kernel_ = *kept;
      } else {
        opt_owned_ = slot.Resolve(&kernel_);
      }
    }
    ~Use() {
      if (__builtin_expect(opt_owned_ != nullptr, 0)) TVMFFIObjectDecRef(opt_owned_);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    const Kernel& kernel() const { return kernel_; }

   private:
    Kernel kernel_;
    TVMFFIObjectHandle opt_owned_ = nullptr;
  };

 private:
  /// *New reference*.
  TVMFFIObjectHandle Resolve(Kernel* kernel) const;

  std::string reference_, opt_origin_;
  mutable std::atomic<const Kernel*> opt_kept_{nullptr};  // leaked, as ResolveKernel's are
};

}  // namespace graphffi
