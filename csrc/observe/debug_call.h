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
#include "call/signature.h"

namespace graphffi {

/// The tensors of one call as its definition has them. Borrowed.
struct DeclaredTensors {
  Bank inputs, outputs;
  int32_t num_fresh = 0;     ///< outputs, the first, whose contents nobody reads before the call
  const char* subject = "";  ///< begins the text of errors
  const char* kernel = "";   ///< its reference; "" where it has none
  const TensorNames* opt_names = nullptr;  ///< NULL: of a function, whose tensors are not known

  static DeclaredTensors Of(const Signature& signature, const Bank& inputs, const Bank& outputs,
                            int32_t num_fresh, const char* kernel = "") {
    const TensorNames& names = signature.names();
    return {inputs, outputs, num_fresh, names.subject.c_str(), kernel, &names};
  }
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
  void ForEach(Plan::Op op, Visit&& visit);
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
