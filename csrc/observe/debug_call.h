// SPDX-License-Identifier: Apache-2.0
// The checks of GRAPHFFI_DEBUG=1 around a kernel's call: writes outside of its outputs, changes of
// operands that it only reads, views that it keeps.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "call/call_frame.h"
#include "call/lent_tensor.h"
#include "call/object_ref.h"
#include "call/plan.h"

namespace graphffi {

/// Names of a call's tensors, for errors; empty if the program gives none.
struct TensorNames {
  std::vector<std::string> inputs, outputs;

  /// Reads text of the form `x, xs[0] -> out, cache`.
  static TensorNames Parse(const std::string& text);
};

/// The tensors of one call as its definition has them. Borrowed.
struct DeclaredTensors {
  Bank inputs, outputs;
  int32_t num_fresh = 0;  ///< outputs, the first, whose contents nobody reads before the call
  /// One for each slot; NULL or empty: i0… and o0…
  const std::vector<std::string>* opt_input_names = nullptr;
  const std::vector<std::string>* opt_output_names = nullptr;
  const char* subject = "";  ///< begins the text of errors
  const char* kernel = "";   ///< its reference; "" where it has none
  bool are_known = true;     ///< false: of a function, which has no definition
};

/// Checks around one call, by the thread that makes it. Tensors on other devices than the CPU are
/// left alone. Made once the arguments are in place; Finish comes after the kernel has returned and
/// before what is lent is settled.
///
/// While the kernel runs, outputs and its workspace are in memory of ours, between guard zones:
/// filled with a pattern, or with what the operand holds that the call updates.
class DebugChecks {
 public:
  /// All are borrowed. \throws std::bad_alloc
  DebugChecks(const PlacedFrame& frame, const DeclaredTensors& declared);
  ~DebugChecks();
  DebugChecks(const DebugChecks&) = delete;
  DebugChecks& operator=(const DebugChecks&) = delete;

  /// Gives outputs back. `rc` and `returned` are the kernel's. -1 with an error raised, if there is
  /// none and a check failed; `rc` otherwise.
  int Finish(int rc, const TVMFFIAny& returned);

 private:
  struct Guarded;
  struct Read {
    const DLTensor* tensor;
    std::string name;
    uint64_t hash;
  };

  template <typename Visit>
  void ForEach(const Bank& bank, const std::vector<std::string>* opt_names, char prefix,
               Visit&& visit);
  void Guard(DLTensor* tensor, std::string name, bool is_fresh, bool is_output);
  void GuardWorkspace(const TVMFFIAny& value);
  void CheckKept(const TVMFFIAny& value, const std::string& name, const TVMFFIAny& returned);
  void Add(const std::string& problem);

  const DeclaredTensors& declared_;
  const Loans& loans_;
  std::vector<ObjectRef> workspaces_;
  std::vector<std::unique_ptr<Guarded>> guarded_;  // of the workspaces, too
  std::vector<Read> read_;
  std::string problems_;
  bool has_kept_ = false;
};

}  // namespace graphffi
