// SPDX-License-Identifier: Apache-2.0
// A Tensor object made for one call around memory that a framework owns.
#pragma once

#include <tvm/ffi/c_api.h>

namespace graphffi {

struct LentTensorPool;

/// Laid out like any Tensor object. Made and settled by one thread; a kernel may take and drop
/// references on any. Shape and strides are its own copies, so that they live as long as it does.
class LentTensor {
 public:
  /// This thread's blocks of dropped tensors, kept for the next call.
  static LentTensorPool& ThreadPool();

  /// A tensor like `source`, with one reference, from this thread's pool. \throws std::bad_alloc
  static LentTensor* Make(const DLTensor& source, LentTensorPool& pool);

  TVMFFIObjectHandle handle() { return &header_; }
  const DLTensor* source() const { return source_; }
  LentTensor* next() const { return next_; }
  void set_next(LentTensor* next) { next_ = next; }

  /// Nobody but the maker holds a strong or weak reference.
  bool IsUnique() const;
  /// The memory now lives until the last reference is gone; `release(token)` runs then.
  void Retain(void* token, void (*release)(void* token));
  /// The memory is going away while somebody still holds the tensor.
  void Invalidate() { tensor_.data = nullptr; }
  /// Gives up the maker's reference.
  void Drop(LentTensorPool& pool);

 private:
  static constexpr int kInlineDims = 8;
  static void Delete(void* self, int flags);
  void Clear();
  void Free(LentTensorPool* opt_pool);

  // A Tensor object begins with these two.
  TVMFFIObject header_;
  DLTensor tensor_;
  const DLTensor* source_;
  LentTensor* next_;  // the maker's list, or the pool's
  void* token_;
  void (*opt_release_)(void* token);
  int64_t* opt_heap_dims_;
  int64_t inline_dims_[2 * kInlineDims];
};

}  // namespace graphffi
