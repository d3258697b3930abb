// SPDX-License-Identifier: Apache-2.0
// The operands of a call of a method: compared with what the model was exported for.
#pragma once

#include <optional>
#include <string>

#include "bounded_list.h"
#include "device.h"
#include "graph.h"
#include "tensor.h"

namespace graphffi_standalone {

/// \throws Error(TypeError) for a call with another number of arguments, with the operands' names.
[[noreturn]] void FailCount(const Method& method, const char* suffix, const std::string& expected,
                            const std::string& got);

/// References to the operands as the graph's code takes them. Lives on the stack of a call.
class Operands {
 public:
  /// \throws Error(TypeError, ValueError) that names every operand that does not fit.
  Operands(const Method& method, const TVMFFIAny* args, int32_t num_args);
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  /// Leaves tensors without elements to whoever kept what is only lent.
  ~Operands() { TakeEach(); }

  const BoundedList<DLTensor>& views() const { return views_; }
  /// Where the method runs: the GPU that has its operands, current while this lives, or the CPU.
  DLDevice device() const { return device_; }
  /// Whether a tensor is an operand, or has memory of one.
  bool Have(TVMFFIObjectHandle tensor) const;
  /// Adds the references to a list, for Method::run, which takes them over.
  void Release(BoundedList<TVMFFIObjectHandle>* handles);
  /// After the run. \throws Error(RuntimeError) where a kernel kept a tensor that is only lent.
  void TakeBack();

 private:
  void Check(const Operand& operand, const TVMFFIAny& arg);
  bool HasDevice(const Operand& operand, const DLTensor& view);
  void CheckSizes(const Operand& operand, const DLTensor& view);
  std::string Describe(const Operand& operand) const;
  void Expect(const Operand& operand, const std::string& got, bool is_value);
  void Take(const Operand& operand, const TVMFFIAny& arg);
  void CheckConditions() const;
  void CheckMemory(int32_t updated, const TVMFFIAny* args) const;
  bool TakeEach();

  const Method& method_;
  const TVMFFIAny* args_;
  std::string problems_;
  bool is_type_error_ = false;
  DLDevice device_;  // the first operand on a GPU decides its number; -1: not known yet
  std::optional<DeviceScope> scope_;
  BoundedList<int64_t> sizes_;  // of symbols; -1: not known yet
  BoundedList<DLTensor> views_;
  BoundedList<ObjectRef> taken_;
  BoundedList<ObjectRef> lent_;  // those whose memory ends with the call
};

}  // namespace graphffi_standalone
