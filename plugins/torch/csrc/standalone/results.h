// SPDX-License-Identifier: Apache-2.0
// Where a caller gets the results of a method: in memory of its allocator, or in tensors of its
// own.
#pragma once

#include <string>

#include "bounded_list.h"
#include "graph.h"
#include "operands.h"
#include "run.h"
#include "tensor.h"

namespace graphffi_standalone {

/// Results in memory of the allocator that the host has set, or of the graph where it has none.
class HostResults : public ResultMemory {
 public:
  HostResults(const Method& method, bool has_allocator)
      : method_(method), has_allocator_(has_allocator) {}

  Tensor* OptTake(int32_t i, const DLTensor& prototype) override;
  /// Makes result `i` what the caller gets: compact, in memory that outlives the call and belongs
  /// to nobody else, such as an operand's owner or a result before. Learns which allocation it was.
  /// \throws Error
  void Finish(int32_t i, BoundedList<ObjectRef>* results, const Operands& operands);

 private:
  ObjectRef Copy(const DLTensor& from) const;

  const Method& method_;
  const bool has_allocator_;
};

/// Results in tensors that the caller passes.
class Destinations : public ResultMemory {
 public:
  /// \throws Error(TypeError, ValueError) for one that is no contiguous tensor, or whose memory is
  /// not its own.
  /// The name of the function that is called, for errors, is the method's and `suffix`.
  Destinations(const Method& method, const char* suffix, const TVMFFIAny* args,
               const Operands& operands);

  Tensor* OptTake(int32_t i, const DLTensor& prototype) override;
  /// Puts those results there that are not yet, and learns which allocation each one was.
  void Fill(const BoundedList<ObjectRef>& results) const;

 private:
  [[noreturn]] void Fail(int32_t i, const std::string& expected, const std::string& got,
                         const char* kind = "ValueError") const;
  void CheckMemory(int32_t i, const Operands& operands) const;

  const Method& method_;
  const char* suffix_;
  BoundedList<const DLTensor*> tensors_;
};

}  // namespace graphffi_standalone
