// SPDX-License-Identifier: Apache-2.0
// Tensors of a graph. An AtenTensorHandle of its code is a Tensor object of TVM FFI: an operand of
// the graph as it came, or one of these, whose header, shape, strides and data are one block.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstddef>
#include <cstdint>

#include "call/object_ref.h"
#include "shim_tensor.h"

namespace graphffi_standalone {

using graphffi::ObjectRef;

inline size_t ElementBytes(DLDataType dtype) { return (size_t{dtype.bits} * dtype.lanes + 7) / 8; }

/// From the first element to the end of the last one; kTooLarge for more than there can be.
size_t SpanBytes(const DLTensor& tensor);
constexpr size_t kTooLarge = size_t{1} << 62;

/// New tensors are like a `prototype`, of which data and byte_offset are not read; its dimensions
/// are copied.
class Tensor {
 public:
  /// *New reference*, with memory of its own: of the env's allocator where that is a GPU's.
  /// \throws Error(MemoryError), or of the allocator
  static Tensor* Allocate(const DLTensor& prototype);
  /// *New reference* to memory at `data` that `opt_owner`, of which a reference is kept, owns; or,
  /// without one, that is only lent. \throws Error(MemoryError)
  static Tensor* View(void* data, const DLTensor& prototype, TVMFFIObjectHandle opt_owner);
  /// NULL if another library's code made the tensor.
  static Tensor* OptOf(TVMFFIObjectHandle tensor) {
    auto* header = static_cast<TVMFFIObject*>(tensor);
    return header->deleter == &Delete ? reinterpret_cast<Tensor*>(header) : nullptr;
  }

  const DLTensor& view() const { return tensor_; }
  TVMFFIObjectHandle handle() { return &header_; }
  /// The tensor whose memory this one shows; itself if it has memory of its own.
  TVMFFIObjectHandle root() { return has_memory_ || opt_owner_ == nullptr ? handle() : opt_owner_; }
  /// Whether the memory is of the env's allocator.
  bool is_of_env() const { return has_memory_ && opt_owner_ != nullptr; }
  /// The memory may end with the run, or must not be written.
  bool is_lent() const;
  /// Which of the run's allocations it is; -1 for none.
  int32_t ordinal() const { return ordinal_; }
  void set_ordinal(int32_t ordinal) { ordinal_ = ordinal; }

 private:
  static Tensor* Make(const DLTensor& prototype, size_t data_bytes);
  static void Delete(void* self, int flags);

  // A Tensor object begins with these two.
  TVMFFIObject header_;
  DLTensor tensor_;
  TVMFFIObjectHandle opt_owner_;
  size_t bytes_;        // of the block
  uint64_t workspace_;  // which it is in; 0: none
  bool has_memory_;
  int32_t ordinal_;
  // Then shape and strides; then, 64-byte aligned, the data.
};

/// *New reference* to a compact tensor of the env's allocator. \throws Error of it
TVMFFIObjectHandle AllocateInEnv(const DLTensor& prototype);

/// Copies elements of one dtype and one shape between any strides; the tensors do not overlap. What
/// a GPU copies is in the order of the env's stream, or there already if it goes to the CPU.
void CopyElements(const DLTensor& from, const DLTensor& to);

/// Copies what the first bytes of both tensors' memory are.
void CopyBytes(const DLTensor& from, const DLTensor& to, size_t bytes);

/// Sets all elements to zero.
void ClearElements(const DLTensor& tensor);

/// *New reference* to a copy like `prototype`, which has the tensor's dimensions and strides of its
/// own. \throws Error(MemoryError), or of the allocator
Tensor* CopyAs(const DLTensor& prototype, const DLTensor& tensor);

/// *New reference* to a compact copy. \throws Error(MemoryError)
Tensor* CompactCopy(const DLTensor& tensor);

/// Whether two tensors have one dtype and one shape.
bool AreAlike(const DLTensor& a, const DLTensor& b);

/// Whether two tensors may have an element in common.
bool Overlap(const DLTensor& a, const DLTensor& b);

}  // namespace graphffi_standalone
